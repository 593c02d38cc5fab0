"""Whose code may run: names such as ``package.module:Class`` in a file import a module, and importing runs it.

Python callers, and names typed on the command line, are the user's own word. A file may come from a stranger: commands
that read one do so inside :func:`only`, so that it names nothing that the user did not allow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sortition.core.errors import InputError, bad

OURS = (
    "sortition.reproduction.figures.",
    "sortition.reproduction.theory.bias.",
    "sortition.selectors.",
)  # named freely
_allowed: ContextVar[tuple[str, ...] | None] = ContextVar("allowed", default=None)


@contextmanager
def only(modules: Iterable[str]) -> Iterator[None]:
    """Until this ends, nothing is imported by name but these modules and what is inside them."""
    before = _allowed.set(tuple(modules))
    try:
        yield
    finally:
        _allowed.reset(before)


def imported(path: str, what: str) -> Any:
    """What ``package.module:name`` means, if it may be imported."""
    module, _, attribute = path.partition(":")
    ours = f"{module}.".startswith(OURS)
    allowed = _allowed.get()
    if allowed is not None and not ours and not any(f"{module}.".startswith(f"{one}.") for one in allowed):
        raise InputError(
            f"{what} {path!r} would import and run code of the module {module!r}. "
            f"If you trust it, add --allow {module}."
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise bad(what, "importable as package.module:name", path, f"{error}.") from error
    if ours and allowed is not None and getattr(found, "__module__", "") != module:
        raise bad(what, f"something that {module} defines", path)
    return found
