"""Model, selection, roster and server state in one file after a round: what a server needs to go on after it died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sortition.core import Registrar, snapshot
from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.flower.roster import Roster
from sortition.flower.stock import Stock


def save(
    path: Path,
    model: dict[str, Array],
    registrar: Registrar,
    roster: Roster,
    stock: Stock,
    history: list[Any],
    salt: str = "",
) -> None:
    """Write it, atomically; ``salt`` is the audit log's, secret until the run is over."""
    selection, about = registrar.export()
    facts, names = roster.export()
    memory, held = stock.export()
    arrays = {f"model.{row}": value for row, value in enumerate(model.values())}
    arrays |= {f"registrar.{name}": value for name, value in selection.items()}
    arrays |= {f"facts.{name}": value for name, value in facts.items()}
    arrays |= {f"server.{name}": value for name, value in memory.items()}
    flower = {"model": list(model), "names": names, "server": held, "salt": salt}
    header = {"flower": flower, "registrar": about, "history": history}
    snapshot.save(path, arrays, header)


def load(path: Path, roster: Roster, stock: Stock) -> tuple[dict[str, Array], dict[str, Any], dict[str, Any]]:
    """Restore roster and server state; the model, the registrar's arrays, and the header with the history."""
    arrays, header = snapshot.load(path)
    try:
        told = header["flower"]
        model = {name: arrays[f"model.{row}"] for row, name in enumerate(told["model"])}
        roster.restore(part(arrays, "facts."), told["names"])
        stock.restore(part(arrays, "server."), told["server"])
        rest = {"registrar": header["registrar"], "history": header["history"], "salt": str(told.get("salt", ""))}
        return model, part(arrays, "registrar."), rest
    except KeyError as error:
        raise StorageError(f"{path} is not a Flower checkpoint of this selection: {error} is missing.") from None


def part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
