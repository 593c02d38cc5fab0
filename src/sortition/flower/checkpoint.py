"""Model, selection, roster and server state in one file after a round: what a server needs to go on after it died.

The history of rounds is appended to a journal beside it (``NAME.history.jsonl``), of which the file says how many lines
belong to it: a checkpoint costs the same in the first round and in the ten-thousandth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.clients.models import Model
from sortition.core import Registrar
from sortition.core.arrays import Array
from sortition.core.errors import InputError, StorageError
from sortition.core.storage import lock, snapshot
from sortition.core.storage.journal import Journal
from sortition.flower.roster import Roster
from sortition.flower.strategy_memory import export_memory, restore_memory


@dataclass
class Saved:
    """What a checkpoint held: the model, the registrar's arrays and header, and the rounds so far."""

    model: Model
    arrays: dict[str, Array]
    registrar: dict[str, Any]
    index: int
    salt: bytes
    combine: dict[str, Array] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def history_path(path: Path) -> Path:
    """The journal beside a checkpoint."""
    return path.with_name(f"{path.name}.history.jsonl")


class HistoryJournal:
    """The rounds so far, one line each, beside a checkpoint; opened with those that the checkpoint counts on."""

    def __init__(self, path: Path, history: list[dict[str, Any]]) -> None:
        place = history_path(path)
        # without its checkpoint, a journal is of another run, which died before it wrote one
        kept = len(history) if path.exists() and place.exists() else 0
        self._journal = Journal(place, kept)
        for record in history[kept:]:  # of a checkpoint that held its history itself, or was copied without it
            self._journal.append(record)
        self.lines = len(history)

    def append(self, record: Mapping[str, Any]) -> None:
        """One more round."""
        self._journal.append(record)
        self.lines += 1

    def sync(self) -> None:
        """Wait until it is on the disk: before the checkpoint that counts on it."""
        self._journal.sync()

    def close(self) -> None:
        """Give the file back."""
        self._journal.close()


def save_federation(
    path: Path,
    model: Model,
    registrar: Registrar,
    roster: Roster,
    strategy: Any,
    rounds: int,
    salt: str = "",
    options: Mapping[str, Any] | None = None,
    combine: Mapping[str, Array] | None = None,
) -> None:
    """Write it, atomically; ``salt`` is the audit log's, secret until the run is over; ``combine`` a rule's memory."""
    selection, about = registrar.export()
    facts, names = roster.export()
    memory, kinds = export_memory(strategy)
    arrays = {f"model.{row}": value for row, value in enumerate(model.values())}
    arrays |= {f"registrar.{name}": value for name, value in selection.items()}
    arrays |= {f"facts.{name}": value for name, value in facts.items()}
    arrays |= {f"server.{name}": value for name, value in memory.items()}
    arrays |= {f"combine.{name}": value for name, value in (combine or {}).items()}
    flower = {"model": list(model), "names": names, "keys": roster.keys, "server": kinds, "salt": salt}
    flower["options"] = dict(options or {})
    snapshot.save(path, arrays, {"flower": flower, "registrar": about, "rounds": rounds})


def load_federation(path: Path, roster: Roster, strategy: Any, options: Mapping[str, Any] | None = None) -> Saved:
    """Restore roster and server state, and give the rest.

    Refused, naming the difference, if ``options`` are others than those of the run that wrote it.
    """
    arrays, header = snapshot.load(path)
    try:
        flower, about = header["flower"], header["registrar"]
        snapshot.check_options(path, flower.get("options", {}), options)  # none in checkpoints of earlier versions
        model = {str(name): arrays[f"model.{row}"] for row, name in enumerate(flower["model"])}
        index, salt = about["index"], bytes.fromhex(flower.get("salt", ""))
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ValueError(f"round {index!r}")
        history = header["history"] if "history" in header else _read_history(path, header["rounds"])
        if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
            raise ValueError("its history is no list of rounds")
        roster.restore(_part(arrays, "facts."), flower["names"], flower.get("keys"))
        restore_memory(strategy, _part(arrays, "server."), flower["server"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, InputError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{path} is not a Flower checkpoint of this selection: {what}.") from None
    return Saved(model, _part(arrays, "registrar."), about, index, salt, _part(arrays, "combine."), history)


def _read_history(path: Path, rounds: Any) -> list[dict[str, Any]]:
    """The first lines of the journal beside a checkpoint."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0:
        raise ValueError(f"{rounds!r} rounds")
    place = history_path(path)
    try:
        with place.open(encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(rounds), strict=False)]
    except OSError as error:
        raise StorageError(
            f"{place} must be beside {path.name}: it holds the rounds so far; {error.strerror}."
        ) from None
    if len(lines) < rounds or not all(line.endswith("\n") for line in lines):
        raise StorageError(f"{place} has fewer whole lines than the {rounds} rounds of {path.name}.")
    return [json.loads(line) for line in lines]


def _part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


@contextmanager
def reserved(path: Path | None, resumed: Path | None) -> Iterator[None]:
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
