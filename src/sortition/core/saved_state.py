"""Write a registrar's snapshot and read it back, checked against the selection that goes on with it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from sortition.core.arrays import Array, Ids, as_ids
from sortition.core.cohort import NOBODY
from sortition.core.errors import InputError, StorageError, bad
from sortition.core.guards.answer_screening import RowShape
from sortition.core.guards.eligibility_and_quarantine import Eligibility
from sortition.core.guards.row_dimensions import Dimensions
from sortition.core.guards.scales import MODEL
from sortition.core.guards.settings import Guards
from sortition.core.in_flight import Flights
from sortition.core.intake import Intake
from sortition.core.population import LARGEST_COUNT
from sortition.core.selector import Needs
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.storage.safe_files import whole_number
from sortition.core.storage.snapshot import StoredTable, add_prefix, take_part

if TYPE_CHECKING:
    from sortition.core.registrar import Registrar


class LastSelection(NamedTuple):
    """Whom the latest selection could choose, and how many of them."""

    available: Ids
    budget: int


class RegistrarMemory(TypedDict, total=False):
    """The attributes of a registrar that the next round depends on, and that a snapshot holds.

    Attributes:
        state: what the method remembers.
        eligibility: what the guards remember.
        counters: how many messages did not count, by kind: late, duplicate, stale or rejected.
        row_shapes: the shape of one client's row, by vector signal, where it is known.
        dimensions: the dimensions of vector signals, and the clients' votes on them.
        index: how many selections there were; the index of the next one.
        version: the version of the model; 0 before the first step.
        n_log_entries: how many entries an audit log has so far, without its header.
        flights: the work in flight.
        intake: what clients sent since the last step; None where nothing is under way.
        chosen_since_step: ids of the clients that were chosen since the last step.
        last_reachable: ids of the clients that were reachable at the latest selection, busy or not.
        _last_selection: whom the latest selection could choose, and how many of them.
    """

    state: State
    eligibility: Eligibility
    counters: dict[str, int]
    row_shapes: dict[str, RowShape]
    dimensions: Dimensions
    index: int
    version: int
    n_log_entries: int
    flights: Flights
    intake: Intake | None
    chosen_since_step: Ids
    last_reachable: Ids
    _last_selection: LastSelection


class SavedSettings(NamedTuple):
    """The arguments that a saved registrar was made with, as its snapshot has them."""

    seed: int
    horizon: int | None
    guards: Guards


def export(registrar: Registrar) -> tuple[dict[str, Array], dict[str, object]]:
    """Return everything that the next round depends on, as named arrays and a JSON-able header."""
    arrays = add_prefix("state.", registrar.state.arrays())
    guard_arrays = registrar.eligibility.export() | registrar.dimensions.export()
    arrays |= {name: value.copy() for name, value in guard_arrays.items()}  # later rounds write to the registrar's own
    header: dict[str, object] = {
        "selector": registrar.method_name,
        "parameters": {name: str(value) for name, value in registrar.selector.parameters().items()},
        "seed": int(registrar.seed),
        "horizon": registrar.horizon,
    }
    optional_facts = registrar.used_optional_facts()
    if optional_facts is not None:
        header["optional"] = optional_facts
    header |= {
        "guards": registrar.guards.changed(),
        "index": registrar.index,
        "counters": dict(registrar.counters),
        "shapes": {name: list(shape) for name, shape in registrar.row_shapes.items()},
    }
    if has_work_under_way(registrar):
        arrays |= _arrays_under_way(registrar)
        header["under_way"] = _header_under_way(registrar)
    return arrays, header


def has_work_under_way(registrar: Registrar) -> bool:
    """Tell whether selections and versions differ, or anything is in flight: a round that is over has none of it."""
    counts_differ = not registrar.index == registrar.version == registrar.n_log_entries
    return counts_differ or bool(registrar.flights.selections) or registrar.intake is not None


def _arrays_under_way(registrar: Registrar) -> dict[str, Array]:
    return {
        **registrar.flights.arrays(),
        "chosen": registrar.chosen_since_step.copy(),
        "online": registrar.last_reachable.copy(),
        "last_available": registrar._last_selection.available.copy(),
    }


def _header_under_way(registrar: Registrar) -> dict[str, object]:
    intake = None
    if registrar.intake is not None:
        intake = registrar.intake.export()
    return {
        "version": registrar.version,
        "events": registrar.n_log_entries,
        "flights": registrar.flights.tables(),
        "intake": intake,
        "budget": registrar._last_selection.budget,
    }


def parse(arrays: Mapping[str, Array], header: StoredTable, registrar: Registrar) -> RegistrarMemory:
    """Read what ``Registrar.export`` gave, for a registrar that takes over; refuse that of another selection."""
    try:
        _, current_header = export(registrar)
        changes = snapshot.describe_difference(_fixed_settings(header), _fixed_settings(current_header))
        if changes:
            raise StorageError(f"Snapshot is of another selection: {changes}.")
        return _parse(arrays, header, registrar)
    except InputError as error:
        raise StorageError(f"Snapshot is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageError(f"Snapshot is incomplete: {error!r}.") from None


def _parse(arrays: Mapping[str, Array], header: StoredTable, registrar: Registrar) -> RegistrarMemory:
    n_clients = registrar.population.n_clients
    row_shapes = {name: _as_shape(stored) for name, stored in header["shapes"].items()}
    index = whole_number(header["index"], "index", most=LARGEST_COUNT)
    state = _read_state(arrays, type(registrar.state), n_clients)
    eligibility = copy.copy(registrar.eligibility)
    eligibility.restore(
        arrays,
        strikes=_pad_counts(arrays["strikes"], n_clients),
        quarantined_until=_pad_counts(arrays["quarantined_until"], n_clients),
    )
    memory = RegistrarMemory(
        state=state,
        eligibility=eligibility,
        counters={name: whole_number(header["counters"][name], name) for name in registrar.counters},
        row_shapes=row_shapes,
        dimensions=registrar.dimensions.restored(arrays, row_shapes),
        index=index,
        version=index,
        n_log_entries=index,
        flights=Flights(),
        intake=None,
        chosen_since_step=NOBODY,
        last_reachable=NOBODY,
        _last_selection=LastSelection(available=NOBODY, budget=1),
    )
    under_way = header.get("under_way")
    if under_way is None:  # the snapshot was taken when a round was over
        return memory
    intake = None
    if under_way["intake"] is not None:
        scales = registrar.eligibility.scales
        names = {MODEL} if scales is None else scales.norms.keys()
        intake = registrar.fresh_intake().restored(under_way["intake"], names, n_clients)
    memory["version"] = whole_number(under_way["version"], "version", most=LARGEST_COUNT)
    memory["n_log_entries"] = whole_number(under_way["events"], "events", most=LARGEST_COUNT)
    memory["flights"] = Flights.restored(arrays, under_way["flights"], n_clients)
    memory["intake"] = intake
    memory["chosen_since_step"] = _read_ids("chosen", arrays, n_clients)
    memory["last_reachable"] = _read_ids("online", arrays, n_clients)
    memory["_last_selection"] = LastSelection(
        available=_read_ids("last_available", arrays, n_clients),
        budget=whole_number(under_way["budget"], "budget", 1),
    )
    return memory


def _read_ids(name: str, arrays: Mapping[str, Array], n_clients: int) -> Ids:
    """Read ids of clients; refuse an id beyond the population."""
    ids = as_ids(name, arrays[name])
    if ids.size and ids.max() >= n_clients:
        raise bad(name, f"below {n_clients}", int(ids.max()))
    return ids


def read_settings(header: StoredTable, path: str | Path) -> SavedSettings:
    """Read seed, horizon and guards of a saved registrar."""
    try:
        seed = whole_number(header.get("seed"), "seed")
        horizon = header.get("horizon")
        if horizon is not None:
            horizon = whole_number(horizon, "horizon", 1)
        return SavedSettings(seed, horizon, Guards(**header["guards"]))
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise StorageError(f"{path} is not a registrar's snapshot: {error}") from None


def read_optional_facts(header: StoredTable, needs: Needs) -> list[str] | None:
    """Read the optional facts that a saved selection uses; None where it, or the method, has no options."""
    if not isinstance(header, Mapping):  # `parse` refuses it
        return None
    facts = header.get("optional")
    if facts is None or not needs.optional:
        return None
    if not isinstance(facts, list) or facts != [name for name in needs.optional if name in facts]:
        raise StorageError(f"Snapshot is of another selection: it uses {facts}, the method has {list(needs.optional)}.")
    return facts


def _fixed_settings(header: StoredTable) -> dict[str, object]:
    """Return what must stay the same when a selection goes on: method, parameters, seed and guards."""
    guards = {f"guards.{name}": value for name, value in header["guards"].items()}
    return {"selector": header["selector"], "seed": header["seed"], **header["parameters"], **guards}


def _read_state(arrays: Mapping[str, Array], state_type: type[State], n_clients: int) -> State:
    """Read the method's state, and let it grow by the clients that have joined since."""
    state = state_type.restored(take_part(arrays, "state."))
    if state.n_clients > n_clients:
        raise StorageError(f"Snapshot is of {state.n_clients} clients, more than the population's {n_clients}.")
    state.grow(n_clients)
    return state


def _as_shape(stored: Iterable[object]) -> RowShape:
    return tuple(whole_number(dimension, "a dimension", 1) for dimension in stored)


def _pad_counts(array: Array, n_clients: int) -> Ids:
    """Return (N,) numbers per client, zero for those who joined since."""
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise ValueError(f"strikes or rounds of quarantine of shape {array.shape} and type {array.dtype}")
    return np.pad(array.astype(np.int64, casting="unsafe"), (0, n_clients - array.size))
