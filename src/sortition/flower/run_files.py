"""What a run leaves on the disk: checkpoint, history and audit log; and where a run that was stopped goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from logging import INFO, WARNING
from typing import Any

from flwr.app import ArrayRecord
from flwr.common.logger import log
from flwr.serverapp.strategy import Result

from sortition.audit.log_file import LogFile
from sortition.clients.models import Model
from sortition.core import Registrar, Turn
from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.flower import wire
from sortition.flower.checkpoint import HistoryJournal, Saved, load_federation, reserved, save_federation
from sortition.flower.combining import Combining
from sortition.flower.options import Options
from sortition.flower.roster import Roster
from sortition.flower.round_record import round_record
from sortition.flower.strategy_kinds import layers
from sortition.flower.updates import ModelCheck


class RunFiles:
    """The files of one run, and its history in memory."""

    def __init__(
        self, options: Options, strategy: Any, roster: Roster, combining: Combining, log_file: LogFile | None
    ) -> None:
        self.options, self.strategy, self.roster, self.log_file = options, strategy, roster, log_file
        self.combining = combining
        self.history: list[dict[str, Any]] = []
        self.on_round: Callable[[dict[str, Any]], object] | None = None
        self.played = 0  # rounds before this start
        self.saved: Saved | None = None
        self._journal: HistoryJournal | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same when a federation goes on, beside the registrar's own parameters."""
        options, strategy = self.options, type(self.strategy).__name__
        known = {"cohort": options.cohort, "overselect": float(options.overselect), "strategy": strategy}
        inside = "/".join(type(layer).__name__ for layer in layers(self.strategy)[1:])
        return known | ({"strategy.inside": inside} if inside else {}) | self.combining.identity

    def open(self, stack: ExitStack, initial: ArrayRecord) -> ArrayRecord:
        """Take the files, to be given back when the stack closes; the arrays to begin with.

        What an earlier run of the same object left in memory is forgotten: a run begins, or goes on from its file.
        """
        self.saved, self.history, self.played, self.combining.memory = None, [], 0, None
        stack.enter_context(reserved(self.options.checkpoint, self.options.resume))
        if self.log_file is not None:
            stack.enter_context(closing(self.log_file))
        if self.options.resume is not None and self.options.resume.exists():
            initial = self._restore(initial)
            log(INFO, "Going on after round %d of %s", self.played, self.options.resume)
        self._check_log()
        if self.options.checkpoint is not None:
            self._journal = stack.enter_context(closing(HistoryJournal(self.options.checkpoint, self.history)))
        return initial

    def _restore(self, initial: ArrayRecord) -> ArrayRecord:
        path = self.options.resume
        if path is None:
            return initial
        saved = load_federation(path, self.roster, self.strategy, self.identity)
        if fault := different(saved.model, wire.to_arrays(initial)):
            raise StorageError(f"{path} holds another model than the one that is to be trained: {fault}.")
        try:
            self.combining.restore(saved.combine)
        except (KeyError, ValueError) as error:
            raise StorageError(f"{path} is not a Flower checkpoint of this selection: {error}.") from None
        self.saved, self.history, self.played = saved, saved.history, saved.index
        if self.log_file is not None and saved.salt:
            self.log_file.salt = saved.salt
        return wire.to_record(saved.model)

    def _check_log(self) -> None:
        """Refuse to begin where the log of an earlier run is."""
        if self.log_file is None or self.saved is not None:
            return
        path = self.log_file.path
        if path.exists() and path.stat().st_size:
            raise StorageError(
                f"{path} is the audit log of an earlier run. Go on from its checkpoint with resume=, or choose another "
                "audit=."
            )

    def renumbered(self, result: Result, initial: ArrayRecord) -> Result:
        """The result of a run that went on: rounds are counted from the very first, and there is always a model."""
        if not result.arrays:
            result.arrays = initial
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
            setattr(result, name, {r + self.played: value for r, value in getattr(result, name).items()})
        return result

    def watch(self, registrar: Registrar, model: Model) -> None:
        """Restore a registrar where the run goes on, and let the audit log observe it.

        A run that begins has a checkpoint before its log has a line: without the log's salt nobody could go on.
        """
        if self.saved is not None:
            registrar.restore(self.saved.arrays, self.saved.registrar)
        if self.log_file is not None:
            if self.saved is None:
                self._save(registrar, model)
            self.log_file.watch(registrar)

    def _save(self, registrar: Registrar, model: Model) -> None:
        """Write the checkpoint, where one is wanted."""
        if self._journal is None or self.options.checkpoint is None:
            return
        self._journal.sync()
        salt = "" if self.log_file is None else self.log_file.salt.hex()
        about = self.strategy, self._journal.lines, salt, self.identity, self.combining.export()
        save_federation(self.options.checkpoint, model, registrar, self.roster, *about)

    def remember(
        self, turn: Turn, registrar: Registrar, model: Model, done: Array, faults: dict[int, str], notes: dict[str, Any]
    ) -> None:
        """Keep the record of a round that is over, and write a checkpoint where one is due."""
        record = round_record(turn, done, faults, self.roster.names, notes)
        self._log(turn, record, faults)
        self.history.append(record)
        if self.log_file is not None:
            self.log_file.sync()
        if self.on_round is not None:
            self.on_round(record)
        if self._journal is not None:
            self._journal.append(record)
        if (turn.index + 1) % self.options.checkpoint_every == 0:
            self._save(registrar, model)

    def _log(self, turn: Turn, record: Mapping[str, Any], faults: Mapping[int, str]) -> None:
        names = self.roster.names
        for client, reason in faults.items():
            log(WARNING, "Client %s is left out: %s", names[client], reason)
        for client, reason in turn.rejected.items():
            log(WARNING, "What client %s sent is withheld from the selector: %s", names[client], reason)
        if silent := record["silent"]:
            log(WARNING, "No answer in time from %s", ", ".join(names[k] for k in silent))
        if turn.skipped:
            log(WARNING, "Round %d is skipped: %s", turn.index + 1, record["skipped"])


def different(saved: Model, given: Model) -> str:
    """In what a saved model differs from the one that is to be trained, in words; empty if in nothing."""
    shared = {name: value for name, value in given.items() if name in saved}
    if given and not shared:
        return f"arrays {sorted(saved.keys() ^ given.keys())[:3]} missing or unknown"
    _, faults = ModelCheck(names=frozenset(saved)).judge({0: saved}, given)
    return faults.get(0, "")
