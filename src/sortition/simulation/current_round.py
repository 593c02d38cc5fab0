"""One round of the simulator, from its choice to its record: who was sent to work, and what came back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sortition.aggregation.clipping import clip_rows
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.guards.answer_screening import Answers, row_norms
from sortition.core.intake import UpdateVerdict
from sortition.core.questions import Reading
from sortition.learning.vector import Vector
from sortition.simulation.devices import RoundEnd
from sortition.simulation.faults import FATES
from sortition.simulation.round_cache import Training, Trainings
from sortition.simulation.round_costs import Ledger
from sortition.simulation.world import TrainedCohort, World


@dataclass(frozen=True, eq=False)
class SentCohort:
    """Clients that one selection sent to work.

    Attributes:
        ids: (k,) the clients.
        fates: (k,) when each of them falls silent, as an index of FATES; −1: never.
    """

    ids: Ids
    fates: Array

    @property
    def started(self) -> Ids:
        """The clients that began to train."""
        return self.ids[self.fates != FATES.index("before")]

    def with_fate(self, fate: str) -> Ids:
        """Return the clients that fall silent at this moment."""
        return self.ids[self.fates == FATES.index(fate)]


@dataclass(frozen=True, eq=False)
class CohortAtWork:
    """A cohort at work in a round that ends before the next begins.

    Attributes:
        cohort: the cohort, with its weights.
        members: its members, and who of them falls silent.
        end: who answers in time, and when the round is closed.
        answering: (m,) the members whose answers come in time.
        seconds: (m,) how long they take.
    """

    cohort: Cohort
    members: SentCohort
    end: RoundEnd
    answering: Ids
    seconds: Floats


@dataclass(frozen=True, eq=False)
class SoundUpdates:
    """The updates that a step is made of.

    Attributes:
        rows: (k, P) one update per client; empty for a cohort that was folded.
        total: (P,) the weighted sum of the updates of a folded cohort; None where the rows are there.
        norm_limit: the largest length that the guards allow an update, and their combination.
    """

    rows: Vector
    total: Vector | None = None
    norm_limit: float = math.inf


@dataclass(frozen=True, eq=False)
class ScreenedTraining:
    """What a training gave, after the guards have judged its updates.

    Attributes:
        outcome: what came back, one row per client.
        refused: the row of each update that cannot be used, and why: it is not finite, or too long.
        updates: the updates that can be used.
    """

    outcome: TrainedCohort
    refused: Mapping[int, str]
    updates: SoundUpdates

    @cached_property
    def is_sound(self) -> Array:
        """A mask (k,) of the rows whose updates can be used."""
        return np.isin(np.arange(self.outcome.ids.size), list(self.refused), invert=True)

    @cached_property
    def sound_ids(self) -> Ids:
        """The clients whose updates can be used."""
        return self.outcome.ids[self.is_sound]

    @property
    def reasons(self) -> dict[int, str]:
        """Why updates are refused, by client."""
        return {int(self.outcome.ids[row]): reason for row, reason in sorted(self.refused.items())}


class Stopwatch:
    """Wall-clock seconds of the parts of a round; each lap takes the time since the lap before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str, less: float = 0.0) -> None:
        """End a part of the round; subtract ``less``, seconds that are counted elsewhere."""
        lap_end = time.perf_counter()
        self.seconds[name] = lap_end - self._last - less
        self._last = lap_end


@dataclass
class CurrentRound:
    """The round that is being played, from its choice to its record.

    Attributes:
        world: the clients, with this round's owners of data and states of optimisers.
        t: the index of the round.
        ledger: what it costs.
        watch: wall-clock seconds of its parts.
        joined: ids of newcomers, and of those whose place was taken.
        n_lost_answers: answers that never came.
        late_readings: readings that came when their question was closed.
        n_late_answers: how many answers these are.
        wall_seconds_asking: wall-clock seconds that questions took.
        seconds_asking: simulated seconds that questions took.
        training: what is to be trained.
        opened_at: the wall-clock second at which the first half was over.
        nobody_eligible: whether the policy leaves out everybody who is there.
        sent_cohorts: the cohorts that were sent to work.
        at_work: the cohort at work, where rounds do not overlap.
        updates: the updates that the step is made of.
        losses: (k,) mean training losses of their clients.
        reports: what these clients report, by signal.
        repeated: reports that came twice, or for a selection that was given up, by kind.
    """

    world: World
    t: int
    ledger: Ledger
    watch: Stopwatch = field(default_factory=Stopwatch)
    joined: dict[str, list[int]] = field(default_factory=dict)
    n_lost_answers: int = 0
    late_readings: list[Reading] = field(default_factory=list)
    n_late_answers: int = 0
    wall_seconds_asking: float = 0.0
    seconds_asking: float = 0.0
    training: Training | Trainings = None  # type: ignore[assignment]  # given by dispatch
    opened_at: float = 0.0
    nobody_eligible: bool = False
    sent_cohorts: list[SentCohort] = field(default_factory=list)
    at_work: CohortAtWork = None  # type: ignore[assignment]  # given by dispatch
    updates: SoundUpdates = None  # type: ignore[assignment]  # given by collect
    losses: Vector | None = None
    reports: dict[str, Answers] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, t: int) -> CurrentRound:
        """Begin a round in which nothing has happened yet."""
        return cls(world, t, Ledger(world.initial.size, world.n_clients))

    @property
    def everybody_sent(self) -> SentCohort:
        """Everybody who was sent to work in this round."""
        return SentCohort(
            ids=np.concatenate([NOBODY, *(cohort.ids for cohort in self.sent_cohorts)]),
            fates=np.concatenate([NOBODY, *(cohort.fates for cohort in self.sent_cohorts)]),
        )


def as_rows(updates: Vector | list[Vector], params: Vector) -> Vector:
    """Return updates as they arrive, as (k, P); those of another shape are rows of NaN."""
    if not isinstance(updates, list):
        return updates
    return np.stack([row if row.shape == params.shape else np.full_like(params, np.nan) for row in updates])


def screen_updates(
    outcome: TrainedCohort, updates: Vector, judge: Callable[[Ids, Floats], UpdateVerdict]
) -> ScreenedTraining:
    """Let the guards judge updates (k, P); leave out those that they refuse, and shorten those that are too long."""
    lengths = row_norms(updates)
    refused, norm_limit = judge(outcome.ids, lengths)
    if refused:
        updates = np.delete(updates, list(refused), axis=0)
        lengths = np.delete(lengths, list(refused))
    sound = SoundUpdates(rows=clip_rows(updates, lengths, norm_limit), norm_limit=norm_limit)
    return ScreenedTraining(outcome, refused, sound)
