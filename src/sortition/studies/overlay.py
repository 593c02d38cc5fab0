"""Tables laid over tables: settings over a study, ``--set`` over both, and sweeps. Plain dictionaries in and out."""

from __future__ import annotations

import copy
import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sortition.core.errors import InputError, bad, unknown
from sortition.core.validation import is_whole

Table = dict[str, Any]
RANGE = ("from", "to", "step", "count", "log")
MOST = 10_000  # values of one key in a sweep


def label_of(method: Mapping[str, Any]) -> str:
    """What a method is called in one study."""
    return str(method.get("label") or method.get("name") or "")


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Table:
    """``over`` laid upon ``under``; a table that changes its ``name`` replaces, methods meet by their label."""
    result = copy.deepcopy(dict(under))
    for key, value in over.items():
        held = result.get(key)
        held = {"name": held} if isinstance(held, str) and isinstance(value, Mapping) else held
        if key == "method" and isinstance(held, list) and isinstance(value, list):
            result[key] = _methods(held, value)
        elif isinstance(held, dict) and isinstance(value, Mapping) and not _renamed(held, value):
            result[key] = merged(held, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _renamed(held: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "name" in value and "name" in held and value["name"] != held["name"]


def _methods(under: list[Table], over: list[Table]) -> list[Table]:
    result = copy.deepcopy(under)
    places = {label_of(method): at for at, method in enumerate(result)}
    for method in over:
        at = places.get(label_of(method))
        if at is None:
            result.append(copy.deepcopy(method))
        else:
            result[at] = merged(result[at], method)
    return result


def assign(table: Table, text: str) -> Table:
    """``a.b=c`` laid upon a study; ``method.LABEL.key`` and ``setting.NAME.key`` name one of several."""
    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise bad("--set", "key=value, such as cohort=5 or local.lr=0.1", text)
    return placed(table, parts, parsed(value.strip()))


def parsed(text: str) -> Any:
    """A TOML value; whatever is none is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # ValueError: not TOML, or a number of thousands of digits
        return text


def placed(table: Table, parts: list[str], value: Any) -> Table:
    """``value`` at a path; one of several (method, setting) is named by its label, which may hold dots."""
    head = parts[0]
    several = table.get(head)
    if head not in ("method", "setting") or len(parts) < 3:
        for part in reversed(parts):
            value = {part: value}
        return merged(table, value)
    if not isinstance(several, list) or not all(isinstance(item, Mapping) for item in several):
        raise bad(head, f"a list of tables, [[{head}]]", several)
    names = [label_of(item) for item in several]
    found = [(at, n) for at in range(len(names)) for n in range(2, len(parts)) if ".".join(parts[1:n]) == names[at]]
    if not found:
        raise unknown(head, parts[1], names)
    at, n = found[0]
    changed = [*several]
    changed[at] = placed(several[at], parts[n:], value)
    return {**table, head: changed}


def sweep(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """``[sweep]``, flattened: dotted key → the values it takes."""
    values: dict[str, list[Any]] = {}
    if not isinstance(table, Mapping):
        raise bad("sweep", "a table", table)
    for key, value in table.items():
        if isinstance(value, list):
            if not value:
                raise bad(f"sweep.{key}", "a list of at least one value", value)
            values[key] = value
        elif isinstance(value, Mapping) and "from" in value:
            values[key] = spread(f"sweep.{key}", value)
        elif isinstance(value, Mapping):
            values |= {f"{key}.{rest}": found for rest, found in sweep(value).items()}
        else:
            raise bad(f"sweep.{key}", "a list, or a range { from, to, step or count }", value)
    return values


def spread(who: str, table: Mapping[str, Any]) -> list[Any]:
    """The values of a range: by step, or evenly (``log``: geometrically) by count. Both ends are in."""
    for key in table:
        if key not in RANGE:
            raise unknown("key", f"{who}.{key}", RANGE, "a range")
    try:
        start, end, count = _ends_and_count(who, table)
        if count > MOST:
            raise bad(who, f"of at most {MOST:,} values", f"{count:,}")
        make = np.geomspace if table.get("log") else np.linspace
        found = [float(f"{value:.12g}") for value in make(start, end, count)]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise bad(who, "{ from = number, to = number, step or count }", dict(table)) from None
    whole = all(isinstance(table[key], int) for key in ("from", "to")) and all(v.is_integer() for v in found)
    return [int(value) for value in found] if whole else found


def _ends_and_count(who: str, table: Mapping[str, Any]) -> tuple[float, float, int]:
    """First value, last value and number of values of a range."""
    start, end = float(table["from"]), float(table["to"])
    step, count = table.get("step"), table.get("count")
    if (step is None) == (count is None):
        raise InputError(f"{who} must be given either step or count; got {dict(table)}.")
    if step is None:
        if count is None or not is_whole(count, 1):
            raise bad(f"{who}.count", "a whole number ≥ 1", count)
        return start, end, int(count)
    if not step * (end - start) > 0:
        raise bad(f"{who}.step", "a way from 'from' to 'to'", step)
    steps = math.floor((end - start) / step + 1e-9)
    return start, start + steps * step, steps + 1


def combinations(values: Mapping[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All combinations: a label such as ``lr=0.1,beta=0.5`` and key → value."""
    labelled = [
        [(f"{key.rsplit('.')[-1]}={text}", key, value) for text, value in zip(_texts(found), found, strict=True)]
        for key, found in values.items()
    ]
    for chosen in itertools.product(*labelled):
        yield ",".join(label for label, _, _ in chosen), {key: value for _, key, value in chosen}


def _texts(values: list[Any]) -> list[str]:
    """A short text for each value of a key; tables of one name are told apart by the options that differ."""
    tables = [value if isinstance(value, Mapping) else {"name": value} for value in values]
    names = [_short(table.get("name", table)) for table in tables]
    texts = []
    for name, table in zip(names, tables, strict=True):
        alike = [other for other, other_name in zip(tables, names, strict=True) if other_name == name]
        texts.append(",".join([name, *[f"{key}={_short(table[key])}" for key in _differing(alike) if key in table]]))
    return texts


def _differing(tables: list[Mapping[str, Any]]) -> list[str]:
    """The keys, but for the name, whose values differ between some tables."""
    keys = dict.fromkeys(key for table in tables for key in table if key != "name")
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def _short(value: Any) -> str:
    text = format(value, "g") if isinstance(value, float) else str(value)
    return "".join(c for c in text if c.isalnum() or c in "-+.")
