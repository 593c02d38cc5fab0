"""A run's memory in one file, written whole or not at all.

A run that is resumed from it goes on as if it had never stopped, to the bit. Where rounds overlap, the file also holds
the work in flight: who is at work since when, with which model, and what is trained already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition.aggregation import UpdateMemory
from sortition.core.arrays import Array
from sortition.core.errors import StorageError, show_value
from sortition.core.storage import snapshot
from sortition.core.storage.snapshot import add_prefix, take_part
from sortition.federation.driver import Ending
from sortition.learning import CohortTrainingResult
from sortition.learning.vector import Vector
from sortition.simulation.event_loop import ClientWork, OverlappingSimulation, SelectionAtWork
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import RoundCache, tracked_by
from sortition.simulation.setup import Setup
from sortition.simulation.simulation import Simulation, start

Arrays = Mapping[str, Array]
Header = Mapping[str, Any]  # what a JSON header holds; it may be damaged
TRAINED_FIELDS = ("deltas", "losses", "steps", "examples", "dispersion", "rms_losses", "states")  # a row per client


def save(path: str | Path, simulation: Simulation) -> None:
    """Write model, server state, selection and totals, after a whole round."""
    registrar_arrays, registrar_header = simulation.registrar.export()
    arrays: dict[str, Array] = {"params": simulation.params}
    arrays |= add_prefix("server.", simulation.server_state)
    if simulation.update_memory:
        arrays |= add_prefix("memory.", simulation.update_memory.export())
    if simulation.optimiser_states:
        arrays |= add_prefix("local.", simulation.optimiser_states.export())
    arrays |= add_prefix("registrar.", registrar_arrays)
    header: dict[str, Any] = {
        "registrar": registrar_header,
        "clock": simulation.clock,
        "totals": simulation.totals,
    }
    if simulation.setup.policies:
        header["policy"] = simulation.policy.export()
    if simulation.recent_durations:
        arrays["seen"] = np.array(simulation.recent_durations)
    if isinstance(simulation, OverlappingSimulation):
        work_arrays, header["in_flight"] = _export_work(simulation)
        arrays |= add_prefix("in_flight.", work_arrays)
    if simulation.driver.shadows is not None:
        shadow_arrays, header["shadows"] = simulation.driver.shadows.export()
        arrays |= add_prefix("shadow.", shadow_arrays)
    snapshot.save(path, arrays, header)


def load(path: str | Path, setup: Setup) -> Simulation:
    """Return the simulation that was saved, for the same set-up; the file of another set-up is refused."""
    arrays, header = snapshot.load(path)
    simulation = start(setup, min(_rounds_played(header), setup.most_rounds))
    if "params" not in arrays or "registrar" not in header or not isinstance(header.get("totals"), Mapping):
        raise StorageError(f"{path} is not a run's checkpoint.")
    checkpoint = _Checkpoint(path, arrays, header, simulation)
    params = checkpoint.params()
    server = checkpoint.server()
    try:
        simulation.registrar.restore(take_part(arrays, "registrar."), header["registrar"])
        if setup.policies:
            simulation.policy.restore(header.get("policy"))
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from None
    if simulation.driver.shadows is not None and isinstance(header.get("shadows"), Mapping):
        simulation.driver.shadows.restore(take_part(arrays, "shadow."), header["shadows"])
    simulation.update_memory = checkpoint.memory()
    simulation.optimiser_states = checkpoint.local_states()
    simulation.params = params
    simulation.server_state = server
    simulation.clock = checkpoint.clock()
    simulation.totals = checkpoint.totals()
    simulation.recent_durations.extend(checkpoint.durations())
    in_flight = header.get("in_flight")
    if isinstance(simulation, OverlappingSimulation) != (in_flight is not None):
        if in_flight is None:
            difference = "its rounds do not overlap, and those of this run do"
        else:
            difference = "its rounds overlap, and those of this run do not"
        raise StorageError(f"{path} is of another pace: {difference}.")
    if isinstance(simulation, OverlappingSimulation):
        _restore_work(path, simulation, take_part(arrays, "in_flight."), header["in_flight"])
    return simulation


def _rounds_played(header: Header) -> int:
    """Return the rounds behind a checkpoint; a damaged header is refused when the registrar is restored."""
    registrar = header.get("registrar")
    if not isinstance(registrar, Mapping):
        return 0
    under_way = registrar.get("under_way")
    played = registrar.get("index")
    if isinstance(under_way, Mapping):
        played = under_way.get("version")
    return played if isinstance(played, int) else 0


@dataclass(frozen=True, eq=False)
class _Checkpoint:
    """Reads the parts of a checkpoint, and refuses what is damaged or of another set-up.

    Attributes:
        path: the file, for messages.
        arrays: what it holds.
        header: what its header holds.
        simulation: a simulation of the set-up; its parts say what shapes are right.
    """

    path: str | Path
    arrays: Arrays
    header: Header
    simulation: Simulation

    def params(self) -> Vector:
        """Return the model."""
        params = self.arrays["params"]
        saved_server = take_part(self.arrays, "server.")
        simulation = self.simulation
        if params.shape != simulation.params.shape or saved_server.keys() != simulation.server_state.keys():
            raise StorageError(
                f"{self.path} holds a model of {params.size} numbers and server state {sorted(saved_server)}; "
                f"this set-up has {simulation.params.size} and {sorted(simulation.server_state)}."
            )
        self._check_vector("params", params)
        params.flags.writeable = False
        return params

    def server(self) -> dict[str, Vector]:
        """Return what the server's step remembers."""
        vectors: dict[str, Vector] = take_part(self.arrays, "server.")
        for name, vector in vectors.items():
            self._check_vector(name, vector)
        return vectors

    def memory(self) -> UpdateMemory | None:
        """Return the remembered updates, if this set-up remembers them: a row of finite numbers for some clients."""
        saved = take_part(self.arrays, "memory.")
        if bool(saved) != (self.simulation.update_memory is not None):
            saved_memory = "remembered updates" if saved else "no remembered updates"
            raise StorageError(f"{self.path} holds {saved_memory}; this set-up combines updates in another way.")
        if not saved:
            return None
        self._check_rows("remembered updates", saved, self.simulation.params.size, has_total=True)
        return UpdateMemory.restore(saved)

    def local_states(self) -> LocalStates | None:
        """Return what the clients' optimisers remember, if this set-up keeps it."""
        saved = take_part(self.arrays, "local.")
        local = self.simulation.optimiser_states
        if bool(saved) != (local is not None):
            saved_states = "states of clients' optimisers" if saved else "no states of clients' optimisers"
            raise StorageError(f"{self.path} holds {saved_states}; this set-up has another local rule.")
        if local is None:
            return None
        saved_rows = saved.get("rows", np.empty(0))
        if saved_rows.ndim == 2 and saved_rows.shape[1] != local.row_size:
            raise StorageError(
                f"{self.path} holds {saved_rows.shape[1]} numbers of each client's optimiser, not {local.row_size}; "
                "this set-up has another local rule (optimiser)."
            )
        self._check_rows("optimisers' states", saved, local.row_size)
        return local.with_rows(saved)

    def durations(self) -> list[float]:
        """Return the durations of earlier trainings, where a deadline follows them."""
        durations = self.arrays.get("seen", np.empty(0))
        is_seconds = durations.ndim == 1 and durations.dtype.kind == "f"
        if not is_seconds or np.isnan(durations).any() or (durations < 0).any():
            raise StorageError(f"{self.path} is damaged: its durations are not seconds.")
        return [float(seconds) for seconds in durations]

    def clock(self) -> float:
        """Return the simulated seconds."""
        clock = self.header.get("clock")
        if isinstance(clock, bool) or not isinstance(clock, int | float) or not 0 <= clock <= 1e300:
            raise StorageError(f"{self.path} is damaged: clock must be a number ≥ 0; got {show_value(clock)}.")
        return float(clock)

    def totals(self) -> dict[str, int]:
        """Return the totals, in the order in which summaries show them."""
        totals = {name: self.header["totals"].get(name, 0) for name in self.simulation.totals}
        for name, total in totals.items():
            if isinstance(total, bool) or not isinstance(total, int) or total < 0:
                requirement = f"totals.{name} must be a whole number ≥ 0"
                raise StorageError(f"{self.path} is damaged: {requirement}; got {show_value(total)}.")
        return totals

    def _check_vector(self, name: str, vector: Vector) -> None:
        """Refuse anything but as many finite numbers as the model has, of its type."""
        model = self.simulation.params
        if vector.shape != model.shape or vector.dtype != model.dtype:
            raise StorageError(f"{self.path} is damaged: {name} has shape {vector.shape} and type {vector.dtype}.")
        if not np.isfinite(vector).all():
            raise StorageError(f"{self.path} is damaged: {name} holds numbers that are not finite.")

    def _check_rows(self, what: str, saved: Arrays, row_size: int, *, has_total: bool = False) -> None:
        """Refuse anything but rows of so many finite numbers, one for each of some known clients.

        Args:
            what: what messages call the rows.
            saved: arrays of ids, rows and, if ``has_total``, their sum.
            row_size: how many numbers a row has.
            has_total: whether there is a sum of the rows.
        """
        n_rows = np.size(saved.get("ids", ()))
        expected: dict[str, tuple[tuple[int, ...], type]] = {
            "ids": ((n_rows,), np.int64),
            "rows": ((n_rows, row_size), np.float32),
        }
        if has_total:
            expected["total"] = ((row_size,), np.float64)
        forms = {name: (array.shape, array.dtype.type) for name, array in saved.items()}
        if forms != expected or not all(np.isfinite(array).all() for array in saved.values()):
            raise StorageError(f"{self.path} is damaged: its {what} are not rows of finite numbers, one a client.")
        known_ids = np.arange(self.simulation.registrar.population.n_clients)
        if not np.array_equal(saved["ids"], np.intersect1d(saved["ids"], known_ids)):
            raise StorageError(f"{self.path} is damaged: its {what} are not those of known clients.")


