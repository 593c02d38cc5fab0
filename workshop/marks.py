"""Generated parts of written pages, each between two marks: ``<!-- name: begin -->`` and ``<!-- name: end -->``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from sortition.core.errors import bad

COLUMNS = 150  # of generated paragraphs


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


def wrapped(paragraph: str, indent: str = "") -> str:
    """Return a paragraph in lines of one width, those after the first indented; no word or link is broken."""
    return textwrap.fill(
        " ".join(paragraph.split()),
        width=COLUMNS,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
