"""What goes wrong on the way between clients and server, from a dropout to a server that crashes.

All faults are drawn by (seed, purpose, round) for every client at once, so that methods compared under one seed meet
the same faults, and resuming needs nothing saved. :class:`Faults` says how often each fault happens, and
:class:`FaultDraws` says what happens to N clients; :mod:`.simulation` lets it happen as a real server would meet it.
Slow clients are in :mod:`.devices`; deadlines and over-selection are a matter of the pace.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import NOBODY
from sortition.core.errors import bad
from sortition.core.guards.answer_screening import Answers
from sortition.core.questions import Measure, Reading
from sortition.core.streams import stream
from sortition.core.validation import is_number, refuse_unknown_keys

if TYPE_CHECKING:
    from sortition.learning.vector import Vector
    from sortition.simulation.world import CohortReturn

Mask = npt.NDArray[np.bool_]
FATES = ("before", "during", "after")  # when a selected client falls silent, seen from its training
POINTS = ("select", "answer", "finish", "record")  # a server can crash just before each of these
DAMAGES = ("nan", "infinity", "shape", "norm")  # what a broken client sends
HUGE = 1e20  # beyond any bound, and still a float32


@refuse_unknown_keys
@dataclass(frozen=True)
class Faults:
    """How often each thing goes wrong: probabilities, per client and round unless said otherwise.

    Attributes:
        before: a selected client never starts.
        during: it stops on the way; the part that it did is wasted.
        after: it trains, and its upload is lost.
        lost: its answers to questions are lost.
        late: its answers arrive when the question is closed.
        damaged: what it sends holds NaN, infinity, a wrong shape or an absurd norm, at random.
        duplicated: per round, the cohort's reports arrive twice.
        stale: per round, reports arrive of a selection that the server gave up and began anew.
        newcomers: share of all clients (the highest ids) that are not there at first.
        joining: a newcomer arrives in a round.
        leaving: a client goes away after a round.
        returning: one that is away comes back.
        reused: the id of one that is away is taken by another client, with other data.
        crash: per round, the server crashes at some point of it and goes on from its last saved state.
    """

    before: float = 0.0
    during: float = 0.0
    after: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    damaged: float = 0.0
    duplicated: float = 0.0
    stale: float = 0.0
    newcomers: float = 0.0
    joining: float = 0.1
    leaving: float = 0.0
    returning: float = 0.1
    reused: float = 0.0
    crash: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (is_number(value) and 0 <= value <= 1):
                raise bad(f"Faults.{item.name}", "a probability in [0, 1]", value)
        for exclusive in (FATES, ("lost", "late"), ("returning", "reused")):
            total = sum(getattr(self, name) for name in exclusive)
            if total > 1 + 1e-12:
                raise bad(f"Faults: {' + '.join(exclusive)}", "at most 1, since they exclude each other", total)
        if self.newcomers == 1:
            raise bad("Faults.newcomers", "below 1, so that somebody is there at first", self.newcomers)
        if self.newcomers and not self.joining:
            raise bad("Faults.joining", "> 0 where there are newcomers", self.joining)

    @property
    def disturb_server(self) -> bool:
        """Tell whether the server itself can crash, give a selection up, or receive reports twice."""
        return bool(self.crash or self.stale or self.duplicated)


@dataclass(frozen=True, eq=False)
class Churn:
    """Who is away in a round, and who holds whose data.

    Attributes:
        t: the round.
        away: (N,) a mask of the clients that are away.
        owners: (N,) whose data each client holds.
        taken_ids: the ids that another client took in this round.
    """

    t: int
    away: Mask
    owners: Ids
    taken_ids: Ids

    @classmethod
    def none(cls, t: int, n_clients: int) -> Churn:
        """Return a round's churn in which nobody is away and everybody holds their own data."""
        return cls(t=t, away=np.zeros(n_clients, bool), owners=np.arange(n_clients), taken_ids=NOBODY)


