"""What devices were used for, in one SQLite file that several federations share.

Every claim on a device is one row, written before its work is sent; rows are never changed. Each process keeps its own
sums of them (:mod:`~sortition.federation.policies`) and reads what others have added since it last looked. A claim is
checked and written in one transaction that excludes other writers, so two federations never claim the same last place.

Rows that no rule can need any more are pruned: every federation says here how far back its rules look, and what is
older than all of that (and than :data:`RETENTION`) is added to the device's lifetime sum and deleted, in one
transaction. A process that had not yet read such a row begins its own sums anew.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sortition.core.errors import StorageError

LEDGER = ".ledger.sqlite"  # what the ledger beside a federation's checkpoint ends in
FORMAT = 1
PATIENCE = 30.0  # seconds for which a writer waits for others
RETENTION = 28 * 86400.0  # seconds for which every claim stays, so that limits can be changed and federations can join
CLOCK_MARGIN = 86400.0  # seconds by which the clocks of two federations may differ
PRUNING_PAUSE = 86400.0  # seconds between two prunings by the same process
TABLES = """
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
);
CREATE TABLE IF NOT EXISTS lifetimes (
    client TEXT NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL,
    uses INTEGER NOT NULL,
    last REAL NOT NULL,
    PRIMARY KEY (client, owner, tags)
);
CREATE TABLE IF NOT EXISTS jobs (
    job TEXT PRIMARY KEY,
    seconds REAL NOT NULL,
    rounds INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS pruned (
    everything INTEGER PRIMARY KEY CHECK (everything = 1),
    last_id INTEGER NOT NULL
);
"""
READ = "SELECT id, job, round, client, owner, tags, at, uses, bytes FROM claims WHERE id > ? ORDER BY id"
WRITE = "INSERT INTO claims (job, round, client, owner, tags, at, uses, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
LIFETIMES = "SELECT client, owner, tags, uses FROM lifetimes ORDER BY client, owner, tags"
REGISTER = """
INSERT INTO jobs (job, seconds, rounds) VALUES (?, ?, ?)
ON CONFLICT (job) DO UPDATE SET seconds = excluded.seconds, rounds = excluded.rounds
"""
NEEDLESS = "CREATE TEMP TABLE IF NOT EXISTS needless (id INTEGER PRIMARY KEY)"
# Rows that are older than every span of seconds, and older than the rounds that their own job looks back.
FIND_NEEDLESS = """
INSERT INTO needless SELECT id FROM claims LEFT JOIN (
    SELECT jobs.job AS job, MAX(claims.round) - jobs.rounds AS last_round
    FROM jobs JOIN claims ON claims.job = jobs.job GROUP BY jobs.job
) AS past ON past.job = claims.job
WHERE claims.at <= ? AND (last_round IS NULL OR claims.round <= last_round)
"""
SUM_UP = """
INSERT INTO lifetimes (client, owner, tags, uses, last)
SELECT client, owner, tags, SUM(uses), MAX(at) FROM claims WHERE id IN needless GROUP BY client, owner, tags
ON CONFLICT (client, owner, tags) DO UPDATE SET uses = uses + excluded.uses, last = MAX(last, excluded.last)
"""
NOTE_PRUNED = """
INSERT INTO pruned (everything, last_id) SELECT 1, MAX(id) FROM needless WHERE true
ON CONFLICT (everything) DO UPDATE SET last_id = MAX(last_id, excluded.last_id)
"""


@dataclass(frozen=True)
class Lookback:
    """How far back the rules of a federation look.

    Attributes:
        seconds: the longest window or separation that is a time; 0 where there is none.
        rounds: the longest one that is a number of rounds; 0 where there is none.
    """

    seconds: float = 0.0
    rounds: int = 0


@dataclass(frozen=True)
class PrunedUses:
    """How often a device took part in claims that were pruned.

    Attributes:
        client: the device's stable name.
        owner: its owner at the time, as text; empty where owners are not known.
        tags: its tags at the time.
        uses: participations.
    """

    client: str
    owner: str
    tags: tuple[str, ...]
    uses: int


@dataclass(frozen=True)
class News:
    """What a process has not read yet.

    Attributes:
        claims: new claims, those of this process too, in the order of writing.
        lifetimes: None: the claims come on top of what was read before. Otherwise rows were pruned that had not been
            read: these sums and ``claims`` are all that the ledger holds, and counting begins anew.
    """

    claims: list[Claim]
    lifetimes: list[PrunedUses] | None


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
        self._prune_at = -math.inf  # when this process prunes again
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
        self._db.executescript(TABLES)
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
            if self._db.in_transaction:  # SQLite ends it itself where, for one, the disk is full
                self._db.execute("ROLLBACK")
            raise

    def register(self, job: str, lookback: Lookback) -> None:
        """Say how far back the rules of a federation look, before it reads: what they need is then never pruned."""
        with self._translated():
            self._db.execute(REGISTER, (job, lookback.seconds, lookback.rounds))

    def unread(self) -> News:
        """Return what was added since the last call."""
        with self._translated(), self._one_moment():
            pruned_to = self._pruned_to()
            lifetimes = None
            begin = self._read_to
            if pruned_to > self._read_to:
                lifetimes = [_read_pruned_uses(row) for row in self._db.execute(LIFETIMES)]
                begin = 0
            rows = self._db.execute(READ, (begin,)).fetchall()
            claims = [_read_claim(row[1:]) for row in rows]
        row_ids = [int(row[0]) for row in rows]
        self._read_to = max([self._read_to, pruned_to, *row_ids])
        return News(claims, lifetimes)

    def prune(self, now: float) -> int:
        """Delete claims that no rule of any federation can need at ``now``, and sum them up; return how many they were.

        It is called in :meth:`exclusively`, and does something once a day.
        """
        if now < self._prune_at:
            return 0
        self._prune_at = now + PRUNING_PAUSE
        with self._translated():
            (longest,) = self._db.execute("SELECT MAX(seconds) FROM jobs").fetchone()
            oldest = now - max((longest or 0.0) + CLOCK_MARGIN, RETENTION)
            self._db.execute(NEEDLESS)
            self._db.execute("DELETE FROM needless")
            pruned = self._db.execute(FIND_NEEDLESS, (oldest,)).rowcount
            if pruned:
                self._db.execute(SUM_UP)
                self._db.execute(NOTE_PRUNED)
                self._db.execute("DELETE FROM claims WHERE id IN needless")
        return pruned

    def _pruned_to(self) -> int:
        """Return the last row that was pruned; 0 where none ever was."""
        (last_id,) = self._db.execute("SELECT COALESCE(MAX(last_id), 0) FROM pruned").fetchone()
        return int(last_id)

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Let several queries see the same ledger, whatever others write meanwhile."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

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
        except (ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"The ledger {self.path} is damaged: {error}.") from None


def _read_pruned_uses(row: Sequence[object]) -> PrunedUses:
    """Read the pruned uses of a row, whose types SQLite does not enforce."""
    client, owner, tags_as_json, uses = row
    tags = json.loads(str(tags_as_json))
    if not isinstance(tags, list) or not isinstance(uses, int) or uses < 0:
        raise ValueError(f"the stored use count of client {client!r} is invalid")
    return PrunedUses(str(client), str(owner), tuple(str(tag) for tag in tags), uses)


def _read_claim(row: Sequence[object]) -> Claim:
    """Read the claim of a row, whose types SQLite does not enforce."""
    job, round_index, client, owner, tags_as_json, seconds, uses, n_bytes = row
    tags = json.loads(str(tags_as_json))
    has_valid_place = isinstance(tags, list) and isinstance(round_index, int) and isinstance(seconds, float)
    has_valid_counts = uses in (0, 1) and isinstance(n_bytes, int) and n_bytes >= 0
    if not (has_valid_place and has_valid_counts):
        raise ValueError(f"the stored claim on client {client!r} is invalid")
    return Claim(
        job=str(job),
        round=int(str(round_index)),
        client=str(client),
        owner=str(owner),
        tags=tuple(str(tag) for tag in tags),
        at=float(str(seconds)),
        uses=int(str(uses)),
        bytes=int(str(n_bytes)),
    )
