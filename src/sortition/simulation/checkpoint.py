"""A run's memory in one file, written whole or not at all; to go on from it equals never having stopped, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sortition.core import snapshot
from sortition.core.errors import StorageError
from sortition.learning.vector import Vector
from sortition.simulation.setup import Carry, Setup, start


def save(path: str | Path, carry: Carry) -> None:
    """Model, server state, selection and totals, after a whole round."""
    selection, header = carry.registrar.export()
    arrays = {"params": carry.params}
    arrays |= {f"server.{name}": array for name, array in carry.server.items()}
    arrays |= {f"registrar.{name}": array for name, array in selection.items()}
    snapshot.save(path, arrays, {"registrar": header, "clock": carry.clock, "totals": carry.totals})


def load(path: str | Path, setup: Setup) -> Carry:
    """The carry that was saved, for the same set-up; another one is refused."""
    arrays, header = snapshot.load(path)
    fresh = start(setup, min(_played(header), setup.horizon))
    server = _part(arrays, "server.")
    params: Vector | None = arrays.get("params")
    if params is None or "registrar" not in header or not isinstance(header.get("totals"), Mapping):
        raise StorageError(f"{path} is not a run's checkpoint.")
    if params.shape != fresh.params.shape or server.keys() != fresh.server.keys():
        raise StorageError(
            f"{path} holds a model of {params.size} numbers and server state {sorted(server)}; "
            f"this set-up has {fresh.params.size} and {sorted(fresh.server)}."
        )
    params.flags.writeable = False
    registrar = fresh.registrar.restore(_part(arrays, "registrar."), header["registrar"])
    totals = {
        name: int(header["totals"].get(name, 0)) for name in fresh.totals
    }  # in their order: a summary shows them in it
    return Carry(params, server, registrar, float(header["clock"]), totals)


def _played(header: Mapping[str, Any]) -> int:
    """Rounds behind a checkpoint; what is wrong with its header is told when it is restored."""
    registrar = header.get("registrar")
    played = registrar.get("index") if isinstance(registrar, Mapping) else None
    return played if isinstance(played, int) else 0


def _part(arrays: dict[str, Vector], prefix: str) -> dict[str, Vector]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
