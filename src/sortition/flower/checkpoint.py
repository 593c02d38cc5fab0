"""Model, selection, roster and server state in one file after a round: what a server needs to go on after it died."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sortition.core import Registrar
from sortition.core.arrays import Array
from sortition.core.errors import InputError, StorageError
from sortition.core.storage import lock, snapshot
from sortition.flower.base_strategy import Stock
from sortition.flower.roster import Roster


def save(
    path: Path,
    model: dict[str, Array],
    registrar: Registrar,
    roster: Roster,
    stock: Stock,
    history: list[Any],
    salt: str = "",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write it, atomically; ``salt`` is the audit log's, secret until the run is over."""
    selection, about = registrar.export()
    facts, names = roster.export()
    memory, held = stock.export()
    arrays = {f"model.{row}": value for row, value in enumerate(model.values())}
    arrays |= {f"registrar.{name}": value for name, value in selection.items()}
    arrays |= {f"facts.{name}": value for name, value in facts.items()}
    arrays |= {f"server.{name}": value for name, value in memory.items()}
    flower = {"model": list(model), "names": names, "server": held, "salt": salt, "options": dict(options or {})}
    header = {"flower": flower, "registrar": about, "history": history}
    snapshot.save(path, arrays, header)


def load(
    path: Path, roster: Roster, stock: Stock, options: Mapping[str, Any] | None = None
) -> tuple[dict[str, Array], dict[str, Any], dict[str, Any]]:
    """Restore roster and server state; the model, the registrar's arrays, and the header with the history.

    Refused, naming the difference, if ``options`` are others than those of the run that wrote it.
    """
    arrays, header = snapshot.load(path)
    try:
        told, about, history = header["flower"], header["registrar"], header["history"]
        before = told.get("options", {})  # none in checkpoints of earlier versions
        now = {name: value for name, value in (options or {}).items() if name in before}
        if changed := snapshot.difference(before, now) if options is not None else "":
            raise StorageError(f"{path} is of another federation: {changed}.")
        model = {str(name): arrays[f"model.{row}"] for row, name in enumerate(told["model"])}
        index, salt = about["index"], bytes.fromhex(told.get("salt", ""))
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ValueError(f"round {index!r}")
        if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
            raise ValueError("its history is no list of rounds")
        roster.restore(part(arrays, "facts."), told["names"])
        stock.restore(part(arrays, "server."), told["server"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, InputError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{path} is not a Flower checkpoint of this selection: {what}.") from None
    return model, part(arrays, "registrar."), {"registrar": about, "history": history, "index": index, "salt": salt}


def part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


@contextmanager
def held(path: Path | None, resumed: Path | None) -> Iterator[None]:
    """Keep a checkpoint for this server; a second one, or a fresh run over an old file, is refused at once.

    The lock, on a file beside it, dies with its holder.
    """
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.acquire(path.with_name(f".{path.name}.lock"))
    except OSError as error:
        raise StorageError(
            f"{path} must be in a folder that can be written; got {error.strerror}. Choose another checkpoint=."
        ) from None
    if handle is None:
        raise StorageError(f"{path} is in use by another server. Wait for it, or choose another checkpoint=.")
    try:
        if path.exists() and (resumed is None or not resumed.exists() or not path.samefile(resumed)):
            raise StorageError(
                f"{path} is the checkpoint of an earlier run. Go on with resume=True, or choose another checkpoint=."
            )
        yield
    finally:
        os.close(handle)
