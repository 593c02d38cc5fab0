"""Seeded slips: a copy of a function with one place of its source changed, to show that a test can fail."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def slipped(function: Callable[..., Any], right: str, wrong: str) -> Callable[..., Any]:
    """The function (or plain method) with ``right`` read as ``wrong``; it must occur exactly once."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1, f"{right!r} occurs {source.count(right)} times in {function.__qualname__}"
    code = compile(
        source.replace(right, wrong), function.__code__.co_filename, "exec", __future__.annotations.compiler_flag
    )
    made: dict[str, Any] = {}
    exec(code, function.__globals__, made)  # noqa: S102 - our own source, in its own module's names
    return made[function.__name__]
