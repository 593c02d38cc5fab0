"""The audit log of a federation in a file: opened when a run begins or resumes; the seed is disclosed at its end."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from sortition.audit.entry_schema import Disclosure
from sortition.audit.entry_writer import commit_to_seed, population_digest
from sortition.audit.log import AuditLog, draw_salt
from sortition.core.errors import StorageError
from sortition.core.registrar import Registrar
from sortition.core.storage import lock
from sortition.core.storage.journal import Journal
from sortition.core.storage.safe_files import open_regular, read_lines, read_lines_of
from sortition.core.storage.snapshot import write_atomically


class LogFile:
    """Keeps the log of one registrar in ``path``.

    The salt is fresh from the operating system, so that nobody can guess the seed from its commitment. Keep it with
    the server's checkpoint to resume after a crash, and keep it secret until :meth:`reveal`. From :meth:`watch` to
    :meth:`reveal` or :meth:`close` the file is locked: nobody else can write to it.
    """

    def __init__(self, path: str | Path, salt: bytes | None = None) -> None:
        self.path = Path(path)
        self.salt = salt or draw_salt()
        self._journal: Journal | None = None
        self._log: AuditLog | None = None
        self._registrar: Registrar | None = None
        self._release: Callable[[], object] = lambda: None  # nothing is locked yet

    def watch(self, registrar: Registrar) -> None:
        """Become the registrar's observer; for a restored registrar, rounds that it has not played are cut off.

        Where clients joined, or gave other facts, since the last round of the log, its next line says so.
        A registrar that begins is refused where there is a log already, which would be wiped. The exception is a log
        that commits to the same salt and seed and is not revealed: the same run wrote it and died in its first round.
        """
        self.close()
        n_entries = 0
        if registrar.n_log_entries or self._commits_to(registrar.seed):
            n_entries = registrar.n_log_entries + 1  # and the header
        self._lock(n_entries)
        last_hash = ""
        last_population = ""
        try:
            self._journal = Journal(self.path, n_entries)
            if n_entries:
                last_hash = str(json.loads(self._journal.last_line)["hash"])
                last_population = _last_population(self.path)
        except (ValueError, KeyError, TypeError):
            self.close()
            raise StorageError(f"{self.path} is damaged: its last kept line is no entry of an audit log.") from None
        except StorageError:
            self.close()
            raise
        self._log = AuditLog(registrar, self.salt, self._journal.write, n_entries=n_entries, last_hash=last_hash)
        self._registrar = registrar
        registrar.observer = self._log
        if last_population and last_population != population_digest(registrar.population):
            self._log.joined(registrar.population)

    @property
    def _disclosure(self) -> Path:
        return self.path.with_name(f"{self.path.name}.reveal.json")

    def _commits_to(self, seed: int) -> bool:
        """Tell whether there is a log of an unfinished run whose first line was written with this salt and seed."""
        try:
            with open_regular(self.path) as file:
                header = json.loads(next(read_lines_of(file, self.path)))
            return not self._disclosure.exists() and bool(header["commitment"] == commit_to_seed(self.salt, seed))
        except (OSError, StorageError, StopIteration, ValueError, KeyError, TypeError):
            return False

    def _lock(self, n_entries: int) -> None:
        """Lock the file; refuse one that is not empty where the log has no entries yet."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = lock.acquire(self.path)
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}.") from None
        if handle is None:
            raise StorageError(f"{self.path} is in use by another server. Wait for it, or give another path.")
        self._release = weakref.finalize(self, os.close, handle)
        if not n_entries and (size := os.fstat(handle).st_size):
            self.close()
            raise StorageError(
                f"{self.path} must be new for a run that begins; got a log of {size:,} bytes. "
                "Give another path, or resume from the checkpoint of the run that wrote it."
            )

    def close(self) -> None:
        """Close and unlock the file, without disclosing anything."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._release()

    def sync(self) -> None:
        """Wait until the last finished round is on the disk; call it before the checkpoint that relies on it."""
        if self._log is not None and self._journal is not None:
            self._log.flush()
            self._journal.sync()

    def reveal(self, *, facts: bool = True, names: Sequence[str] = ()) -> Path | None:
        """Write seed, salt and the last hash beside the log, once the run is over; return None if nothing was played.

        Args:
            facts: whether to disclose also what the server knows about its clients, without which no choice that
                reads these facts can be recomputed. The file is then as private as they are.
            names: the clients' names by id. No choice depends on them; none are disclosed unless they are passed.
        """
        self.sync()
        if self._log is None or self._journal is None or self._registrar is None:
            return None
        published: Disclosure = {
            "seed": int(self._registrar.seed),
            "salt": self.salt.hex(),
            "entries": self._log.n_entries,
            "final": self._log.last_hash,
        }
        if facts:
            population = self._registrar.population
            all_known = population.known_ids.size == population.n_clients
            published["facts"] = {name: getattr(population, name).tolist() for name in population.facts}
            published["types"] = {name: getattr(population, name).dtype.str for name in population.facts}
            published["known"] = None if all_known else population.known_ids.tolist()
        if names:
            published["names"] = list(names)
        write_atomically(self._disclosure, json.dumps(published, indent=1).encode() + b"\n")
        self.close()
        return self._disclosure


def _last_population(path: Path) -> str:
    """Return the digest of the population that the last line of a log was chosen from."""
    digest = ""
    for line in read_lines(path):
        if not digest:  # the header
            digest = str(json.loads(line)["population"])
        elif b'"joined":' in line:
            joined = json.loads(line).get("joined")
            if joined:
                digest = str(joined["population"])
    return digest
