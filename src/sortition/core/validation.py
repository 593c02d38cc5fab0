"""Turns pydantic's errors into ours, and checks values; no other module reads pydantic's error codes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from pydantic import ConfigDict, ValidationError, with_config

from sortition.core.errors import InputError, bad, unknown

# pydantic's code of a bound → the key of its limit, and the sign that we write
_BOUNDS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", "≥"),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "≤"),
}
# the first word of pydantic's code of a type → what we call it
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
    """Tell whether a value is a number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is a whole number from ``least`` on, NumPy's included; true and false are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def as_builtin(value: object) -> object:
    """Return NumPy's whole numbers as Python's, which JSON can write; anything else as it is."""
    if isinstance(value, np.integer):
        return int(value)
    return value


def check_parameters(function: Callable[..., object], names: tuple[str, ...], subject: str, **options: object) -> None:
    """Refuse a user's function that cannot be called with these arguments, in this order, before anything runs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of C's functions do not tell
        return
    try:
        signature.bind(*names, **options)
    except TypeError:
        raise bad(subject, f"a function ({', '.join(names)})", f"one with the parameters {signature}") from None


def refuse_unknown_keys(cls: type[C]) -> type[C]:
    """Make pydantic refuse keys that a dataclass does not have, where it reads one from a table of a file."""
    return with_config(ConfigDict(extra="forbid"))(cls)


def translate_error(error: ValidationError, subject: str, known: Iterable[str] = ()) -> InputError:
    """Return the first detail of a pydantic error as an error of ours; ``known`` are the names that ``subject`` has."""
    details = cast(list[dict[str, Any]], error.errors(include_url=False))
    for detail in details:  # an unknown name is the likelier slip than what it made invalid
        if detail["type"] in _UNKNOWN:
            return unknown("key", str(detail["loc"][-1]), known, subject)
    return _translate_detail(details[0], subject)


def _translate_detail(detail: Mapping[str, Any], subject: str) -> InputError:
    """Translate one detail of a pydantic error, about an option that exists, into an error of ours."""
    name = ".".join([subject, *(str(part) for part in detail["loc"])])
    code = detail["type"]
    context = detail.get("ctx", {})
    value = detail["input"]
    if code.startswith("missing"):
        return InputError(f"{name} must be given; got nothing.")
    if code in _BOUNDS:
        key, sign = _BOUNDS[code]
        return bad(name, f"{sign} {context[key]:g}", value)
    if code == "literal_error":
        return bad(name, f"one of {context['expected']}", value)
    if code == "value_error":
        cause = context["error"]
        if isinstance(cause, InputError):
            return cause
        return bad(name, str(cause), value)
    if "too_short" in code or "too_long" in code:
        return bad(name, detail["msg"].removeprefix("List should have "), value)
    first_word = code.split("_")[0]
    return bad(name, _KINDS.get(first_word, detail["msg"].lower()), value)
