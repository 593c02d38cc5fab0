"""Texts in the terminal; no blanks at the ends of lines where they are piped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

ROLE = re.compile(r":\w+:(?=`)")  # :func:`name` is Sphinx's; a terminal shows the name


def strip_markup(text: str) -> str:
    """Return a line of a docstring without the marks of code and roles."""
    return ROLE.sub("", text).replace("`", "")


def print_prose(text: str, screen: Console) -> None:
    """Print Markdown."""
    from sortition.cli.markdown import Prose  # here: it is a third of what all commands take to load

    prose = Prose(ROLE.sub("", text), hyperlinks=False)
    if screen.is_terminal:
        screen.print(prose)
        return
    with screen.capture() as capture:
        screen.print(prose)
    for line in capture.get().splitlines():
        screen.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)
