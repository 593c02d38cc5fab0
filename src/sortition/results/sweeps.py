"""What a study varies: the keys of its configurations that differ between settings, or between variants of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]  # a configuration, or a table of one: texts, numbers, lists and tables by key
Values = dict[str, Any]  # the same, by keys that may have dots
NAMES = ("setting", "seed", "method", "label")  # keys that name a run, and are no values that are swept


def find_swept_values(configs: Mapping[str, Config]) -> dict[str, Values]:
    """Return setting → key → value, for the keys that differ; dotted where they lie in a table."""
    return _differing({setting: _without_names(config) for setting, config in configs.items()})


def variants(configs: Mapping[str, Config]) -> dict[str, dict[str, Values]]:
    """Return method name → label → parameter → value, for the methods that a study has several times."""
    families: dict[str, dict[str, Config]] = {}
    for label, config in configs.items():
        method = config.get("method") or {}
        families.setdefault(str(method.get("name", "")), {})[label] = _without_names(method)
    differing = {name: _differing(parameters_by_label) for name, parameters_by_label in families.items()}
    return {name: labels for name, labels in differing.items() if any(labels.values())}


def _without_names(config: Config) -> Values:
    return {key: value for key, value in config.items() if key not in NAMES}


def _differing(tables: Mapping[str, Config]) -> dict[str, Values]:
    """Return the values of each table under the keys whose values are not the same in all tables."""
    flat_tables = {name: flattened(table) for name, table in tables.items()}
    keys = dict.fromkeys(key for values in flat_tables.values() for key in values)
    different = [key for key in keys if len({repr(values.get(key)) for values in flat_tables.values()}) > 1]
    return {name: {key: values.get(key) for key in different} for name, values in flat_tables.items()}


def flattened(table: Config, prefix: str = "") -> Values:
    """Return ``{"a": {"b": 1}}`` as ``{"a.b": 1}``."""
    result: Values = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            result |= flattened(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def value_text(value: object) -> str:
    """Write a value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(table, Mapping) for table in value):  # such as several policies
        return "; ".join(_table_text(table) for table in value) or "none"
    return str(value)


def _table_text(table: Mapping[str, object]) -> str:
    return ", ".join(f"{key} = {value_text(value)}" for key, value in table.items())
