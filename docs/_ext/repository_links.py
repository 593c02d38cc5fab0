"""Links that leave the documentation (to the sources, the examples, the changelog) become plain names on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+|[^):#\s]+/)\)")
PAGES = {"README.md": "index", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}


def plain(page: str, text: str, docs: Path) -> str:
    """The text of a page, with links to files outside the documentation replaced by their words."""

    def replaced(found: re.Match[str]) -> str:
        words, target = found.groups()
        path, _, anchor = target.partition("#")
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if inside.startswith("../"):
            name = PAGES.get(posixpath.basename(path))
            return f"[{words}](/{name}.md)" if name else words
        if (docs / inside).is_dir():
            index = next((name for name in ("index.md", "README.md") if (docs / inside / name).exists()), None)
            return f"[{words}](/{inside}/{index})" if index else words
        return found.group(0) if anchor or (docs / inside).exists() else words

    return LINK.sub(replaced, text)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""

    def read(app: Any, page: str, source: list[str]) -> None:
        if app.env.doc2path(page).suffix != ".ipynb":
            source[0] = plain(page, source[0], Path(app.srcdir))

    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True}
