"""Play rounds of a selector in a small world, through the registrar, with whatever faults a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sortition.core import Cohort, Measure, Population, Reading, Registrar, Selector, Signal, stream
from sortition.core.arrays import Ids
from sortition.core.turn import Turn


class Backend(Protocol):
    """What answers questions and trains cohorts."""

    population: Population
    n_clients: int

    def measure(self, question: Measure, t: int) -> Reading:
        """Answer a question."""
        ...

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """Train a cohort, and give its reports."""
        ...


Availability = Callable[[int], Ids]
ROUNDS, BUDGET = 8, 4  # of a check


def everybody(world: Backend) -> Availability:
    """All clients in every round."""
    return lambda t: np.arange(world.n_clients)


def share_of(world: Backend, share: float, seed: int = 0) -> Availability:
    """Each client with this probability, by (seed, round) alone."""
    return lambda t: np.flatnonzero(stream(seed, "tiny availability", t).random(world.n_clients) < share)


def instances(cls: type[Selector[Any]]) -> Iterator[Selector[Any]]:
    """A method with each of its examples' parameters."""
    for parameters in cls.examples():
        yield cls.load(**parameters)


@dataclass(frozen=True)
class AnswerFaults:
    """What goes wrong: shares of answers lost, of answers spoiled with NaN, and of cohort members that fall silent."""

    lost: float = 0.0
    spoiled: float = 0.0
    silent: float = 0.0

    def hit(self, reading: Reading, t: int, what: str) -> Reading:
        """A reading as it arrives."""
        rng = stream(7, f"faults {what}", t)
        draws = rng.random((2, len(reading)))
        values = reading.values.copy()
        values[draws[0] < self.spoiled] = np.nan
        keep = draws[1] >= self.lost
        return Reading(reading.ids[keep], values[keep])


NONE = AnswerFaults()


def play_turn(registrar: Registrar, world: Backend, ids: Ids, budget: int, faults: AnswerFaults = NONE) -> Turn:
    """One round: begin, answer, train, finish."""
    turn = registrar.begin(ids, budget)
    asked = 0
    while turn.question is not None:
        turn.answer(faults.hit(world.measure(turn.question, turn.index), turn.index, f"question {asked}"))
        asked += 1
    cohort = turn.cohort
    if cohort is None:
        raise RuntimeError("a turn without question has a cohort")
    reports = world.train(cohort, registrar.needs.reports, turn.index)
    done = cohort.ids[stream(7, "silence", turn.index).random(cohort.ids.size) >= faults.silent]
    registrar.finish(
        turn, done, {name: faults.hit(r.restrict(done), turn.index, f"report {name}") for name, r in reports.items()}
    )
    return turn


def turns(
    registrar: Registrar, world: Backend, rounds: int, budget: int, available: Availability, faults: AnswerFaults = NONE
) -> Iterator[Turn]:
    """Some more rounds of a registrar."""
    for _ in range(rounds):
        yield play_turn(registrar, world, available(registrar.index), budget, faults)


def play(
    selector: Selector[Any],
    world: Backend,
    rounds: int = 8,
    *,
    budget: int = 4,
    available: Availability | None = None,
    seed: int = 0,
    faults: AnswerFaults = NONE,
) -> list[Cohort]:
    """The cohorts of a run from its first round."""
    registrar = Registrar(selector, world.population, horizon=rounds, seed=seed)
    who = available or everybody(world)
    return [turn.cohort or Cohort.uniform([]) for turn in turns(registrar, world, rounds, budget, who, faults)]
