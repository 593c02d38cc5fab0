"""What devices were used for, in one SQLite file that several federations share.

Every claim on a device is one row, written before its work is sent; rows are never changed. Each process keeps its own
sums of them (:mod:`~sortition.federation.policies`) and reads what others have added since it last looked. A claim is
checked and written in one transaction that excludes other writers, so two federations never claim the same last place.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sortition.core.errors import StorageError

LEDGER = ".ledger.sqlite"  # what the ledger beside a federation's checkpoint ends in
FORMAT = 1
PATIENCE = 30.0  # seconds for which a writer waits for others
TABLE = """
CREATE TABLE IF NOT EXISTS claims (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    round INTEGER NOT NULL,
    client TEXT NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL,
    at REAL NOT NULL,
    uses INTEGER NOT NULL,
    bytes INTEGER NOT NULL
)
"""
READ = "SELECT id, job, round, client, owner, tags, at, uses, bytes FROM claims WHERE id > ? ORDER BY id"
WRITE = "INSERT INTO claims (job, round, client, owner, tags, at, uses, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Claim:
    """One device that is about to be used.

    Attributes:
        job: the federation that uses it.
        round: of that federation.
        client: the device's stable name.
        owner: its owner, as text; empty where owners are not known.
        tags: its tags.
        at: seconds of the clock.
        uses: 1 for a participation; 0 for traffic alone.
        bytes: that it will receive and send.
    """

    job: str
    round: int
    client: str
    owner: str
    tags: tuple[str, ...]
    at: float
    uses: int
    bytes: int


class Ledger:
    """An open ledger.

    Args:
        path: the file; made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0  # the last row that was read
        self._connection: sqlite3.Connection | None = None
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._set_up()

    def _set_up(self) -> None:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, FORMAT):
            raise StorageError(f"{self.path} is a ledger of format {version}; this version reads {FORMAT}.")
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "claims" not in tables:
            raise StorageError(f"{self.path} is a database of something else. Choose another ledger=.")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(TABLE)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError(f"{self.path} is closed.")
        return self._connection

    def close(self) -> None:
        """Close the file; others may go on with it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Let nobody else write during the block; what it wrote is on the disk when it ends, or not at all."""
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
        read_to = self._read_to
        try:
            yield
            with self._translated():
                self._db.execute("COMMIT")
        except BaseException:
            self._read_to = read_to  # rows that were not kept have numbers that others will get
            self._db.execute("ROLLBACK")
            raise

    def unread(self) -> list[Claim]:
        """The claims that were added since the last call, those of this process too, in the order of writing."""
        with self._translated():
            rows = self._db.execute(READ, (self._read_to,)).fetchall()
            claims = [_claim(row[1:]) for row in rows]
        if rows:
            self._read_to = int(rows[-1][0])
        return claims

    def append(self, claims: Sequence[Claim]) -> None:
        """Add claims; :meth:`unread` gives them back."""
        rows = [
            (
                claim.job,
                claim.round,
                claim.client,
                claim.owner,
                json.dumps(list(claim.tags)),
                claim.at,
                claim.uses,
                claim.bytes,
            )
            for claim in claims
        ]
        with self._translated():
            self._db.executemany(WRITE, rows)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"The ledger {self.path} cannot be used: {error}. Choose another ledger=.") from None
        except (ValueError, TypeError) as error:
            raise StorageError(f"The ledger {self.path} is damaged: {error}.") from None


def _claim(row: Sequence[object]) -> Claim:
    """The claim of a row, whose types SQLite does not enforce."""
    job, round_index, client, owner, tags, at, uses, n_bytes = row
    words = json.loads(str(tags))
    is_sound = isinstance(words, list) and uses in (0, 1) and isinstance(n_bytes, int) and n_bytes >= 0
    if not is_sound or not isinstance(round_index, int) or not isinstance(at, float):
        raise ValueError(f"a row of client {client!r} does not hold a claim")
    return Claim(
        job=str(job),
        round=round_index,
        client=str(client),
        owner=str(owner),
        tags=tuple(str(word) for word in words),
        at=at,
        uses=1 if uses else 0,
        bytes=int(str(n_bytes)),
    )
