"""Links that leave the documentation (to the sources, the examples, the changelog) become plain names on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+|[^):#\s]+/)\)")
PAGES = {"README.md": "index", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}


def without_outside_links(page: str, text: str, docs: Path) -> str:
    """Return the text of a page, with links to files outside the documentation replaced by their words."""

    def replaced(link: re.Match[str]) -> str:
        words, address = link.groups()
        path, _, anchor = address.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if target.startswith("../"):
            name = PAGES.get(posixpath.basename(path))
            return f"[{words}](/{name}.md)" if name else words
        if (docs / target).is_dir():
            index = next((name for name in ("index.md", "README.md") if (docs / target / name).exists()), None)
            return f"[{words}](/{target}/{index})" if index else words
        if anchor or (docs / target).exists():
            return link.group(0)
        return words

    return LINK.sub(replaced, text)


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx, which calls this function."""

    def read(app: Any, page: str, source: list[str]) -> None:
        if app.env.doc2path(page).suffix != ".ipynb":
            source[0] = without_outside_links(page, source[0], Path(app.srcdir))

    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True}