class FaultDraws:
    """What goes wrong for N clients under one seed."""

    def __init__(self, faults: Faults, n_clients: int, seed: int) -> None:
        self.faults = faults
        self.n_clients = n_clients
        self.seed = seed
        self._last_churn = Churn.none(-1, n_clients)  # of the round asked for last

    def _draws(self, purpose: str, t: int) -> Floats:
        """Return one number in [0, 1) per client."""
        return stream(self.seed, f"faults: {purpose}", t).random(self.n_clients)

    def _happens(self, probability: float, purpose: str, t: int) -> bool:
        return probability > 0 and bool(stream(self.seed, f"faults: {purpose}", t).random() < probability)

    # -- who is there ---------------------------------------------------------------------------------------------

    @cached_property
    def _arrivals(self) -> Ids:
        """Return the rounds in which newcomers arrive, in order: the next id goes to the next one."""
        n_newcomers = min(round(self.faults.newcomers * self.n_clients), self.n_clients - 1)
        if n_newcomers == 0:
            return NOBODY
        return np.sort(stream(self.seed, "faults: newcomers").geometric(self.faults.joining, n_newcomers))

    def size(self, t: int) -> int:
        """Return how many clients have joined by round t; ids are dense, so these are the ids below it."""
        return self.n_clients - int((self._arrivals > t).sum())

    def newcomers(self, t: int) -> Ids:
        """Return the ids that were new in round t; the clients of the first round are no newcomers."""
        return np.arange(self.size(max(0, t - 1)), self.size(t))

    def present(self, t: int) -> Mask | None:
        """Return a mask (N,) of the clients that have joined and are not away; None if nobody ever moves."""
        if not (self._arrivals.size or self.faults.leaving):
            return None
        has_joined = np.arange(self.n_clients) < self.size(t)
        return np.logical_not(self._churn(t).away) & has_joined

    def owners(self, t: int) -> Ids | None:
        """Return whose data each client holds (N,); None where everybody holds their own."""
        if not self._ids_are_reused:
            return None
        return self._churn(t).owners

    def taken(self, t: int) -> Ids:
        """Return the ids that another client took in round t."""
        if not self._ids_are_reused:
            return NOBODY
        return self._churn(t).taken_ids

    @property
    def _ids_are_reused(self) -> bool:
        return bool(self.faults.leaving and self.faults.reused)

    def _churn(self, t: int) -> Churn:
        """Return who is away in round t, computed from the round asked for last, or from the first."""
        if not self.faults.leaving:
            return Churn.none(t, self.n_clients)
        churn = self._last_churn
        if churn.t > t:
            churn = Churn.none(-1, self.n_clients)
        for next_round in range(churn.t + 1, t + 1):
            churn = self._next_churn(churn, next_round)
        self._last_churn = churn
        return churn

    def _next_churn(self, churn: Churn, t: int) -> Churn:
        """Return who is away in round t, given the round before."""
        if t == 0:  # everybody who is known is there in the first round
            return replace(churn, t=0)
        faults = self.faults
        draws = self._draws("coming and going", t)
        had_joined = np.arange(self.n_clients) < self.size(t - 1)
        leaves = ~churn.away & had_joined & (draws < faults.leaving)
        returns_or_is_replaced = draws < faults.returning + faults.reused
        taken_ids = np.flatnonzero(churn.away & (draws >= faults.returning) & returns_or_is_replaced)
        owners = churn.owners
        if taken_ids.size and self.n_clients > 1:
            shift = stream(self.seed, "faults: tenants", t).integers(1, self.n_clients, self.n_clients)
            owners = owners.copy()
            owners[taken_ids] = (taken_ids + shift[taken_ids]) % self.n_clients
        still_away = churn.away & ~returns_or_is_replaced
        return Churn(t=t, away=still_away | leaves, owners=owners, taken_ids=taken_ids)

    # -- what arrives ---------------------------------------------------------------------------------------------

    def answers(self, t: int, question: Measure, reading: Reading) -> tuple[Reading, Reading]:
        """Return what arrives of an answer in time, and what arrives when the question is closed."""
        if not (self.faults.lost or self.faults.late):
            return reading, Reading.empty()
        draws = self._draws("answers", t)[reading.ids]
        is_lost = draws < self.faults.lost
        is_in_time = draws >= self.faults.lost + self.faults.late
        is_late = ~is_lost & ~is_in_time
        return _rows(reading, is_in_time), _rows(reading, is_late)

    def damage(self, t: int, reading: Reading) -> Answers:
        """Return the rows as they arrive, some of them damaged."""
        return damaged(reading, self._damages(t, "answers", reading.ids))

    def fates(self, t: int, ids: Ids) -> tuple[Array, Floats]:
        """Return when each selected client falls silent (k,): −1 never, else an index of FATES; and its progress."""
        rates = [getattr(self.faults, name) for name in FATES]
        if not any(rates):
            return np.full(ids.size, -1), np.ones(ids.size)
        fates = np.searchsorted(np.cumsum(rates), self._draws("dropouts", t)[ids], side="right")
        fates = np.where(fates < len(FATES), fates, -1)
        stops_before = fates == FATES.index("before")
        stops_during = fates == FATES.index("during")
        progress = np.select([stops_before, stops_during], [0.0, self._draws("progress", t)[ids]], 1.0)
        return fates, progress

    def updates(self, t: int, outcome: CohortReturn) -> Vector | list[Vector]:
        """Return the updates of a cohort as they arrive; a list of rows where shapes differ."""
        return damaged_updates(outcome.deltas, self._damages(t, "updates", outcome.ids))

    def reports(self, t: int, outcome: CohortReturn) -> dict[str, Answers]:
        """Return the reports of a cohort as they arrive."""
        kinds = self._damages(t, "reports", outcome.ids)
        return {name: damaged(reading, kinds) for name, reading in outcome.reports.items()}

    def _damages(self, t: int, kind_of_message: str, ids: Ids) -> Array:
        """Return how each client's message is damaged (k,): −1 for sound, else an index of DAMAGES."""
        kinds = np.full(ids.size, -1)
        rate = self.faults.damaged
        if rate:
            draws = self._draws(f"damaged {kind_of_message}", t)[ids]
            is_damaged = draws < rate  # below the rate draws are uniform, so their share of it decides the kind
            kind = draws[is_damaged] / rate * len(DAMAGES)
            kinds[is_damaged] = np.minimum(kind, len(DAMAGES) - 1).astype(np.int64)
        return kinds

    # -- the server -----------------------------------------------------------------------------------------------

    def duplicated(self, t: int) -> bool:
        """Say whether the reports of round t arrive twice."""
        return self._happens(self.faults.duplicated, "duplicates", t)

    def stale(self, t: int) -> bool:
        """Say whether reports of a selection arrive that the server began and gave up."""
        return self._happens(self.faults.stale, "stale", t)

    def crash_index(self, t: int) -> int | None:
        """Return the index of the first of POINTS at which the server can crash in round t; None if it does not."""
        if not self._happens(self.faults.crash, "crash", t):
            return None
        return int(stream(self.seed, "faults: crash point", t).integers(len(POINTS)))


