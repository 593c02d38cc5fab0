"""Generated parts of written pages, each between two marks: ``<!-- name: begin -->`` and ``<!-- name: end -->``."""

from __future__ import annotations

from collections.abc import Mapping

from sortition.core.errors import bad


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return the text of a page with these parts between their marks."""
    for name, part in parts.items():
        begin = f"<!-- {name}: begin -->\n"
        end = f"<!-- {name}: end -->"
        start = text.find(begin)
        stop = text.find(end, start + len(begin))
        if start < 0 or stop < 0:
            raise bad("The page", f"one with the lines {begin.strip()} and {end}", "one without")
        text = f"{text[:start]}{begin}{part.strip()}\n{text[stop:]}"
    return text
