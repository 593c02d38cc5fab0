"""Pydantic's findings in our one grammar; the only place that reads its error codes."""

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


def check_takes(function: Callable[..., object], names: tuple[str, ...], who: str, **options: object) -> None:
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


def translated(error: ValidationError, who: str, known: Iterable[str] = ()) -> InputError:
    """Write the first finding of a pydantic error in our grammar; ``known`` are the names that ``who`` has."""
    details = cast(list[dict[str, Any]], error.errors(include_url=False))
    for finding in details:  # an unknown name is the likelier slip than what it made invalid
        if finding["type"] in _UNKNOWN:
            return unknown("key", str(finding["loc"][-1]), known, who)
    return _translated_finding(details[0], who)


def _translated_finding(finding: Mapping[str, Any], who: str) -> InputError:
    """Translate one of pydantic's errors, on an option that exists, into an error of ours."""
    name = ".".join([who, *(str(part) for part in finding["loc"])])
    code = finding["type"]
    context = finding.get("ctx", {})
    value = finding["input"]
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
        return bad(name, finding["msg"].removeprefix("List should have "), value)
    first_word = code.split("_")[0]
    return bad(name, _KINDS.get(first_word, finding["msg"].lower()), value)
