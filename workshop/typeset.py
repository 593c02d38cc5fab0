"""Formulas of the documentation as MathML, which browsers typeset without a script or a network."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def to_mathml(latex: str, *, display: bool) -> str:
    """Return a formula in LaTeX as MathML."""
    return str(convert(" ".join(latex.split()), display="block" if display else "inline"))


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx, which calls this function."""
    from docutils import nodes

    def inline(writer: Any, node: Any) -> None:
        writer.body.append(to_mathml(node.astext(), display=False))
        raise nodes.SkipNode

    def block(writer: Any, node: Any) -> None:
        writer.body.append(f'<div class="formula">{to_mathml(node.astext(), display=True)}</div>')
        raise nodes.SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
