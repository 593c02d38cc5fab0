"""Generated parts of written pages, each between two marks: ``<!-- name: begin -->`` and ``<!-- name: end -->``."""

from __future__ import annotations

from collections.abc import Mapping

from sortition.core.errors import bad


def fill_marks(text: str, parts: Mapping[str, str]) -> str:
    """Return the text of a page with each part between the marks of its name."""
    for name, part in parts.items():
        begin = f"<!-- {name}: begin -->\n"
        end = f"<!-- {name}: end -->"
        text_above, begin_found, remainder = text.partition(begin)
        _, end_found, text_below = remainder.partition(end)
        if not (begin_found and end_found):
            raise bad("The page", f"one with the lines {begin.strip()} and {end}", "one without")
        text = f"{text_above}{begin}{part.strip()}\n{end}{text_below}"
    return text
