"""Pydantic's findings in our one grammar; the only place that reads its error codes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from pydantic import ConfigDict, ValidationError, with_config

from sortition.core.errors import InputError, bad, unknown

_BOUNDS = {"greater_than": ("gt", ">"), "greater_than_equal": ("ge", "≥"), "less_than": ("lt", "<")}
_BOUNDS |= {"less_than_equal": ("le", "≤")}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a table",
    "model": "a table",
    "dataclass": "a table",
    "finite": "finite",
    "is": "an instance of its class",
}
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")

C = TypeVar("C")


def is_number(value: object) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object, least: int) -> bool:
    """Whether it is a whole number from ``least`` on, NumPy's included; true and false are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def as_builtin(value: object) -> object:
    """NumPy's whole numbers as Python's, which JSON can write; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def check_takes(function: Callable[..., Any], names: tuple[str, ...], who: str, **options: Any) -> None:
    """Refuse a user's function that cannot be called with these arguments, in this order, before anything runs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of C's functions do not tell
        return
    try:
        signature.bind(*names, **options)
    except TypeError:
        raise bad(who, f"a function ({', '.join(names)})", f"one with the parameters {signature}") from None


def known_keys_only(cls: type[C]) -> type[C]:
    """Let pydantic refuse keys that a dataclass does not have, where it is made from a table of a file."""
    return with_config(ConfigDict(extra="forbid"))(cls)


def translated(error: ValidationError, owner: str, known: Iterable[str] = ()) -> InputError:
    """The first finding of a pydantic error in our grammar; ``known`` are the names that the owner has."""
    found = error.errors(include_url=False)
    # an unknown name is the likelier slip than what it made invalid
    first: Any = next((e for e in found if e["type"] in _UNKNOWN), found[0])
    path = ".".join(str(part) for part in first["loc"])
    who = f"{owner}.{path}" if path else owner
    kind, context = first["type"], first.get("ctx", {})
    if kind in _UNKNOWN:
        return unknown("key", str(first["loc"][-1]), known, owner)
    if kind.startswith("missing"):
        return InputError(f"{who} must be given; got nothing.")
    if kind in _BOUNDS:
        key, sign = _BOUNDS[kind]
        return bad(who, f"{sign} {context[key]:g}", first["input"])
    if kind == "literal_error":
        return bad(who, f"one of {context['expected']}", first["input"])
    if kind == "value_error":
        cause = context["error"]
        return cause if isinstance(cause, InputError) else bad(who, str(cause), first["input"])
    if "too_short" in kind or "too_long" in kind:
        return bad(who, first["msg"].removeprefix("List should have "), first["input"])
    return bad(who, _KINDS.get(kind.split("_")[0], first["msg"].lower()), first["input"])
