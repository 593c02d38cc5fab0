"""Tables laid over tables: settings over a study, ``--set`` over both, and sweeps. Plain dictionaries in and out."""

from __future__ import annotations

import copy
import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sortition.core.errors import InputError, bad, unknown
from sortition.core.validation import is_whole
from sortition.studies.folder_names import as_seen
from sortition.studies.types import ReadOnlyTable, TomlTable

RANGE_KEYS = ("from", "to", "step", "count", "log")
MAX_VALUES = 10_000  # of one key in a sweep
TABLE_LISTS = ("method", "setting")  # keys that hold a list of tables, each with a label of its own
SweptValues = dict[str, list[Any]]
"""A dotted key → the values that it takes in a sweep."""


def label_of(method: ReadOnlyTable) -> str:
    """Return what a method, or a setting, is called in one study."""
    return str(method.get("label") or method.get("name") or "")


# -- one table over another -----------------------------------------------------------------------------------------


def merged(base: ReadOnlyTable, changes: ReadOnlyTable) -> TomlTable:
    """Return ``base`` with ``changes``; a table that changes its ``name`` replaces, methods meet by their label."""
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        base_value = result.get(key)
        if isinstance(base_value, str) and isinstance(value, Mapping):
            base_value = {"name": base_value}
        if key == "method" and isinstance(base_value, list) and isinstance(value, list):
            result[key] = _merged_methods(base_value, value)
        elif isinstance(base_value, dict) and isinstance(value, Mapping) and not _changes_name(base_value, value):
            result[key] = merged(base_value, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _changes_name(base: ReadOnlyTable, changes: ReadOnlyTable) -> bool:
    return "name" in changes and "name" in base and changes["name"] != base["name"]


def _merged_methods(base: list[TomlTable], changes: list[TomlTable]) -> list[TomlTable]:
    result = copy.deepcopy(base)
    position_by_label = {label_of(method): position for position, method in enumerate(result)}
    for method in changes:
        position = position_by_label.get(label_of(method))
        if position is None:
            result.append(copy.deepcopy(method))
        else:
            result[position] = merged(result[position], method)
    return result


def with_assignment(table: TomlTable, text: str) -> TomlTable:
    """Return a study with ``a.b=c``; ``method.LABEL.key`` and ``setting.NAME.key`` name one of several tables."""
    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise bad("--set", "key=value, such as cohort=5 or local.lr=0.1", text)
    return with_value_at(table, parts, parse_value(value.strip()))


def parse_value(text: str) -> Any:
    """Return a text as a TOML value; a text that is none stays a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # ValueError: not TOML, or a number of thousands of digits
        return text


def with_value_at(table: TomlTable, path: list[str], value: Any) -> TomlTable:
    """Return the table with a value at a path; one of several methods or settings is named by its label."""
    key = path[0]
    if key not in TABLE_LISTS or len(path) < 3:
        nested = value
        for part in reversed(path):
            nested = {part: nested}
        return merged(table, nested)
    members = table.get(key)
    if not isinstance(members, list) or not all(isinstance(member, Mapping) for member in members):
        raise bad(key, f"a list of tables, [[{key}]]", members)
    position, label_length = _named_member(key, path[1:], [label_of(member) for member in members])
    changed_members = [*members]
    changed_members[position] = with_value_at(members[position], path[1 + label_length :], value)
    return {**table, key: changed_members}


def _named_member(key: str, path: Sequence[str], labels: Sequence[str]) -> tuple[int, int]:
    """Return the position of the label that a path begins with, and how many parts it takes: labels may hold dots."""
    for position, label in enumerate(labels):
        for length in range(1, len(path)):
            if ".".join(path[:length]) == label:
                return position, length
    raise unknown(key, path[0], labels)


# -- sweeps ---------------------------------------------------------------------------------------------------------


def read_sweep(table: object) -> SweptValues:
    """Return ``[sweep]``, flattened: dotted key → the values it takes."""
    if not isinstance(table, Mapping):
        raise bad("sweep", "a table", table)
    values_by_key: SweptValues = {}
    for key, value in table.items():
        if isinstance(value, list):
            if not value:
                raise bad(f"sweep.{key}", "a list of at least one value", value)
            values_by_key[key] = value
        elif isinstance(value, Mapping) and "from" in value:
            values_by_key[key] = range_values(f"sweep.{key}", value)
        elif isinstance(value, Mapping):
            for inner_key, values in read_sweep(value).items():
                values_by_key[f"{key}.{inner_key}"] = values
        else:
            raise bad(f"sweep.{key}", "a list, or a range { from, to, step or count }", value)
    return values_by_key


class _Range(NamedTuple):
    """A range of a sweep: first value, last value and number of values."""

    start: float
    end: float
    n_values: int


def range_values(subject: str, table: ReadOnlyTable) -> list[int] | list[float]:
    """Return the values of a range: by step, or evenly (``log``: geometrically) by count. Both ends are in."""
    for key in table:
        if key not in RANGE_KEYS:
            raise unknown("key", f"{subject}.{key}", RANGE_KEYS, "a range")
    try:
        start, end, n_values = _range(subject, table)
        if n_values > MAX_VALUES:
            raise bad(subject, f"of at most {MAX_VALUES:,} values", f"{n_values:,}")
        space = np.geomspace if table.get("log") else np.linspace
        values = [float(f"{value:.12g}") for value in space(start, end, n_values)]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise bad(subject, "{ from = number, to = number, step or count }", dict(table)) from None
    has_whole_ends = isinstance(table["from"], int) and isinstance(table["to"], int)
    if has_whole_ends and all(value.is_integer() for value in values):
        return [int(value) for value in values]
    return values


def _range(subject: str, table: ReadOnlyTable) -> _Range:
    start = float(table["from"])
    end = float(table["to"])
    step = table.get("step")
    count = table.get("count")
    if (step is None) == (count is None):
        raise InputError(f"{subject} must be given either step or count; got {dict(table)}.")
    if step is None:
        if count is None or not is_whole(count, 1):
            raise bad(f"{subject}.count", "a whole number ≥ 1", count)
        return _Range(start, end, int(count))
    if not step * (end - start) > 0:
        raise bad(f"{subject}.step", "a way from 'from' to 'to'", step)
    n_steps = math.floor((end - start) / step + 1e-9)
    return _Range(start, start + n_steps * step, n_steps + 1)


class _SweptValue(NamedTuple):
    label: str
    key: str
    value: Any


def combinations(values_by_key: Mapping[str, list[Any]]) -> Iterator[tuple[str, TomlTable]]:
    """Yield all combinations: a label such as ``lr=0.1,beta=0.5``, and key → value."""
    alternatives = []
    for key, values in values_by_key.items():
        name = key.rsplit(".")[-1]
        texts = _distinct_texts(values)
        alternatives.append(
            [_SweptValue(f"{name}={text}", key, value) for text, value in zip(texts, values, strict=True)]
        )
    for combination in itertools.product(*alternatives):
        label = ",".join(swept.label for swept in combination)
        yield label, {swept.key: swept.value for swept in combination}


def _distinct_texts(values: list[Any]) -> list[str]:
    """Return a text for each value of a key: a short one if these tell different values apart, else a full one."""
    short_texts = _texts(values, _short_text)
    if _numbered(short_texts, values) == short_texts:
        return short_texts
    return _numbered(_texts(values, _full_text), values)


def _numbered(texts: list[str], values: list[Any]) -> list[str]:
    """Return the texts, with a number where one reads like that of another value before it."""
    value_by_look: dict[str, Any] = {}
    numbered_texts = []
    for text, value in zip(texts, values, strict=True):
        numbered_text = text
        number = 1
        while value_by_look.setdefault(as_seen(numbered_text).casefold(), value) != value:
            number += 1
            numbered_text = f"{text}_{number}"
        numbered_texts.append(numbered_text)
    return numbered_texts


def _texts(values: list[Any], text_of: Callable[[object], str]) -> list[str]:
    """Return a text for each value of a key; tables that share a name get the options in which they differ."""
    tables = [value if isinstance(value, Mapping) else {"name": value} for value in values]
    names = [text_of(table.get("name", table)) for table in tables]
    texts = []
    for name, table in zip(names, tables, strict=True):
        namesakes = [namesake for namesake, its_name in zip(tables, names, strict=True) if its_name == name]
        options = [f"{key}={text_of(table[key])}" for key in _differing_keys(namesakes) if key in table]
        texts.append(",".join([name, *options]))
    return texts


def _differing_keys(tables: list[ReadOnlyTable]) -> list[str]:
    """Return the keys, other than the name, whose values differ between some tables."""
    keys = dict.fromkeys(key for table in tables for key in table if key != "name")
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def _short_text(value: object) -> str:
    if isinstance(value, float):
        text = format(value, "g")
    else:
        text = str(value)
    return "".join(character for character in text if _is_in_labels(character))


def _full_text(value: object) -> str:
    """Return a text with all digits of a number, and an underscore for characters that labels cannot have."""
    text = "".join(character if _is_in_labels(character) else " " for character in str(value))
    return "_".join(text.split())


def _is_in_labels(character: str) -> bool:
    return character.isalnum() or character in "-+."
