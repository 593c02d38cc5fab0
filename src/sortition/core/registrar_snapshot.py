"""A registrar's snapshot, written and read back; it is checked against the selection that goes on with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array, Ids, as_ids
from sortition.core.errors import InputError, StorageError, bad
from sortition.core.facts import LARGEST
from sortition.core.flights import Flights, export_flights, restore_flights
from sortition.core.guards.eligibility import Eligibility
from sortition.core.guards.lengths import Lengths
from sortition.core.guards.scales import MODEL
from sortition.core.guards.settings import Guards
from sortition.core.intake import Intake
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
    under_way: UnderWay


@dataclass(frozen=True, eq=False)
class UnderWay:
    """Selections between two steps: work in flight, and what came since the last step.

    Attributes:
        version: of the model.
        events: entries of an audit log so far.
        flights: work in flight.
        intake: what clients sent since the last step.
        chosen: clients that were chosen since the last step.
        online: who was reachable at the latest selection.
        last_round: whom, and how many, it could choose.
    """

    version: int
    events: int
    flights: Flights
    intake: Intake | None
    chosen: Ids
    online: Ids
    last_round: tuple[Ids, int]

    def books(self) -> dict[str, Any]:
        """As the registrar's attributes."""
        return {
            "version": self.version,
            "events": self.events,
            "flights": self.flights,
            "intake": self.intake,
            "chosen": self.chosen,
            "online": self.online,
            "_last_round": self.last_round,
            "_latest": None,
        }


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
    if has_work_under_way(registrar):
        more_arrays, header["under_way"] = _export_under_way(registrar)
        arrays |= more_arrays
    return arrays, header


def has_work_under_way(registrar: Registrar) -> bool:
    """Whether selections and versions differ, or anything is in flight: a round that is over has none of it."""
    apart = not registrar.index == registrar.version == registrar.events
    return apart or bool(registrar.flights.selections) or registrar.intake is not None


def _export_under_way(registrar: Registrar) -> tuple[dict[str, Array], dict[str, Any]]:
    arrays, tables = export_flights(registrar.flights)
    available, budget = registrar._last_round
    arrays |= {"chosen": registrar.chosen.copy(), "online": registrar.online.copy(), "last_available": available.copy()}
    return arrays, {
        "version": registrar.version,
        "events": registrar.events,
        "flights": tables,
        "intake": None if registrar.intake is None else registrar.intake.export(),
        "budget": budget,
    }


def _under_way(
    arrays: Mapping[str, Array], header: Mapping[str, Any], registrar: Registrar, index: int, clients: int
) -> UnderWay:
    """What was between two steps when a snapshot was taken; a round that was over has nothing."""
    stored = header.get("under_way")
    nobody = np.empty(0, np.int64)
    if stored is None:
        return UnderWay(index, index, Flights(), None, nobody, nobody, (nobody, 1))
    intake = None
    if stored["intake"] is not None:
        scales = registrar.eligibility.scales
        names = {MODEL} if scales is None else scales.norms.keys()
        intake = registrar.fresh_intake().restored(stored["intake"], names, clients)

    def ids(name: str) -> Ids:
        stored_ids = as_ids(name, arrays[name])
        if stored_ids.size and stored_ids.max() >= clients:
            raise bad(name, f"below {clients}", int(stored_ids.max()))
        return stored_ids

    return UnderWay(
        version=whole_number(stored["version"], "version", most=LARGEST),
        events=whole_number(stored["events"], "events", most=LARGEST),
        flights=restore_flights(arrays, stored["flights"], clients),
        intake=intake,
        chosen=ids("chosen"),
        online=ids("online"),
        last_round=(ids("last_available"), whole_number(stored["budget"], "budget", 1)),
    )


def parse(arrays: Mapping[str, Array], header: Mapping[str, Any], registrar: Registrar) -> Restored:
    """What ``Registrar.export`` gave, for a registrar that takes over; refused if it is of another selection."""
    clients = registrar.population.n_clients
    _, current_header = export(registrar)
    try:
        changed = snapshot.difference(_identity(header), _identity(current_header))
        if changed:
            raise StorageError(f"Snapshot is of another selection: {changed}.")
        shapes = {name: _shape(stored) for name, stored in header["shapes"].items()}
        index = whole_number(header["index"], "index", most=LARGEST)
        state = _state(arrays, type(registrar.state), clients)
        eligibility = copy.copy(registrar.eligibility)
        strikes = _counts(arrays["quarantined"], clients)
        eligibility.restore(arrays, strikes, _counts(arrays["until"], clients))
        return Restored(
            state=state,
            eligibility=eligibility,
            counters={name: whole_number(header["counters"][name], name) for name in current_header["counters"]},
            shapes=shapes,
            lengths=registrar.lengths.restored(arrays, shapes),
            index=index,
            under_way=_under_way(arrays, header, registrar, index, clients),
        )
    except InputError as error:
        raise StorageError(f"Snapshot is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageError(f"Snapshot is incomplete: {error!r}.") from None


def settings(header: Mapping[str, Any], path: str | Path) -> tuple[int, int | None, Guards]:
    """Seed, horizon and guards of a saved registrar."""
    try:
        seed, horizon = whole_number(header.get("seed"), "seed"), header.get("horizon")
        return (
            seed,
            None if horizon is None else whole_number(horizon, "horizon", 1),
            Guards(**header["guards"]),
        )
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise StorageError(f"{path} is not a registrar's snapshot: {error}") from None


def optional(header: Mapping[str, Any], needs: Needs) -> list[str] | None:
    """The optional facts that a saved selection uses; None where it, or the method, has no options."""
    found = header.get("optional") if isinstance(header, Mapping) else None  # `parse` refuses any other header
    if found is None or not needs.optional:
        return None
    if not isinstance(found, list) or found != [name for name in needs.optional if name in found]:
        raise StorageError(f"Snapshot is of another selection: it uses {found}, the method has {list(needs.optional)}.")
    return found


def _identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same when a selection goes on."""
    guards = {f"guards.{name}": value for name, value in header["guards"].items()}
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
