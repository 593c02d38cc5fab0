"""One round of the simulator, from its choice to its record: who was sent to work, what came back, and what it cost.

A number is 4 bytes. A client that already holds this round's model is not sent it twice: power-of-choice's d candidates
receive it with the question, and those selected train on it. A signal that is a part of the update (an ``exact`` one
of training) is free in a report, since the update is uploaded anyway. Wasted work counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sortition.aggregation.clipping import clip_rows
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.cost import BYTES_PER_NUMBER
from sortition.core.guards.answer_screening import row_norms
from sortition.core.intake import UpdateVerdict
from sortition.core.questions import Measure, Reading
from sortition.core.signals import Signal
from sortition.learning.vector import Vector
from sortition.simulation.devices import RoundEnd
from sortition.simulation.faults import FATES
from sortition.simulation.round_cache import PendingTrainings
from sortition.simulation.world import CohortReturn, World

TRAFFIC_PURPOSES = (
    "model_down",
    "model_up",
    "questions_down",
    "questions_up",
    "rehearsals_down",
    "rehearsals_up",
    "wasted_up",
    "metadata",
)


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
        """Return the clients that began to train."""
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


NOBODY_AT_WORK = CohortAtWork(
    cohort=Cohort(NOBODY, np.empty(0)),
    members=SentCohort(NOBODY, NOBODY),
    end=RoundEnd(answered=np.empty(0, bool), late=np.empty(0, bool), seconds=0.0),
    answering=NOBODY,
    seconds=np.empty(0),
)


@dataclass(frozen=True, eq=False)
class SoundUpdates:
    """The updates that a step is made of.

    Attributes:
        rows: (k, P) one update per client; empty for a cohort that was folded.
        losses: (k,) mean training losses of these clients.
        total: (P,) the weighted sum of the updates of a folded cohort; None where the rows are there.
        norm_limit: the largest length that the guards allow an update, and their combination.
    """

    rows: Vector
    losses: npt.NDArray[np.float32]
    total: Vector | None = None
    norm_limit: float = math.inf


NO_UPDATES = SoundUpdates(rows=np.empty((0, 0), np.float32), losses=np.empty(0, np.float32))


@dataclass(frozen=True, eq=False)
class ScreenedTraining:
    """What a training gave, after the guards have judged its updates.

    Attributes:
        outcome: what came back, one row per client.
        refused: the row of each update that cannot be used, and why: it is not finite, or too long.
        updates: the updates that can be used.
    """

    outcome: CohortReturn
    refused: Mapping[int, str]
    updates: SoundUpdates

    @cached_property
    def is_sound(self) -> Array:
        """Return a mask (k,) of the rows whose updates can be used."""
        return np.isin(np.arange(self.outcome.ids.size), list(self.refused), invert=True)

    @cached_property
    def sound_ids(self) -> Ids:
        """Return the clients whose updates can be used."""
        return self.outcome.ids[self.is_sound]

    @property
    def reasons(self) -> dict[int, str]:
        """Return why updates are refused, by client."""
        return {int(self.outcome.ids[row]): reason for row, reason in sorted(self.refused.items())}


@dataclass
class Ledger:
    """What one round cost.

    Attributes:
        n_parameters: how many numbers the model has.
        n_clients: how many clients there are.
        bytes: traffic by purpose and direction (TRAFFIC_PURPOSES).
        passes: examples that clients computed on, by purpose; wasted ones are also counted by their purpose.
        steps: SGD steps.
        server_passes: examples of its own that the server computed on.
        uploads: updates that were sent, late ones included.
    """

    n_parameters: int
    n_clients: int
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRAFFIC_PURPOSES, 0))
    passes: dict[str, int] = field(default_factory=lambda: {"training": 0, "forward": 0, "wasted": 0})
    steps: int = 0
    server_passes: int = 0
    uploads: int = 0

    def __post_init__(self) -> None:
        self._has_model = np.zeros(self.n_clients, bool)
        self._has_trained = np.zeros(self.n_clients, bool)

    @property
    def model_bytes(self) -> int:
        """Return the bytes of the model, or of an update."""
        return BYTES_PER_NUMBER * self.n_parameters

    def _send_model(self, ids: Ids, lane: str) -> None:
        """Charge the round's model, sent to clients that do not have it yet."""
        n_receivers = int(ids.size - self._has_model[ids].sum())
        self._has_model[ids] = True
        self.bytes[lane] += self.model_bytes * n_receivers

    @property
    def trainings(self) -> int:
        """Return how many clients trained with this round's model, rehearsals aside."""
        return int(self._has_trained.sum())

    def charge_computing(self, ids: Ids, examples: Ids, steps: Ids) -> None:
        """Charge this round's local training; a client that is asked for its result and then selected trains once."""
        trains_now = ~self._has_trained[ids]
        self._has_trained[ids] = True
        self.charge_rehearsal(examples[trains_now], steps[trains_now])

    def charge_rehearsal(self, examples: Ids, steps: Ids) -> None:
        """Charge local training that nothing else can use."""
        self.passes["training"] += int(examples.sum())
        self.steps += int(steps.sum())

    def charge_question(self, question: Measure, answer: Reading) -> None:
        """Charge a question and its answer."""
        signal = question.signal
        rehearsal = question.after
        n_asked = question.ids.size
        if rehearsal is not None:
            self._send_model(rehearsal.ids, "rehearsals_down")
            self.bytes["rehearsals_up"] += self.model_bytes * rehearsal.ids.size
            self.bytes["rehearsals_down"] += self.model_bytes * n_asked  # the trial model, new to everybody
        elif signal.of not in ("pairs", "device"):
            self._send_model(question.ids, "questions_down")
        self.bytes["questions_down"] += BYTES_PER_NUMBER * signal.floats_down * n_asked
        self.bytes["questions_up"] += BYTES_PER_NUMBER * int(answer.values.size)

    def charge_training(self, selected: Ids, n_answered: int, n_wasted: int) -> None:
        """Charge the model to the selected, and updates from those who answered; late or lost ones are wasted."""
        self._send_model(selected, "model_down")
        self.uploads += n_answered + n_wasted
        self.bytes["model_up"] += self.model_bytes * n_answered
        self.bytes["wasted_up"] += self.model_bytes * n_wasted

    def charge_reports(self, signals: tuple[Signal, ...], reports: Mapping[str, Reading]) -> None:
        """Charge what the cohort reports beside its updates."""
        for signal in signals:
            is_part_of_update = signal.of == "training" and signal.exact
            if signal.of == "server" or is_part_of_update or signal.name not in reports:
                continue
            self.bytes["metadata"] += BYTES_PER_NUMBER * int(reports[signal.name].values.size)

    def charge_facts(self, numbers: int) -> None:
        """Charge facts that clients send once."""
        self.bytes["metadata"] += BYTES_PER_NUMBER * numbers

    def added_to(self, totals: Mapping[str, int]) -> dict[str, int]:
        """Return the totals of a run with this round's costs."""
        passes = self.passes["training"] + self.passes["forward"]
        costs = {**self.bytes, "passes": passes, "steps": self.steps}
        return {name: totals[name] + cost for name, cost in costs.items()}


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

    What a later stage fills is empty before it: :meth:`Simulation.dispatch` sets ``training`` and ``at_work``,
    :meth:`Simulation.collect` sets ``updates``.

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
        opened_at: the wall-clock second at which the first half of the round was over.
        nobody_eligible: whether the policy leaves out everybody who can be reached.
        sent_cohorts: the cohorts that were sent to work.
        at_work: the cohort at work, where rounds do not overlap.
        updates: the updates that the step is made of.
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
    training: PendingTrainings = field(default_factory=PendingTrainings)
    opened_at: float = 0.0
    nobody_eligible: bool = False
    sent_cohorts: list[SentCohort] = field(default_factory=list)
    at_work: CohortAtWork = NOBODY_AT_WORK
    updates: SoundUpdates = NO_UPDATES
    repeated: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, t: int) -> CurrentRound:
        """Begin a round in which nothing has happened yet."""
        return cls(world, t, Ledger(world.initial.size, world.n_clients))

    @property
    def everybody_sent(self) -> SentCohort:
        """Return everybody who was sent to work in this round."""
        return SentCohort(
            ids=np.concatenate([NOBODY, *(cohort.ids for cohort in self.sent_cohorts)]),
            fates=np.concatenate([NOBODY, *(cohort.fates for cohort in self.sent_cohorts)]),
        )


def stack_received_updates(updates: Vector | list[Vector], params: Vector) -> Vector:
    """Return updates as they arrive, as (k, P); those of another shape are rows of NaN."""
    if not isinstance(updates, list):
        return updates
    return np.stack([row if row.shape == params.shape else np.full_like(params, np.nan) for row in updates])


def screen_updates(
    outcome: CohortReturn, updates: Vector, judge: Callable[[Ids, Floats], UpdateVerdict]
) -> ScreenedTraining:
    """Let the guards judge updates (k, P); leave out those that they refuse, and shorten those that are too long."""
    lengths = row_norms(updates)
    losses = outcome.losses
    refused, norm_limit = judge(outcome.ids, lengths)
    if refused:
        updates = np.delete(updates, list(refused), axis=0)
        lengths = np.delete(lengths, list(refused))
        losses = np.delete(losses, list(refused))
    sound = SoundUpdates(rows=clip_rows(updates, lengths, norm_limit), losses=losses, norm_limit=norm_limit)
    return ScreenedTraining(outcome, refused, sound)
