"""A registrar's snapshot, written and read back; it is checked against the selection that goes on with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, StorageError
from sortition.core.facts import LARGEST
from sortition.core.guards.eligibility import Eligibility
from sortition.core.guards.lengths import Lengths
from sortition.core.guards.settings import Guards
from sortition.core.selector import Needs
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.storage.safe_files import whole_number

if TYPE_CHECKING:
    from sortition.core.registrar import Registrar


@dataclass(frozen=True)
class Restored:
    """What the next round depends on."""

    state: State
    eligibility: Eligibility
    counters: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    lengths: Lengths
    index: int


def export(registrar: Registrar) -> tuple[dict[str, Array], dict[str, Any]]:
    """Everything that the next round depends on, as named arrays and a JSON-able header."""
    arrays = {f"state.{name}": value for name, value in registrar.state.arrays().items()}
    memory = registrar.eligibility.export() | registrar.lengths.export()
    arrays |= {name: value.copy() for name, value in memory.items()}  # later rounds write to the registrar's own
    header = {
        "selector": registrar.owner,
        "parameters": {name: str(value) for name, value in registrar.selector.parameters().items()},
        "seed": int(registrar.seed),
        "horizon": registrar.horizon,
        **registrar.options(),
        "guards": registrar.guards.changed(),
        "index": registrar.index,
        "counters": dict(registrar.counters),
        "shapes": {name: list(shape) for name, shape in registrar.shapes.items()},
    }
    return arrays, header


def parse(arrays: Mapping[str, Array], header: Mapping[str, Any], registrar: Registrar) -> Restored:
    """What ``Registrar.export`` gave, for a registrar that takes over; refused if it is of another selection."""
    clients, now = registrar.population.n_clients, export(registrar)[1]
    try:
        guarded = header.get("guards") is not None
        if changed := snapshot.difference(_identity(header, guarded), _identity(now, guarded)):
            raise StorageError(f"Snapshot is of another selection: {changed}.")
        shapes = {name: _shape(stored) for name, stored in header["shapes"].items()}
        state = _state(arrays, type(registrar.state), clients)
        eligibility = copy.copy(registrar.eligibility)
        strikes = _counts(arrays["quarantined"], clients)
        eligibility.restore(arrays, strikes, _counts(arrays["until"], clients))
        return Restored(
            state=state,
            eligibility=eligibility,
            counters={name: whole_number(header["counters"][name], name) for name in now["counters"]},
            shapes=shapes,
            lengths=registrar.lengths.restored(arrays, shapes),
            index=whole_number(header["index"], "index", most=LARGEST),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageError(f"Snapshot is incomplete: {error!r}.") from None


def settings(header: Mapping[str, Any], path: str | Path) -> tuple[int, int | None, Guards]:
    """Seed, horizon and guards of a saved registrar."""
    try:
        seed, horizon = whole_number(header.get("seed"), "seed"), header.get("horizon")
        return (
            seed,
            None if horizon is None else whole_number(horizon, "horizon", 1),
            Guards(**header.get("guards", {})),
        )
    except (TypeError, ValueError, InputError) as error:
        raise StorageError(f"{path} is not a registrar's snapshot: {error}") from None


def optional(header: Mapping[str, Any], needs: Needs) -> list[str] | None:
    """The optional facts that a saved selection uses; None where it, or the method, has no options."""
    found = header.get("optional") if isinstance(header, Mapping) else None  # `parse` refuses any other header
    if found is None or not needs.optional:
        return None
    if not isinstance(found, list) or found != [name for name in needs.optional if name in found]:
        raise StorageError(f"Snapshot is of another selection: it uses {found}, the method has {list(needs.optional)}.")
    return found


def _identity(header: Mapping[str, Any], guarded: bool) -> dict[str, Any]:
    """What must be the same when a selection goes on; snapshots before guards have none."""
    guards = {f"guards.{name}": value for name, value in header["guards"].items()} if guarded else {}
    return {"selector": header["selector"], "seed": header["seed"], **header["parameters"], **guards}


def _state(arrays: Mapping[str, Array], memory: type[State], clients: int) -> State:
    fields = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
    state = memory.restored(fields)
    if state.n_clients > clients:
        raise StorageError(f"Snapshot is of {state.n_clients} clients, more than the population's {clients}.")
    state.grow(clients)
    return state


def _shape(stored: Any) -> tuple[int, ...]:
    return tuple(whole_number(length, "a length", 1) for length in stored)


def _counts(array: Array, clients: int) -> Ids:
    """(N,) numbers per client, zero for those who joined since."""
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise ValueError(f"strikes or rounds of quarantine of shape {array.shape} and type {array.dtype}")
    return np.pad(array.astype(np.int64, casting="unsafe"), (0, clients - array.size))
