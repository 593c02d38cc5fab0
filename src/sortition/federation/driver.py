"""The program of a federation, written once: choose, ask, dispatch, collect, screen, finish, step, record, save.

A :class:`Backend` does the work of each step for whole cohorts: in the simulator (``sortition.simulation``), or over a
network (:class:`~sortition.federation.messenger.Messenger`, on any transport). The driver opens a round, which ends
with a cohort at work, and closes it, which ends with the next model and a record. What happens in between, training, is
the clients' business: Flower's own loop runs there, and runs in lock-step train there together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.guards.screening import Answers
from sortition.core.guards.settings import Guards
from sortition.core.questions import Measure
from sortition.core.record import RoundRecord
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.selector import Selector
from sortition.core.signals import ModelSize
from sortition.core.turn import Turn
from sortition.federation.pace import Pace
from sortition.federation.policies import PolicyKeeper
from sortition.federation.record import in_order, round_record


@dataclass(frozen=True)
class Arrivals:
    """What came back from a cohort in time.

    Attributes:
        ids: members whose update arrived and is sound, in the cohort's order.
        faults: members whose update is unsound, and why.
    """

    ids: Ids
    faults: Mapping[int, str] = field(default_factory=dict)


class Backend(Protocol):
    """What the driver needs: clients that can be asked and trained, whole cohorts at a time."""

    def available(self) -> Ids:
        """Who can be chosen now, sorted; may wait for clients."""
        ...

    def population(self) -> Population | None:
        """What is known of the clients, if that has changed since it was last asked for."""
        ...

    def model_size(self) -> ModelSize:
        """How long the vectors are that belong to the model."""
        ...

    def ask(self, turn: Turn, question: Measure) -> Answers:
        """The rows of those who answered."""
        ...

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Send the cohort to work; return at once."""
        ...

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """Wait until the round is over; whose update can be used."""
        ...

    def reports(self, done: Ids) -> Mapping[str, Answers]:
        """What these members reported, by signal."""
        ...

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Make the next model of the updates of ``done``, and return notes; with nobody, the model stays."""
        ...

    def costs(self, turn: Turn, arrivals: Arrivals) -> Mapping[str, Any]:
        """What the record says beside what every backend knows: fates, names, costs, a clock, test figures."""
        ...


@dataclass(frozen=True)
class Selection:
    """Who chooses, and how far clients are trusted.

    Attributes:
        selector: the method.
        horizon: rounds that it plans for.
        seed: of its draws.
        guards: how far clients are trusted.
    """

    selector: Selector[Any]
    horizon: int | None = None
    seed: int = 0
    guards: Guards = field(default_factory=Guards)

    def registrar(self, population: Population, model: ModelSize) -> Registrar:
        """A registrar of these clients."""
        return Registrar(
            self.selector, population, horizon=self.horizon, seed=self.seed, guards=self.guards, model=model
        )


@dataclass
class OpenRound:
    """A round whose cohort is chosen.

    Attributes:
        turn: the registrar's.
        available: how many could be chosen.
        withdrawn: members of the cohort that may not be used after all, since another job used up their limit.
    """

    turn: Turn
    available: int
    withdrawn: Ids = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def cohort(self) -> Cohort:
        """Who trains."""
        chosen = self.turn.cohort or Cohort.uniform([])
        if not self.withdrawn.size:
            return chosen
        at_work = np.isin(chosen.ids, self.withdrawn, invert=True)
        weights, _ = chosen.weights_of(chosen.ids[at_work])
        groups = None if chosen.groups is None else chosen.groups[at_work]
        return replace(chosen, ids=chosen.ids[at_work], weights=weights, groups=groups)


class Driver:
    """Plays the rounds of one federation on a backend.

    Args:
        backend: asks and trains.
        selection: who chooses.
        pace: how many are chosen, and when a round is over.
        policy: how often and when devices may be used; the backend asks it who is eligible.
        started: called once with the registrar, before its first round: it restores one that goes on, and lets
            observers watch it.
        keep: called with each record, first of all: it writes journal and checkpoint.
        sinks: called with each record when it is kept; one that raises is reported to ``complain`` and ends nothing.
        complain: takes a sentence about a sink that raised.
    """

    def __init__(
        self,
        backend: Backend,
        selection: Selection,
        pace: Pace,
        *,
        policy: PolicyKeeper | None = None,
        started: Callable[[Registrar], object] = lambda registrar: None,
        keep: Callable[[RoundRecord], object] = lambda record: None,
        sinks: tuple[Callable[[RoundRecord], object], ...] = (),
        complain: Callable[[str], object] = print,
    ) -> None:
        self.backend = backend
        self.selection = selection
        self.pace = pace
        self.policy = PolicyKeeper(()) if policy is None else policy
        self.registrar: Registrar | None = None
        self.round: OpenRound | None = None
        self._started = started
        self._keep = keep
        self._sinks = sinks
        self._complain = complain

    @property
    def played(self) -> int:
        """Rounds so far."""
        return 0 if self.registrar is None else self.registrar.index

    def play_round(self) -> RoundRecord:
        """Play one round from its choice to its record."""
        self.open_round()
        self.dispatch()
        return self.close_round()

    # -- the first half of a round -------------------------------------------------------------------------------------

    def open_round(self) -> OpenRound:
        """Choose a cohort, asking clients what the method wants to know."""
        available = self.backend.available()
        registrar = self.up_to_date()
        turn = self.begin(registrar, available)
        while turn.question is not None:
            question = self.policy.permitted(turn.question)
            turn.answer({} if question is None else self.backend.ask(turn, question))
        chosen = turn.cohort or Cohort.uniform([])
        self.round = OpenRound(turn, available.size, self.policy.claim(chosen.ids))
        return self.round

    def begin(self, registrar: Registrar, available: Ids) -> Turn:
        """Begin the registrar's turn."""
        return registrar.begin(available, self.pace.places, self.policy.excluded)

    def up_to_date(self) -> Registrar:
        """The registrar of everybody who is known, with the lengths of the model's vectors."""
        population = self.backend.population()
        if self.registrar is None:
            if population is None:
                raise bad("Backend.population", "given before the first round", None)
            self.registrar = self.selection.registrar(population, self.backend.model_size())
            self._started(self.registrar)
            return self.registrar
        if population is not None:
            self.registrar.join(population)
        self.registrar.resize(self.backend.model_size())
        return self.registrar

    def dispatch(self) -> None:
        """Send the cohort of the open round to work."""
        opened = self._opened("dispatch")
        if self.registrar is not None:
            self.registrar.dispatch(opened.turn)
        self.backend.dispatch(opened.turn, opened.cohort)

    # -- the second half -----------------------------------------------------------------------------------------------

    def close_round(self) -> RoundRecord:
        """Take what came back, teach the method, make the next model, and keep the record."""
        opened = self._opened("close_round")
        cohort = opened.cohort
        turn = opened.turn
        arrivals = self.backend.collect(turn, cohort)
        turn.blame(arrivals.faults)
        usable = self.finish(turn, arrivals)
        notes = self._notes(opened, arrivals)
        if usable.size:
            weights, remarks = cohort.weights_of(arrivals.ids)
            notes |= remarks
        else:
            weights = np.empty(0)
        done = arrivals.ids if usable.size else arrivals.ids[:0]
        notes |= self.backend.step(cohort, done, weights)
        record = round_record(turn, opened.available, arrivals.ids, notes, opened.withdrawn)
        complete = in_order({**record, **self.backend.costs(turn, arrivals)})
        self.round = None
        self.policy.round = turn.index + 1
        self._keep(complete)
        for sink in self._sinks:
            self._tell(sink, complete)
        return complete

    def finish(self, turn: Turn, arrivals: Arrivals) -> Ids:
        """Close the registrar's turn; whose updates may be aggregated."""
        if self.registrar is None:
            raise bad("close_round", "called after open_round", "a call without")
        return self.registrar.finish(turn, arrivals.ids, self.backend.reports(arrivals.ids))

    @staticmethod
    def _notes(opened: OpenRound, arrivals: Arrivals) -> dict[str, Any]:
        """What a reader of the record may want to know: the method's notes, the guards', and what went wrong."""
        notes = dict(opened.cohort.notes)
        if arrivals.faults:
            notes["unsound_updates"] = list(arrivals.faults)
        if opened.turn.guarded:
            notes["guards"] = opened.turn.guarded
        if opened.cohort.ids.size and not arrivals.ids.size:
            notes["nothing_came_back"] = True
        return notes

    def _tell(self, sink: Callable[[RoundRecord], object], record: RoundRecord) -> None:
        try:
            sink(record)
        except Exception as error:  # a user's function: it never ends a round, which is kept already
            name = getattr(sink, "__name__", type(sink).__name__)
            self._complain(f"{name} raised {type(error).__name__} in round {record['round']}: {error}")

    def _opened(self, what: str) -> OpenRound:
        if self.round is None:
            raise bad(what, "called after open_round", "a call without")
        return self.round
