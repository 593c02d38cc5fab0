"""What a federation leaves on the disk: one checkpoint, the history of its rounds, and the audit log.

Model, selection, members and the engine's memory are in one file after a round: what a server needs to go on after it
died. The history is appended to a journal beside it (``NAME.history.jsonl``), of which the file says how many lines
belong to it: a checkpoint costs the same in the first round and in the ten-thousandth. Beside them, ``NAME.about.json``
says what the history is of: the method, the cohort, where the audit log lies, and the names of the clients by id.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sortition import __version__
from sortition.audit.encoding import json_value
from sortition.audit.log_file import LogFile
from sortition.clients.named_arrays import Model
from sortition.core.arrays import Array
from sortition.core.errors import InputError, StorageError
from sortition.core.registrar import Registrar
from sortition.core.round_record import ABOUT, HISTORY, RoundRecord
from sortition.core.storage import lock, snapshot
from sortition.core.storage.journal import Journal
from sortition.core.storage.safe_files import whole_number
from sortition.core.storage.snapshot import StoredTable, add_prefix, take_part
from sortition.federation.ledger import LEDGER, Ledger
from sortition.federation.messenger import Messenger
from sortition.federation.model_screening import different
from sortition.federation.overlapping_messenger import OverlappingMessenger
from sortition.federation.shadow import Exported, SavedSelection, Shadows, promoted_state


@dataclass
class Saved:
    """What a checkpoint held.

    Attributes:
        selection: the registrar's state, and those of methods that choose in the shadow.
        in_flight: work in flight, as named arrays and a table.
    """

    selection: SavedSelection
    in_flight: Exported


def beside(path: Path, ending: str) -> Path:
    """Return the path of a file that belongs to a checkpoint."""
    return path.with_name(path.name + ending)


class RunFiles:
    """The files of one federation, and its history in memory.

    Args:
        messenger: whose model, members and work in flight are kept; its options say which files there are.
        backend: ``flower``, ``nvflare`` or ``server``, for readers of the history.
        shadows: other methods that choose beside the live one, whose states are kept, too.
    """

    def __init__(self, messenger: Messenger, *, backend: str, shadows: Shadows | None = None) -> None:
        self.messenger = messenger
        self.options = messenger.options
        self.engine = messenger.engine
        self.members = messenger.members
        self.policy = messenger.policy
        self.backend = backend
        self.shadows = shadows
        self.log_file: LogFile | None = None
        if self.options.audit is not None:
            self.log_file = LogFile(self.options.audit)
        self.history: list[RoundRecord] = []
        self.played = 0  # rounds before this start
        self.saved: Saved | None = None
        self.registrar: Registrar | None = None
        self.written_at: float | None = None  # when this server wrote its last checkpoint, in seconds of the epoch
        self.promoted = False  # whether this server goes on with another method than the one before it
        self._journal: Journal | None = None
        self._described: list[str] | None = None

    @property
    def identity(self) -> dict[str, object]:
        """What must be the same when a federation goes on, beside the registrar's own parameters."""
        pace = self.options.pace
        changed = {
            name: value for name, value in pace.settings.changed().items() if name not in ("overselect", "deadline")
        }
        rule = {f"pace.{name}": value for name, value in changed.items()}
        return {"cohort": pace.cohort, "overselect": float(pace.overselect), **rule, **self.engine.identity}

    # -- a run begins, or goes on --------------------------------------------------------------------------------------

    def open(self, stack: ExitStack) -> None:
        """Take the files, to be given back when the stack closes; where a run goes on, everything is restored."""
        stack.enter_context(reserved(self.options.checkpoint, self.options.resume))
        if self.log_file is not None:
            stack.enter_context(closing(self.log_file))
        if self.options.resume is not None and self.options.resume.exists():
            self._load(self.options.resume)
        self._check_log()
        self._open_ledger(stack)
        if self.options.checkpoint is not None:
            stack.enter_context(closing(self._open_journal(self.options.checkpoint)))

    def _open_journal(self, path: Path) -> Journal:
        """Open the journal with the lines that the checkpoint counts on."""
        journal_path = beside(path, HISTORY)
        n_lines = 0  # without its checkpoint, a journal is of another run, which died before it wrote one
        if path.exists() and journal_path.exists():
            n_lines = len(self.history)
        self._journal = Journal(journal_path, n_lines)
        for record in self.history[n_lines:]:  # of a checkpoint that was copied without its journal
            self._journal.append(dict(record))
        return self._journal

    def _open_ledger(self, stack: ExitStack) -> None:
        """Open the ledger of what devices were used for: the one that is given, else one beside the checkpoint."""
        policy = self.policy
        if not policy.policies:
            return
        policy.job = policy.job or secrets.token_hex(8)
        path = self.options.ledger
        if path is None and self.options.checkpoint is not None:
            path = beside(self.options.checkpoint, LEDGER)
        if path is not None:
            ledger = Ledger(path)
            stack.callback(ledger.close)
            policy.share(ledger, policy.job)

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

    def watch(self, registrar: Registrar) -> None:
        """Restore a registrar where the run goes on, and let the audit log observe it.

        A run that begins has a checkpoint before its log or its ledger has a line: without the log's salt nobody could
        go on, and without the name of the job a server that is killed would not know its own claims.
        """
        self.registrar = registrar
        if self.saved is not None:
            registrar.restore(self.saved.selection.arrays, self.saved.selection.registrar)
        elif self.log_file is not None or self.policy.policies:
            self.save()
        if self.log_file is not None:
            self.log_file.watch(registrar)

    # -- a round is over -----------------------------------------------------------------------------------------------

    def keep(self, record: RoundRecord) -> None:
        """Keep the record of a round that is over, and write a checkpoint where one is due."""
        self.history.append(record)
        if self.log_file is not None:
            self.log_file.sync()
        if self._journal is not None:
            self._journal.append(dict(record))
        if (record["round"] + 1) % self.options.checkpoint_every == 0:
            self.save()

    def save(self) -> None:
        """Write the checkpoint, atomically, where one is wanted."""
        if self._journal is None or self.options.checkpoint is None or self.registrar is None:
            return
        if self.log_file is not None:
            self.log_file.sync()
        self._journal.sync()
        selection, registrar = self.registrar.export()
        facts, members = self.members.export()
        memory, engine = self.engine.export()
        model = self.engine.model
        salt = ""
        if self.log_file is not None:
            salt = self.log_file.salt.hex()
        arrays = {f"model.{row}": value for row, value in enumerate(model.values())}
        arrays |= add_prefix("registrar.", selection)
        arrays |= add_prefix("facts.", facts)
        arrays |= add_prefix("engine.", memory)
        header: dict[str, object] = {
            "federation": {
                "backend": self.backend,
                "model": list(model),
                "members": members,
                "engine": engine,
                "sent_arrays": self.messenger.check.export_names(),
                "salt": salt,
                "options": self.identity,
            },
            "registrar": registrar,
            "rounds": len(self.history),
        }
        if self.policy.policies:
            header["job"] = self.policy.job
        if isinstance(self.messenger, OverlappingMessenger):
            models, header["in_flight"] = self.messenger.export()
            arrays |= add_prefix("in_flight.", models)
        if self.shadows is not None:
            states, header["shadows"] = self.shadows.export()
            arrays |= add_prefix("shadow.", states)
        snapshot.save(self.options.checkpoint, arrays, header)
        self.written_at = time.time()
        self._describe(self.options.checkpoint)

    def _describe(self, checkpoint: Path) -> None:
        """Say what the history is of, whenever clients have joined."""
        names = self.members.names
        if self.registrar is None or names == self._described:
            return
        selector = self.registrar.selector
        needs = self.registrar.needs
        audit_path = None
        if self.log_file is not None:
            audit_path = os.path.relpath(self.log_file.path, checkpoint.parent)
        description = {
            "sortition": __version__,
            "backend": self.backend,
            "method": type(selector).__name__,
            "parameters": {name: str(value) for name, value in selector.parameters().items()},
            "needs": {
                "reads": list(needs.reads),
                "asks": [signal.name for signal in needs.asks],
                "reports": [signal.name for signal in needs.reports],
                "individual": needs.individual,
            },
            "cohort": self.options.cohort,
            "overselect": float(self.options.overselect),
            "horizon": self.registrar.horizon,
            "guards": self.registrar.guards.changed(),
            "audit": audit_path,
            "names": names,
        }
        snapshot.write_atomically(beside(checkpoint, ABOUT), json.dumps(json_value(description), indent=1).encode())
        self._described = names

    # -- what was saved ------------------------------------------------------------------------------------------------

    def _load(self, path: Path) -> None:
        """Restore members and engine; the registrar waits for its population.

        A checkpoint of a run with other options is refused, and the message names the difference.
        """
        arrays, header = snapshot.load(path)
        try:
            self._take_over(path, arrays, header)
        except StorageError as error:
            if str(path) in str(error):
                raise
            raise StorageError(f"{path}: {error}") from None
        except KeyError as error:
            raise StorageError(f"{path} is not a checkpoint of this federation: {error} is missing.") from None
        except (TypeError, ValueError, IndexError, AttributeError, InputError) as error:
            reason = str(error).rstrip(".")
            raise StorageError(f"{path} is not a checkpoint of this federation: {reason}.") from None

    def _take_over(self, path: Path, arrays: Mapping[str, Array], header: StoredTable) -> None:
        """Take over what a checkpoint holds."""
        federation = header["federation"]
        snapshot.check_options(path, federation["options"], self.identity)
        model: Model = {str(name): arrays[f"model.{row}"] for row, name in enumerate(federation["model"])}
        registrar = header["registrar"]
        steps = registrar.get("under_way", {}).get("version", registrar["index"])
        index = whole_number(steps, "round")
        salt = bytes.fromhex(federation["salt"])
        history = _read_history(path, header["rounds"])
        fault = different(model, self.engine.model)
        if fault:
            raise StorageError(f"{path} holds another model than the one that is to be trained: {fault}.")
        selection = self._selection_of(arrays, header)
        self.members.restore(take_part(arrays, "facts."), federation["members"])
        self.messenger.check.restore_names(federation["sent_arrays"])
        self.engine.restore(model, take_part(arrays, "engine."), federation["engine"])
        self.members.changed = True
        self.policy.job = str(header.get("job", ""))
        self.saved = Saved(
            selection=selection,
            in_flight=(take_part(arrays, "in_flight."), dict(header.get("in_flight") or {})),
        )
        self.history = history
        self.played = index
        if self.log_file is not None and salt:
            self.log_file.salt = salt

    def _selection_of(self, arrays: Mapping[str, Array], header: StoredTable) -> SavedSelection:
        """Return the states of the live method and of its shadows; a promoted shadow's is the live one's."""
        states = take_part(arrays, "registrar.")
        registrar = header["registrar"]
        table = header.get("shadows")
        arrangement = self.options.arrangement
        if table is None:
            return SavedSelection(states, registrar, None)
        if table["live"] == arrangement.live_label:
            return SavedSelection(states, registrar, (take_part(arrays, "shadow."), table))
        if not arrangement.promoted:
            raise StorageError(
                f"its live method is {table['live']!r}, and this one's is {arrangement.live_label!r}. Give "
                f"promote={table['live']!r} to go on with it, or promote={arrangement.live_label!r} to change"
            )
        self.promoted = True
        return promoted_state(arrangement.live_label, arrays, registrar, table)


def _read_history(path: Path, rounds: object) -> list[RoundRecord]:
    """Read the first lines of the journal beside a checkpoint."""
    n_rounds = whole_number(rounds, "the number of rounds")
    journal_path = beside(path, HISTORY)
    try:
        with journal_path.open(encoding="utf-8") as file:
            lines = list(islice(file, n_rounds))
    except OSError as error:
        raise StorageError(
            f"{journal_path} must be beside {path.name}: it holds the rounds so far; {error.strerror}."
        ) from None
    if len(lines) < n_rounds or not all(line.endswith("\n") for line in lines):
        raise StorageError(f"{journal_path} has fewer whole lines than the {n_rounds} rounds of {path.name}.")
    records = [json.loads(line) for line in lines]
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("its history is no list of rounds")
    return records


@contextmanager
def reserved(path: Path | None, resumed: Path | None) -> Iterator[None]:
    """Keep a checkpoint for this server; refuse a second server, or a fresh run over an old file, at once.

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
