"""A run's memory in one file, written whole or not at all; to go on from it equals never having stopped, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sortition.aggregation import UpdateMemory
from sortition.core.errors import StorageError, shown
from sortition.core.storage import snapshot
from sortition.federation.checkpoint import part
from sortition.learning.vector import Vector
from sortition.simulation import work_in_flight
from sortition.simulation.local_states import LocalStates
from sortition.simulation.overlap import OverlappingSimulation
from sortition.simulation.setup import Setup
from sortition.simulation.simulation import Simulation, start


def save(path: str | Path, simulation: Simulation) -> None:
    """Model, server state, selection and totals, after a whole round."""
    selection, header = simulation.registrar.export()
    memory, local = simulation.memory, simulation.local
    arrays = {"params": simulation.params}
    arrays |= {f"server.{name}": array for name, array in simulation.server.items()}
    arrays |= {f"memory.{name}": array for name, array in (memory.export() if memory else {}).items()}
    arrays |= {f"local.{name}": array for name, array in (local.export() if local else {}).items()}
    arrays |= {f"registrar.{name}": array for name, array in selection.items()}
    about: dict[str, Any] = {"registrar": header, "clock": simulation.clock, "totals": simulation.totals}
    if simulation.setup.policies:
        about["policy"] = simulation.policy.export()
    if simulation.seen:
        arrays["seen"] = np.array(simulation.seen)
    if isinstance(simulation, OverlappingSimulation):
        at_work, about["in_flight"] = work_in_flight.export(simulation)
        arrays |= {f"in_flight.{name}": array for name, array in at_work.items()}
    if simulation.driver.shadows is not None:
        states, about["shadows"] = simulation.driver.shadows.export()
        arrays |= {f"shadow.{name}": array for name, array in states.items()}
    snapshot.save(path, arrays, about)


def load(path: str | Path, setup: Setup) -> Simulation:
    """The simulation that was saved, for the same set-up; another one is refused."""
    arrays, header = snapshot.load(path)
    fresh = start(setup, min(_rounds_played(header), setup.most_rounds))
    if "params" not in arrays or "registrar" not in header or not isinstance(header.get("totals"), Mapping):
        raise StorageError(f"{path} is not a run's checkpoint.")
    params, server = _model(path, arrays, fresh)
    try:
        fresh.registrar.restore(part(arrays, "registrar."), header["registrar"])
        if setup.policies:
            fresh.policy.restore(header.get("policy"))
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from None
    if fresh.driver.shadows is not None and isinstance(header.get("shadows"), Mapping):
        fresh.driver.shadows.restore(part(arrays, "shadow."), header["shadows"])
    memory = _memory(path, arrays, fresh)
    local = _local(path, arrays, fresh)
    fresh.params = params
    fresh.server = server
    fresh.memory = memory
    fresh.local = local
    fresh.clock = _clock(path, header)
    fresh.totals = _totals(path, header, fresh)
    fresh.seen.extend(_seen(path, arrays))
    in_flight = header.get("in_flight")
    if isinstance(fresh, OverlappingSimulation) != (in_flight is not None):
        outlives = "ends with" if in_flight is None else "outlives"
        raise StorageError(f"{path} is of another pace: in it, work {outlives} a step.")
    if isinstance(fresh, OverlappingSimulation):
        work_in_flight.restore(path, fresh, part(arrays, "in_flight."), header["in_flight"])
    return fresh


def _seen(path: str | Path, arrays: Mapping[str, Vector]) -> list[float]:
    """The durations of earlier trainings, where a deadline follows them."""
    seen = arrays.get("seen", np.empty(0))
    if seen.ndim != 1 or seen.dtype.kind != "f" or np.isnan(seen).any() or (seen < 0).any():
        raise StorageError(f"{path} is damaged: its durations are not seconds.")
    return [float(seconds) for seconds in seen]


def _model(path: str | Path, arrays: Mapping[str, Vector], fresh: Simulation) -> tuple[Vector, dict[str, Vector]]:
    """The model and the step's state, if they are of this set-up."""
    params, server = arrays["params"], part(arrays, "server.")
    if params.shape != fresh.params.shape or server.keys() != fresh.server.keys():
        raise StorageError(
            f"{path} holds a model of {params.size} numbers and server state {sorted(server)}; "
            f"this set-up has {fresh.params.size} and {sorted(fresh.server)}."
        )
    for name, array in {"params": params, **server}.items():
        _check_numbers(array, fresh.params, f"{path} is damaged: {name}")
    params.flags.writeable = False
    return params, server


