"""Rounds that tests play: with a registrar alone, in the simulator, and as one run of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortition.core import Cohort, Guards, Population, Reading, Registrar, Selector
from sortition.core.arrays import Ids
from sortition.core.round_record import RoundRecord
from sortition.core.turn import Turn

if TYPE_CHECKING:
    from sortition.simulation import Setup
    from sortition.simulation.simulation import Simulation
    from sortition.studies.config import RunConfig

Answer = Callable[[Turn], Reading]  # to the open question of a turn
Report = Callable[[Turn], Mapping[str, npt.ArrayLike]]  # what the cohort of a turn reports


def play_rounds(
    registrar: Registrar,
    rounds: int,
    *,
    budget: int,
    available: Callable[[int], Ids] | None = None,
    answer: Answer | None = None,
    report: Report | None = None,
) -> list[Cohort]:
    """Play rounds in which all of the cohort answer; return their cohorts.

    By default all clients are available, and there are neither questions nor reports.
    """
    cohorts = []
    for _ in range(rounds):
        ids = np.arange(registrar.population.n_clients)
        if available is not None:
            ids = available(registrar.index)
        turn = registrar.begin(ids, budget)
        while turn.question is not None:
            assert answer is not None, f"{turn.question} has no answer in this test"
            turn.answer(answer(turn))
        cohorts.append(turn.cohort)
        registrar.finish(turn, reports=None if report is None else report(turn))
    return cohorts


def play(
    selector: Selector[Any],
    rounds: int,
    *,
    budget: int,
    sizes: npt.ArrayLike | None = None,
    clients: int | None = None,
    available: Callable[[int], Ids] | None = None,
    answer: Answer | None = None,
    report: Report | None = None,
    seed: int = 0,
    horizon: int | None = None,
    guards: Guards | None = None,
) -> tuple[list[Cohort], Registrar]:
    """Play the first rounds of a selector among clients of these sizes; return the cohorts and the registrar."""
    population = Population(n_clients=clients) if sizes is None else Population(np.asarray(sizes))
    registrar = Registrar(selector, population, horizon=horizon, seed=seed, guards=guards)
    cohorts = play_rounds(registrar, rounds, budget=budget, available=available, answer=answer, report=report)
    return cohorts, registrar


def simulate(
    setup: Setup, rounds: int | None = None, simulation: Simulation | None = None
) -> tuple[Simulation, list[RoundRecord]]:
    """Simulate until ``rounds`` (default: the setup's) have been played; return the simulation and its records."""
    from sortition.simulation import run

    records: list[RoundRecord] = []
    return run(setup, rounds, lambda _, record: records.append(record), simulation), records


class PlayedRun(NamedTuple):
    """A run of a study: whether it is finished, its folder, and what it told of each round."""

    finished: bool
    path: Path
    ticks: list[tuple[Any, ...]]


def play_run(run: RunConfig, out: Path, stop_after: int | None = None) -> PlayedRun:
    """Play one run of a study in this process, or its first rounds, going on where its folder ends."""
    from sortition.studies.runs.run_task import OneRun
    from sortition.studies.runs.runner import place

    ticks: list[tuple[Any, ...]] = []
    path = place(out, run)
    finished = OneRun(run, path)(
        lambda *tick: ticks.append(tick), lambda: stop_after is not None and len(ticks) >= stop_after
    )
    return PlayedRun(finished, path, ticks)
