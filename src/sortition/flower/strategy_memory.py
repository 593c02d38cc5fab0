"""What a strategy remembers from round to round, for checkpoints: any attribute made of arrays, in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from sortition.core.arrays import Array
from sortition.flower import wire
from sortition.flower.strategy_kinds import PRIVATE

ADAPTED = "clipping_norm"  # a number that adaptive clipping changes from round to round


def export_memory(strategy: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Memory as named arrays, and a header that says how they were held; of a wrapper, the inner one's too."""
    arrays: dict[str, Array] = {}
    header: dict[str, Any] = {}
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            inside, about = export_memory(value)
            arrays |= {f"{name}/{key}": array for key, array in inside.items()}
            header |= {f"{name}/{key}": kind for key, kind in about.items()}
        elif (held := _as_arrays(value, adapted=isinstance(strategy, PRIVATE) and name == ADAPTED)) is not None:
            header[name] = {"kind": type(value).__name__, "keys": list(held)}
            arrays |= {f"{name}.{row}": array for row, array in enumerate(held.values())}
    return arrays, header


def restore_memory(strategy: Any, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
    """Take over what :func:`export_memory` gave."""
    for path, about in header.items():
        *outer, name = path.split("/")
        owner = strategy
        for step in outer:
            owner = getattr(owner, step)
        now = getattr(owner, name, None)
        if now is not None and not isinstance(now, dict | list | ArrayRecord | np.ndarray) and name != ADAPTED:
            raise ValueError(f"{path} of {type(strategy).__name__} is no memory")
        held = {key: arrays[f"{path}.{row}"] for row, key in enumerate(about["keys"])}
        setattr(owner, name, _as_it_was(about["kind"], held))


def _as_it_was(kind: str, held: dict[str, Array]) -> Any:
    if kind == "list":
        return list(held.values())
    if kind == "ArrayRecord":
        return wire.to_record(held)
    if kind == "ndarray":
        return held["0"]
    return float(held["0"]) if kind == "float" else held


def _as_arrays(value: object, adapted: bool) -> dict[str, Array] | None:
    if isinstance(value, ArrayRecord):
        return wire.to_arrays(value)
    if adapted and isinstance(value, float):
        return {"0": np.asarray(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return {"0": value}
    if isinstance(value, list) and value:
        value = {str(row): item for row, item in enumerate(value)}
    if isinstance(value, dict) and value and all(isinstance(item, np.ndarray | np.generic) for item in value.values()):
        return {str(name): np.asarray(item) for name, item in value.items()}  # counters become numpy scalars there
    return None