def _memory(path: str | Path, arrays: Mapping[str, Vector], fresh: Simulation) -> UpdateMemory | None:
    """The remembered updates, if this set-up remembers them: rows of finite numbers, one for each of some clients."""
    saved = part(arrays, "memory.")
    if bool(saved) != (fresh.memory is not None):
        has = "remembered updates" if saved else "no remembered updates"
        raise StorageError(f"{path} holds {has}; this set-up combines updates in another way.")
    if not saved:
        return None
    _check_rows(f"{path} is damaged: its remembered updates", saved, fresh, fresh.params.size, total=True)
    return UpdateMemory.restore(saved)


def _local(path: str | Path, arrays: Mapping[str, Vector], fresh: Simulation) -> LocalStates | None:
    """What the clients' optimisers remember, if this set-up keeps it."""
    saved = part(arrays, "local.")
    if bool(saved) != (fresh.local is not None):
        has = "states of clients' optimisers" if saved else "no states of clients' optimisers"
        raise StorageError(f"{path} holds {has}; this set-up has another local rule.")
    if fresh.local is None:
        return None
    _check_rows(f"{path} is damaged: its optimisers' states", saved, fresh, fresh.local.size)
    return fresh.local.restored(saved)


def _check_rows(what: str, saved: Mapping[str, Vector], fresh: Simulation, size: int, *, total: bool = False) -> None:
    """Rows of so many finite numbers, one for each of some known clients; with their sum where there is one."""
    m = np.size(saved.get("ids", ()))
    shapes: dict[str, Any] = {"ids": ((m,), np.int64), "rows": ((m, size), np.float32)}
    shapes |= {"total": ((size,), np.float64)} if total else {}
    found = {name: (array.shape, array.dtype.type) for name, array in saved.items()}
    if found != shapes or not all(np.isfinite(array).all() for array in saved.values()):
        raise StorageError(f"{what} are not rows of finite numbers, one a client.")
    if not np.array_equal(saved["ids"], np.intersect1d(saved["ids"], np.arange(fresh.registrar.population.n_clients))):
        raise StorageError(f"{what} are not those of known clients.")


def _clock(path: str | Path, header: Mapping[str, Any]) -> float:
    clock = header.get("clock")
    if isinstance(clock, bool) or not isinstance(clock, int | float) or not 0 <= clock <= 1e300:
        raise StorageError(f"{path} is damaged: clock must be a number ≥ 0; got {shown(clock)}.")
    return float(clock)


def _totals(path: str | Path, header: Mapping[str, Any], fresh: Simulation) -> dict[str, int]:
    """The totals, in the order in which summaries show them."""
    totals = {name: header["totals"].get(name, 0) for name in fresh.totals}
    for name, total in totals.items():
        if isinstance(total, bool) or not isinstance(total, int) or total < 0:
            raise StorageError(f"{path} is damaged: totals.{name} must be a whole number ≥ 0; got {shown(total)}.")
    return totals


def _check_numbers(array: Vector, like: Vector, what: str) -> None:
    """As many finite numbers as the model has, of its type."""
    if array.shape != like.shape or array.dtype != like.dtype:
        raise StorageError(f"{what} has shape {array.shape} and type {array.dtype}.")
    if not np.isfinite(array).all():
        raise StorageError(f"{what} holds numbers that are not finite.")


def _rounds_played(header: Mapping[str, Any]) -> int:
    """Rounds behind a checkpoint; a damaged header is refused when the registrar is restored."""
    registrar = header.get("registrar")
    if not isinstance(registrar, Mapping):
        return 0
    under_way = registrar.get("under_way")
    played = under_way.get("version") if isinstance(under_way, Mapping) else registrar.get("index")
    return played if isinstance(played, int) else 0
