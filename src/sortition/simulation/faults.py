"""What goes wrong on the way between clients and server, from a dropout to a server that falls over.

All of it is drawn by (seed, purpose, round) for every client at once, so that methods compared under one seed meet the
same faults, and resuming needs nothing saved. :class:`Faults` says how often, :class:`FaultDraws` what then happens to
N clients; :mod:`.exchange` and :mod:`.engine` deliver it as a real server would meet it. Slow clients, deadlines and
over-selection are in :mod:`.devices`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.guards.screening import Answers
from sortition.core.questions import Measure, Reading
from sortition.core.streams import stream
from sortition.core.validation import is_number, known_keys_only
from sortition.simulation.corruption import DAMAGES, damaged, damaged_updates

if TYPE_CHECKING:
    from sortition.learning.vector import Vector
    from sortition.simulation.world import TrainedCohort

Mask = npt.NDArray[np.bool_]
FATES = ("before", "during", "after")  # of a selected client that falls silent: when, seen from its training
POINTS = ("select", "answer", "finish", "record")  # where a server can fall over: just before each of these


@known_keys_only
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
        crash: per round, the server falls over at some point of it and goes on from its last saved state.
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
        for together in (FATES, ("lost", "late"), ("returning", "reused")):
            if (total := sum(getattr(self, name) for name in together)) > 1 + 1e-12:
                raise bad(f"Faults: {' + '.join(together)}", "at most 1, since they exclude each other", total)
        if self.newcomers == 1:
            raise bad("Faults.newcomers", "below 1, so that somebody is there at first", self.newcomers)
        if self.newcomers and not self.joining:
            raise bad("Faults.joining", "> 0 where there are newcomers", self.joining)


class FaultDraws:
    """What goes wrong for N clients under one seed."""

    def __init__(self, faults: Faults, n_clients: int, seed: int) -> None:
        self.faults, self.n_clients, self.seed = faults, n_clients, seed
        self._churned = (-1, np.zeros(n_clients, bool), np.arange(n_clients), np.empty(0, np.int64))

    def _draws(self, purpose: str, t: int) -> Floats:
        """One number in [0, 1) per client."""
        return stream(self.seed, f"faults: {purpose}", t).random(self.n_clients)

    def _happens(self, chance: float, purpose: str, t: int) -> bool:
        return chance > 0 and bool(stream(self.seed, f"faults: {purpose}", t).random() < chance)

    # -- who is there ---------------------------------------------------------------------------------------------

    @cached_property
    def _arrivals(self) -> Ids:
        """The rounds in which newcomers arrive, in order: the next id goes to the next one."""
        late = min(round(self.faults.newcomers * self.n_clients), self.n_clients - 1)
        return np.sort(stream(self.seed, "faults: newcomers").geometric(self.faults.joining, late)) if late else _NOBODY

    def size(self, t: int) -> int:
        """How many clients have joined by round t; ids are dense, so these are the ids below it."""
        return self.n_clients - int((self._arrivals > t).sum())

    def present(self, t: int) -> Mask | None:
        """(N,) who has joined and is not away; None if nobody ever moves."""
        if not (self._arrivals.size or self.faults.leaving):
            return None
        return np.logical_not(self._churn(t)[1]) & (np.arange(self.n_clients) < self.size(t))

    def owners(self, t: int) -> Ids | None:
        """(N,) whose data each client holds; None where everybody holds their own."""
        return self._churn(t)[2] if self.faults.leaving and self.faults.reused else None

    def taken(self, t: int) -> Ids:
        """The ids that another client took in round t."""
        return self._churn(t)[3] if self.faults.leaving and self.faults.reused else _NOBODY

    def _churn(self, t: int) -> tuple[int, Mask, Ids, Ids]:
        """(t, who is away, whose data, taken ids), from the round asked for last, or from the first."""
        faults = self.faults
        if not faults.leaving:
            return t, np.zeros(self.n_clients, bool), np.arange(self.n_clients), _NOBODY
        at, away, owners, taken = self._churned
        if at > t:
            at, away, owners, taken = -1, np.zeros(self.n_clients, bool), np.arange(self.n_clients), _NOBODY
        for now in range(at + 1, t + 1):
            if now == 0:
                continue  # everybody who is known is there in the first round
            draws = self._draws("coming and going", now)
            member = np.arange(self.n_clients) < self.size(now - 1)
            leaves = ~away & member & (draws < faults.leaving)
            taken = np.flatnonzero(away & (draws >= faults.returning) & (draws < faults.returning + faults.reused))
            if taken.size and self.n_clients > 1:
                shift = stream(self.seed, "faults: tenants", now).integers(1, self.n_clients, self.n_clients)
                owners = owners.copy()
                owners[taken] = (taken + shift[taken]) % self.n_clients
            away = (away & (draws >= faults.returning + faults.reused)) | leaves
        self._churned = (t, away, owners, taken)
        return self._churned

    # -- what arrives ---------------------------------------------------------------------------------------------

    def answers(self, t: int, question: Measure, reading: Reading) -> tuple[Reading, Reading]:
        """What arrives of an answer in time, and what arrives when the question is closed."""
        if not (self.faults.lost or self.faults.late):
            return reading, Reading.empty()
        draws = self._draws("answers", t)[reading.ids]
        late = (draws >= self.faults.lost) & (draws < self.faults.lost + self.faults.late)
        kept = draws >= self.faults.lost + self.faults.late
        return _rows(reading, kept), _rows(reading, late)

    def damage(self, t: int, reading: Reading) -> Answers:
        """The same answer with some rows damaged."""
        return damaged(reading, self._damages(t, "answers", reading.ids))

    def fates(self, t: int, ids: Ids) -> tuple[Array, Floats]:
        """When each selected client falls silent (k,): −1 never, else an index of FATES; and how far it came."""
        rates = [getattr(self.faults, name) for name in FATES]
        if not any(rates):
            return np.full(ids.size, -1), np.ones(ids.size)
        when = np.searchsorted(np.cumsum(rates), self._draws("dropouts", t)[ids], side="right")
        when = np.where(when < len(FATES), when, -1)
        part = np.select([when == 0, when == 1], [0.0, self._draws("progress", t)[ids]], 1.0)
        return when, part

    def updates(self, t: int, outcome: TrainedCohort) -> Vector | list[Vector]:
        """The updates of a cohort as they arrive; a list of rows where shapes differ."""
        return damaged_updates(outcome.deltas, self._damages(t, "updates", outcome.ids))

    def reports(self, t: int, outcome: TrainedCohort) -> dict[str, Answers]:
        """The reports of a cohort as they arrive."""
        kinds = self._damages(t, "reports", outcome.ids)
        return {name: damaged(reading, kinds) for name, reading in outcome.reports.items()}

    def _damages(self, t: int, what: str, ids: Ids) -> Array:
        """(k,) −1 for sound, else an index of DAMAGES."""
        kinds = np.full(ids.size, -1)
        if self.faults.damaged:
            draws = self._draws(f"damaged {what}", t)[ids]
            hit = draws < self.faults.damaged  # below the rate draws are uniform, so their share of it decides the kind
            kinds[hit] = np.minimum(draws[hit] / self.faults.damaged * len(DAMAGES), len(DAMAGES) - 1).astype(np.int64)
        return kinds

    # -- the server -----------------------------------------------------------------------------------------------

    def duplicated(self, t: int) -> bool:
        """Whether the reports of round t arrive twice."""
        return self._happens(self.faults.duplicated, "duplicates", t)

    def stale(self, t: int) -> bool:
        """Whether reports of a selection arrive that the server began and gave up."""
        return self._happens(self.faults.stale, "stale", t)

    def crash(self, t: int) -> int | None:
        """The first of POINTS at which the server can fall over in round t; None if it stands."""
        if not self._happens(self.faults.crash, "crash", t):
            return None
        return int(stream(self.seed, "faults: crash point", t).integers(len(POINTS)))


_NOBODY = np.empty(0, np.int64)


def _rows(reading: Reading, kept: Mask) -> Reading:
    return Reading(reading.ids[kept], reading.values[kept])
