"""Fill the notebooks with what their cells give: ``python -m workshop notebooks``, part of ``make pages``.

Each cell is executed in order, as the tests do, and stored with what it prints and the value of its last line: pages of
the site, and a repository's view of a notebook, then show results without being run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from workshop import DOCS

RICH = ("image/svg+xml", "text/html")  # forms of a value that a page can show, the best first


def fill_notebooks() -> None:
    """Fill all notebooks, each in a folder that is thrown away."""
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            fill_notebook(path)


def fill_notebook(path: Path) -> None:
    """Execute a notebook and store its outputs."""
    document = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "notebook"}
    number = 0
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = execute_cell("".join(cell["source"]), namespace, number)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def execute_cell(code: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell: what it prints, and the value of its last line where that is an expression."""
    tree = ast.parse(code)
    last_expression = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last_expression = tree.body.pop()
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), namespace)  # noqa: S102
        if isinstance(last_expression, ast.Expr):
            expression = ast.Expression(last_expression.value)
            value = eval(compile(expression, f"cell {number}", "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": stored_lines(printed.getvalue())})
    if value is not None:
        data = {kind: stored_lines(text) for kind, text in shown_forms(value).items()}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def shown_forms(value: Any) -> dict[str, str]:
    """Return the forms in which a notebook shows a value, by MIME type."""
    rich: dict[str, str] = {}
    if isinstance(value, alt.TopLevelMixin):  # its own markup loads scripts from the network
        rich = {"image/svg+xml": vl_convert.vegalite_to_svg(value.to_dict())}
    elif hasattr(value, "_repr_mimebundle_"):
        rich = {kind: text for kind, text in value._repr_mimebundle_().items() if kind in RICH}
    elif hasattr(value, "_repr_html_"):
        rich = {"text/html": value._repr_html_()}
    plain_text = type(value).__name__ if rich else repr(value)  # a name, since the text may hold paths
    return {**rich, "text/plain": plain_text}


def stored_lines(text: str) -> list[str]:
    """Split a text as notebooks store it; a study's temporary folder, whose name changes, is called ``runs``."""
    folder = re.escape(str(Path(tempfile.gettempdir()) / "sortition-"))
    return re.sub(rf"{folder}\w+", "runs", text).splitlines(keepends=True)
