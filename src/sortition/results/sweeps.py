"""What a study varies: the keys of its configurations that differ between settings, or between variants of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]
OWN = ("setting", "seed", "method", "label")  # names, not values


def swept(configs: Mapping[str, Config]) -> dict[str, dict[str, Any]]:
    """Setting → key → value, for the keys that differ; dotted where they lie in a table."""
    return _differing({name: {k: v for k, v in config.items() if k not in OWN} for name, config in configs.items()})


def variants(configs: Mapping[str, Config]) -> dict[str, dict[str, dict[str, Any]]]:
    """Method name → label → parameter → value, for the methods that a study has several times."""
    families: dict[str, dict[str, Config]] = {}
    for label, config in configs.items():
        method = config.get("method") or {}
        families.setdefault(str(method.get("name", "")), {})[label] = method
    found = {
        name: _differing({label: {k: v for k, v in one.items() if k not in OWN} for label, one in labels.items()})
        for name, labels in families.items()
    }
    return {name: labels for name, labels in found.items() if any(labels.values())}


def _differing(tables: Mapping[str, Config]) -> dict[str, dict[str, Any]]:
    flat_tables = {name: flat(table) for name, table in tables.items()}
    keys = dict.fromkeys(key for values in flat_tables.values() for key in values)
    different = [key for key in keys if len({repr(values.get(key)) for values in flat_tables.values()}) > 1]
    return {name: {key: values.get(key) for key in different} for name, values in flat_tables.items()}


def flat(table: Config, prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def value_text(value: Any) -> str:
    """As a table shows it."""
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