# -- work in flight ----------------------------------------------------------------------------------------------------


def _export_work(simulation: OverlappingSimulation) -> tuple[dict[str, Array], dict[str, object]]:
    """Return work in flight as named arrays and a JSON-able header; between two steps no update waits."""
    arrays: dict[str, Array] = {}
    selections = simulation.selections.values()
    for selection in selections:
        arrays[f"work.{selection.index}.to_train"] = selection.to_train
        arrays[f"model.{selection.version}"] = selection.cache.params
        arrays |= _export_trained(selection)
    header: dict[str, object] = {
        "work": [
            {"index": selection.index, "version": selection.version, "clock": selection.clock}
            for selection in selections
        ],
        "flights": [_export_flight(flight) for flight in simulation.flying.values()],
    }
    if simulation.last_seconds:
        arrays["last_seconds"] = np.array(sorted(simulation.last_seconds.items()))
    return arrays, header


def _export_flight(flight: ClientWork) -> dict[str, object]:
    """Return the work of one client as JSON holds it."""
    entry = flight._asdict()
    ending = entry.pop("ending")
    if ending is None:
        return {**entry, "fate": None, "reason": ""}
    return {**entry, "fate": ending.fate, "reason": ending.reason}


def _export_trained(selection: SelectionAtWork) -> dict[str, Array]:
    """Return the results of those members that have trained, and whose work has not ended."""
    clients = [client for client in sorted(selection.unfinished) if selection.cache.has_trained(client)]
    if not clients:
        return {}
    results = [selection.cache.trained(client) for client in clients]
    arrays: dict[str, Array] = {f"work.{selection.index}.trained": np.array(clients, np.int64)}
    for name in TRAINED_FIELDS:
        columns = [getattr(block, name) for block, _ in results]
        if all(column is not None for column in columns):
            rows = [column[row] for column, (_, row) in zip(columns, results, strict=True)]
            arrays[f"work.{selection.index}.{name}"] = np.stack(rows)
    return arrays


