"""Fill the notebooks with what their cells give: ``python docs/_ext/notebook_outputs.py``, part of ``make pages``.

Each cell is executed in order, as the tests do, and stored with what it prints and the value of its last line: pages of
the site, and a repository's view of a notebook, then show results without being run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
RICH = ("image/svg+xml", "text/html")  # forms of a value that a page can show, the best first


def fill(path: Path) -> None:
    """Execute a notebook and store its outputs."""
    document = json.loads(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": "notebook"}
    number = 0
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = executed("".join(cell["source"]), space, number)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def executed(code: str, space: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The outputs of a cell: what it prints, and the value of its last line where that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), space)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {kind: lines(text) for kind, text in shown(value).items()}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def shown(value: Any) -> dict[str, str]:
    """The forms in which a notebook shows a value."""
    rich: dict[str, str] = {}
    if isinstance(value, alt.TopLevelMixin):  # its own markup loads scripts from the network
        rich = {"image/svg+xml": vl_convert.vegalite_to_svg(value.to_dict())}
    elif hasattr(value, "_repr_mimebundle_"):
        rich = {kind: text for kind, text in value._repr_mimebundle_().items() if kind in RICH}
    elif hasattr(value, "_repr_html_"):
        rich = {"text/html": value._repr_html_()}
    return {**rich, "text/plain": type(value).__name__ if rich else repr(value)}  # a name: the text may hold paths


def lines(text: str) -> list[str]:
    """A text as notebooks store it; the temporary folder of a study, which has another name each time, is ``runs``."""
    folder = re.escape(str(Path(tempfile.gettempdir()) / "sortition-"))
    return re.sub(rf"{folder}\w+", "runs", text).splitlines(keepends=True)


def main() -> None:
    """Fill all notebooks, in a folder that is thrown away."""
    before = Path.cwd()
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            try:
                fill(path)
            finally:
                os.chdir(before)


if __name__ == "__main__":
    main()
