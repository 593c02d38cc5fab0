"""Work in flight in a run's checkpoint: who is at work since when, with which model, and what is trained already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.federation.driver import Ending
from sortition.learning import Trained
from sortition.learning.vector import Vector
from sortition.simulation.overlap import Flight, OverlappingSimulation, Work
from sortition.simulation.round_cache import RoundCache, tracked_by

ROWS = ("deltas", "losses", "steps", "examples", "dispersion", "rms_losses", "states")  # of what a client trained


def export(simulation: OverlappingSimulation) -> tuple[dict[str, Array], dict[str, Any]]:
    """Work in flight as named arrays and a JSON-able header; between two steps no update waits."""
    arrays: dict[str, Array] = {}
    works: list[dict[str, Any]] = []
    for work in simulation.work.values():
        works.append({"index": work.index, "version": work.version, "clock": work.clock})
        arrays[f"work.{work.index}.to_train"] = work.to_train
        arrays[f"model.{work.version}"] = work.cache.params
        arrays |= _trained_rows(work)
    flights = [
        {
            "client": flight.client,
            "selection": flight.selection,
            "ends": flight.ends,
            "seconds": flight.seconds,
            "examples": flight.examples,
            "uploads": flight.uploads,
            "fate": None if flight.ending is None else flight.ending.fate,
            "reason": "" if flight.ending is None else flight.ending.reason,
        }
        for flight in simulation.flying.values()
    ]
    return arrays, {"work": works, "flights": flights}


def _trained_rows(work: Work) -> dict[str, Array]:
    """What is trained of the members that are at work."""
    clients = [client for client in sorted(work.left) if work.cache.has_trained(client)]
    if not clients:
        return {}
    blocks = [work.cache.trained(client) for client in clients]
    arrays: dict[str, Array] = {f"work.{work.index}.trained": np.array(clients, np.int64)}
    for name in ROWS:
        columns = [getattr(block, name) for block, _ in blocks]
        if all(column is not None for column in columns):
            rows = [column[row] for column, (_, row) in zip(columns, blocks, strict=True)]
            arrays[f"work.{work.index}.{name}"] = np.stack(rows)
    return arrays


def restore(
    path: str | Path, simulation: OverlappingSimulation, arrays: Mapping[str, Array], header: Mapping[str, Any]
) -> None:
    """Take over what :func:`export` gave; refused where it is damaged, or not the work that the selection knows of."""
    try:
        models = {int(table["version"]): _model(arrays, int(table["version"]), simulation) for table in header["work"]}
        flights = [_flight(table) for table in header["flights"]]
        works = [_work(table, arrays, models, simulation) for table in header["work"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path} is damaged: its work in flight cannot be read: {error!r}.") from None
    by_index = {work.index: work for work in works}
    clients = sorted(flight.client for flight in flights)
    if clients != simulation.registrar.in_flight.tolist() or {f.selection for f in flights} != by_index.keys():
        raise StorageError(f"{path} is damaged: its work in flight is not that of its selection.")
    for flight in flights:
        by_index[flight.selection].left.add(flight.client)
    simulation.take_over(by_index, {flight.client: flight for flight in flights})


def _model(arrays: Mapping[str, Array], version: int, simulation: OverlappingSimulation) -> Vector:
    model = arrays[f"model.{version}"]
    if model.shape != simulation.params.shape or model.dtype != np.float32 or not np.isfinite(model).all():
        raise ValueError(f"the model of version {version}")
    model.flags.writeable = False
    return model


def _flight(table: Mapping[str, Any]) -> Flight:
    ending = None if table["fate"] is None else Ending(table["fate"], str(table["reason"]))
    return Flight(
        client=int(table["client"]),
        selection=int(table["selection"]),
        ends=float(table["ends"]),
        seconds=float(table["seconds"]),
        examples=int(table["examples"]),
        ending=ending,
        uploads=bool(table["uploads"]),
    )


def _work(
    table: Mapping[str, Any],
    arrays: Mapping[str, Array],
    models: Mapping[int, Vector],
    simulation: OverlappingSimulation,
) -> Work:
    index = int(table["index"])
    version = int(table["version"])
    clock = float(table["clock"])
    world = simulation.setup.at(version).at_clock(clock).remembering(simulation.local).world
    cache = RoundCache(world, models[version], index, version=version)
    clients = arrays.get(f"work.{index}.trained")
    if clients is not None:
        trained = Trained(**{name: arrays.get(f"work.{index}.{name}") for name in ROWS})  # type: ignore[arg-type]
        if trained.deltas.shape != (clients.size, models[version].size) or trained.losses.shape != (clients.size,):
            raise ValueError(f"the trainings of selection {index}")
        for row, client in enumerate(clients.tolist()):
            cache.put(client, trained, row)
    return Work(
        index=index,
        version=version,
        clock=clock,
        cache=cache,
        to_train=np.asarray(arrays[f"work.{index}.to_train"], np.int64),
        tracked=tracked_by(simulation.reported),
    )