def _restore_work(path: str | Path, simulation: OverlappingSimulation, arrays: Arrays, header: Header) -> None:
    """Take over work in flight; refuse it where it is damaged, or is not the work that the selection knows of."""
    try:
        models = {
            int(entry["version"]): _read_model(arrays, int(entry["version"]), simulation) for entry in header["work"]
        }
        flights = [_read_flight(entry) for entry in header["flights"]]
        read_selections = [_read_selection(entry, arrays, models, simulation) for entry in header["work"]]
        last_seconds = {int(client): float(seconds) for client, seconds in arrays.get("last_seconds", ())}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path} is damaged: its work in flight cannot be read: {error!r}.") from None
    selections = {selection.index: selection for selection in read_selections}
    clients = sorted(flight.client for flight in flights)
    has_all_selections = {flight.selection for flight in flights} == selections.keys()
    if clients != simulation.registrar.in_flight.tolist() or not has_all_selections:
        raise StorageError(f"{path} is damaged: its work in flight is not that of its selection.")
    for flight in flights:
        selections[flight.selection].unfinished.add(flight.client)
    simulation.take_over(selections, {flight.client: flight for flight in flights})
    simulation.last_seconds = last_seconds


def _read_model(arrays: Arrays, version: int, simulation: OverlappingSimulation) -> Vector:
    """Return a version of the model that somebody still trains."""
    model = arrays[f"model.{version}"]
    if model.shape != simulation.params.shape or model.dtype != np.float32 or not np.isfinite(model).all():
        raise ValueError(f"the model of version {version}")
    model.flags.writeable = False
    return model


def _read_flight(entry: Header) -> ClientWork:
    """Return the work of one client."""
    ending = None
    if entry["fate"] is not None:
        ending = Ending(entry["fate"], str(entry["reason"]))
    return ClientWork(
        client=int(entry["client"]),
        selection=int(entry["selection"]),
        ends=float(entry["ends"]),
        seconds=float(entry["seconds"]),
        examples=int(entry["examples"]),
        ending=ending,
        uploads=bool(entry["uploads"]),
    )


def _read_selection(
    entry: Header, arrays: Arrays, models: Mapping[int, Vector], simulation: OverlappingSimulation
) -> SelectionAtWork:
    """Return one selection at work, with what its members have trained."""
    index = int(entry["index"])
    version = int(entry["version"])
    clock = float(entry["clock"])
    world = simulation.setup.world_at(version).beginning(clock, simulation.optimiser_states)
    cache = RoundCache(world, models[version], index, version=version)
    clients = arrays.get(f"work.{index}.trained")
    if clients is not None:
        fields = {name: arrays.get(f"work.{index}.{name}") for name in TRAINED_FIELDS}
        trained = CohortTrainingResult(**fields)  # type: ignore[arg-type]
        if trained.deltas.shape != (clients.size, models[version].size) or trained.losses.shape != (clients.size,):
            raise ValueError(f"the trainings of selection {index}")
        for row, client in enumerate(clients.tolist()):
            cache.put(client, trained, row)
    return SelectionAtWork(
        index=index,
        version=version,
        clock=clock,
        cache=cache,
        to_train=np.asarray(arrays[f"work.{index}.to_train"], np.int64),
        tracked=tracked_by(simulation.reported),
    )
