"""Play rounds of a selector in a small world, through the registrar, with whatever faults a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sortition.core import Cohort, Measure, Population, Reading, Registrar, Signal, stream
from sortition.core.arrays import Ids
from sortition.core.selector import AnySelector
from sortition.core.turn import Turn


class Backend(Protocol):
    """What answers questions and trains cohorts."""

    population: Population
    n_clients: int

    def measure(self, question: Measure, t: int) -> Reading:
        """Answer a question."""
        ...

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """Train a cohort, and return its reports by signal."""
        ...


Availability = Callable[[int], Ids]  # from a round to the clients that are available in it
ROUNDS = 8  # of a check
BUDGET = 4  # places of a round of a check


def everybody(world: Backend) -> Availability:
    """Return the availability of all clients in every round."""
    return lambda t: np.arange(world.n_clients)


def share_of(world: Backend, share: float, seed: int = 0) -> Availability:
    """Return the availability of each client with this probability, by (seed, round) alone."""
    return lambda t: np.flatnonzero(stream(seed, "tiny availability", t).random(world.n_clients) < share)


def instances(cls: type[AnySelector]) -> Iterator[AnySelector]:
    """Make the method with the parameters of each of its examples."""
    for parameters in cls.examples():
        yield cls.load(**parameters)


@dataclass(frozen=True)
class AnswerFaults:
    """What goes wrong with answers.

    Attributes:
        lost: share of the answers that do not arrive.
        spoiled: share of the answers that are NaN.
        silent: share of the cohort's members that do not complete the round.
    """

    lost: float = 0.0
    spoiled: float = 0.0
    silent: float = 0.0

    def distort(self, reading: Reading, t: int, key: str) -> Reading:
        """Return a reading as it arrives; ``key`` tells its draws from others."""
        rng = stream(7, f"faults {key}", t)
        draws = rng.random((2, len(reading)))
        values = reading.values.copy()
        values[draws[0] < self.spoiled] = np.nan
        arrives = draws[1] >= self.lost
        return Reading(reading.ids[arrives], values[arrives])


NO_FAULTS = AnswerFaults()


def play_turn(registrar: Registrar, world: Backend, ids: Ids, budget: int, faults: AnswerFaults = NO_FAULTS) -> Turn:
    """Play one round of a registrar: begin, answer, train, finish."""
    turn = registrar.begin(ids, budget)
    n_questions = 0
    while turn.question is not None:
        reading = world.measure(turn.question, turn.index)
        turn.answer(faults.distort(reading, turn.index, f"question {n_questions}"))
        n_questions += 1
    cohort = turn.cohort
    if cohort is None:
        raise RuntimeError("a turn without question has a cohort")
    reports = world.train(cohort, registrar.needs.reports, turn.index)
    completed = cohort.ids[stream(7, "silence", turn.index).random(cohort.ids.size) >= faults.silent]
    arrived_reports = {
        name: faults.distort(report.restrict(completed), turn.index, f"report {name}")
        for name, report in reports.items()
    }
    registrar.finish(turn, completed, arrived_reports)
    return turn


def turns(
    registrar: Registrar,
    world: Backend,
    rounds: int,
    budget: int,
    available: Availability,
    faults: AnswerFaults = NO_FAULTS,
) -> Iterator[Turn]:
    """Play some more rounds of a registrar."""
    for _ in range(rounds):
        yield play_turn(registrar, world, available(registrar.index), budget, faults=faults)


def cohort_of(turn: Turn) -> Cohort:
    """Return the cohort of a turn; an empty one where nobody was available."""
    return turn.cohort or Cohort.uniform([])


def play(
    selector: AnySelector,
    world: Backend,
    rounds: int = 8,
    *,
    budget: int = 4,
    available: Availability | None = None,
    seed: int = 0,
    faults: AnswerFaults = NO_FAULTS,
) -> list[Cohort]:
    """Play a run from its first round and return its cohorts."""
    registrar = Registrar(selector, world.population, horizon=rounds, seed=seed)
    if available is None:
        available = everybody(world)
    played = turns(registrar, world, rounds=rounds, budget=budget, available=available, faults=faults)
    return [cohort_of(turn) for turn in played]