def _rows(reading: Reading, mask: Mask) -> Reading:
    return Reading(reading.ids[mask], reading.values[mask])


# -- numbers as a broken client sends them -----------------------------------------------------------------------------


def damaged(reading: Reading, kinds: Array) -> Answers:
    """Return the rows with their damage; as a mapping where shapes differ, as a server gets them.

    Args:
        reading: sound rows.
        kinds: (k,) how each is damaged: −1 not at all, else an index of DAMAGES.
    """
    if not (kinds >= 0).any():
        return reading
    rows = {
        client: _damaged_row(row, kind)
        for client, row, kind in zip(reading.ids.tolist(), reading.values, kinds, strict=True)
    }
    if (kinds == DAMAGES.index("shape")).any():
        return rows
    return Reading(reading.ids, np.stack(list(rows.values())))


def damaged_updates(deltas: Vector, kinds: Array) -> Vector | list[Vector]:
    """Return the updates with their damage; a list of rows where shapes differ.

    Args:
        deltas: (k, P) sound updates.
        kinds: (k,) how each is damaged: −1 not at all, else an index of DAMAGES.
    """
    if not (kinds >= 0).any():
        return deltas
    rows = [np.asarray(_damaged_row(row, kind), np.float32) for row, kind in zip(deltas, kinds, strict=True)]
    if (kinds == DAMAGES.index("shape")).any():
        return rows
    return np.stack(rows)


def _damaged_row(row: Array, kind: int) -> Array:
    if kind < 0:
        return np.asarray(row)
    if DAMAGES[kind] == "shape":
        return np.append(row, 0.0)
    if DAMAGES[kind] == "norm":
        return np.asarray(row) * HUGE + HUGE
    if DAMAGES[kind] == "nan":
        return np.full(np.shape(row), np.nan)
    return np.full(np.shape(row), np.inf)
