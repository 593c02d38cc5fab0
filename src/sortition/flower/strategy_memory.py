"""What a strategy remembers from round to round, for checkpoints: any attribute made of arrays, in every layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from sortition.core.arrays import Array
from sortition.core.storage.snapshot import StoredTable
from sortition.flower import codec
from sortition.flower.strategy_kinds import PRIVATE

ADAPTED = "clipping_norm"  # a number that adaptive clipping changes from round to round


def export_memory(strategy: Strategy) -> tuple[dict[str, Array], dict[str, object]]:
    """Return memory as named arrays, and a header that says how they were held; of a wrapper, the inner one's too."""
    arrays: dict[str, Array] = {}
    header: dict[str, object] = {}
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            inner_arrays, inner_header = export_memory(value)
            arrays |= {f"{name}/{key}": array for key, array in inner_arrays.items()}
            header |= {f"{name}/{key}": entry for key, entry in inner_header.items()}
            continue
        is_adapted = isinstance(strategy, PRIVATE) and name == ADAPTED
        memory = _as_arrays(value, adapted=is_adapted)
        if memory is not None:
            header[name] = {"kind": type(value).__name__, "keys": list(memory)}
            arrays |= {f"{name}.{row}": array for row, array in enumerate(memory.values())}
    return arrays, header


def restore_memory(strategy: Strategy, arrays: Mapping[str, Array], header: StoredTable) -> None:
    """Take over what :func:`export_memory` gave."""
    for path, entry in header.items():
        *outer, name = path.split("/")
        owner = strategy
        for step in outer:
            owner = getattr(owner, step)
        current = getattr(owner, name, None)
        if current is not None and not isinstance(current, dict | list | ArrayRecord | np.ndarray) and name != ADAPTED:
            raise ValueError(f"{path} of {type(strategy).__name__} is no memory")
        memory = {key: arrays[f"{path}.{row}"] for row, key in enumerate(entry["keys"])}
        setattr(owner, name, _as_it_was(entry["kind"], memory))


def _as_it_was(kind: str, memory: dict[str, Array]) -> object:
    """Return the attribute as the strategy held it."""
    if kind == "list":
        return list(memory.values())
    if kind == "ArrayRecord":
        return codec.to_record(memory)
    if kind == "ndarray":
        return memory["0"]
    if kind == "float":
        return float(memory["0"])
    return memory


def _as_arrays(value: object, adapted: bool) -> dict[str, Array] | None:
    """Return an attribute as named arrays; None where it is no memory."""
    if isinstance(value, ArrayRecord):
        return codec.to_arrays(value)
    if adapted and isinstance(value, float):
        return {"0": np.asarray(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return {"0": value}
    if isinstance(value, list) and value:
        value = {str(row): item for row, item in enumerate(value)}
    if isinstance(value, dict) and value and all(isinstance(item, np.ndarray | np.generic) for item in value.values()):
        return {str(name): np.asarray(item) for name, item in value.items()}  # counters become numpy scalars there
    return None
