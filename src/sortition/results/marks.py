"""Generated parts of written pages, each between two marks: ``<!-- name: begin -->`` and ``<!-- name: end -->``."""

from __future__ import annotations

from collections.abc import Mapping

from sortition.core.errors import bad


def filled(text: str, parts: Mapping[str, str]) -> str:
    """The text of a page with these parts between their marks."""
    for name, made in parts.items():
        first, last = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, begun, rest = text.partition(first)
        _, ended, after = rest.partition(last)
        if not (begun and ended):
            raise bad("The page", f"one with the lines {first.strip()} and {last}", "one without")
        text = f"{before}{first}{made.strip()}\n{last}{after}"
    return text
