"""Checks of how a method chooses: allowed cohorts, repeatable runs, restarts, faults, clients that join."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Cohort, Population, Registrar
from sortition.core.arrays import Ids
from sortition.core.selector import AnySelector
from sortition.testing.outside import REMEDY, outside_sources, same_cohorts
from sortition.testing.play import (
    BUDGET,
    ROUNDS,
    AnswerFaults,
    Availability,
    cohort_of,
    everybody,
    instances,
    play,
    play_turn,
    share_of,
    turns,
)
from sortition.testing.violation import require
from sortition.testing.worlds import ScriptedWorld


def allowed_cohorts(cls: type[AnySelector]) -> None:
    """Cohorts are distinct, available and within the budget, whoever is there."""
    world = ScriptedWorld()
    odd = np.arange(1, 40, 2)
    even = np.arange(0, 40, 2)
    nobody = np.empty(0, np.int64)
    patterns: dict[str, Availability] = {
        "everybody": everybody(world),
        "one client": lambda t: np.array([37]),
        "fewer than the budget": lambda t: np.array([3, 17, 39]),
        "alternating halves": lambda t: odd if t % 2 else even,
        "nobody in every third round": lambda t: nobody if t % 3 == 0 else odd,
        "high ids": lambda t: np.arange(25, 40),
    }
    for selector in instances(cls):
        for name, available in patterns.items():
            cohorts = play(selector, world, ROUNDS, budget=BUDGET, available=available)  # the registrar checks them
            chose_somebody = any(cohort.ids.size for cohort in cohorts)
            if name == "everybody":
                require(cls, chose_somebody, f"never chose anybody with {name} available.")


def ties(cls: type[AnySelector]) -> None:
    """Clients that are all alike are no problem."""
    for selector in instances(cls):
        cohorts = play(selector, ScriptedWorld(same=True), ROUNDS, budget=BUDGET)
        always_chose = all(cohort.ids.size or cohort.expected_size for cohort in cohorts)
        require(cls, always_chose, "chose nobody among clients that are all alike.")


def repeatable(cls: type[AnySelector], memory_at_first: Mapping[str, bytes] | None = None) -> None:
    """The same seed gives the same cohorts; no other generator is drawn from, no memory kept outside the state."""
    for selector in instances(cls):
        sentences = outside_sources(selector, memory_at_first)
        require(cls, not sentences, " ".join(sentences))


def interleaved(cls: type[AnySelector]) -> None:
    """One instance serves two runs at once."""
    world = ScriptedWorld()
    seeds = (0, 1)
    for selector in instances(cls):
        available = {seed: share_of(world, 0.6, seed) for seed in seeds}
        registrars = {seed: Registrar(selector, world.population, horizon=ROUNDS, seed=seed) for seed in seeds}
        side_by_side: dict[int, list[Cohort]] = {seed: [] for seed in seeds}
        alone = {
            seed: play(selector, world, ROUNDS, budget=BUDGET, available=available[seed], seed=seed) for seed in seeds
        }
        for t in range(ROUNDS):
            for seed in seeds:
                turn = play_turn(registrars[seed], world, available[seed](t), BUDGET)
                side_by_side[seed].append(cohort_of(turn))
        chose_the_same = all(same_cohorts(alone[seed], side_by_side[seed]) for seed in seeds)
        require(cls, chose_the_same, f"chose otherwise beside another run. {REMEDY}")


def resumable(cls: type[AnySelector]) -> None:
    """Saved and restored after every round, it chooses as if never stopped; an abandoned turn leaves no trace."""
    world = ScriptedWorld()
    available = share_of(world, 0.6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrar.npz"
        for selector in instances(cls):
            without_stop = play(selector, world, ROUNDS, budget=BUDGET, available=available)
            with_stops: list[Cohort] = []
            registrar = Registrar(selector, world.population, horizon=ROUNDS)
            for t in range(ROUNDS):
                registrar.begin(available(t), BUDGET)  # abandoned
                registrar.save(path)
                registrar = Registrar.load(path, selector, world.population)
                with_stops.append(cohort_of(play_turn(registrar, world, available(t), BUDGET)))
            chose_the_same = same_cohorts(without_stop, with_stops)
            require(cls, chose_the_same, f"chooses differently after a restart. {REMEDY}")


def unreliable(cls: type[AnySelector]) -> None:
    """Lost, spoiled and missing answers do not stop it."""
    world = ScriptedWorld()
    for selector in instances(cls):
        for faults in (
            AnswerFaults(lost=0.2),
            AnswerFaults(lost=1.0),
            AnswerFaults(spoiled=0.3),
            AnswerFaults(spoiled=1.0),
            AnswerFaults(silent=0.5),
        ):
            registrar = Registrar(selector, world.population, horizon=ROUNDS)
            for turn in turns(
                registrar, world, rounds=ROUNDS, budget=BUDGET, available=share_of(world, 0.6), faults=faults
            ):
                for name, array in turn.state.arrays().items():
                    require(cls, array.dtype.kind != "O", f"keeps objects in state.{name}.")


def growing(cls: type[AnySelector]) -> None:
    """Clients join while it runs, and ids do not shift."""
    small = ScriptedWorld(20)
    large = ScriptedWorld(40)
    for selector in instances(cls):
        registrar = Registrar(selector, small.population, horizon=2 * ROUNDS)
        list(turns(registrar, small, rounds=ROUNDS, budget=BUDGET, available=everybody(small)))
        registrar.join(_extended(small.population, large.population))
        list(turns(registrar, large, rounds=ROUNDS, budget=BUDGET, available=everybody(large)))


def _extended(small: Population, large: Population) -> Population:
    """Return the clients of a small population, and those of a large one with higher ids."""
    facts: dict[str, Any] = {}
    for name in small.facts:
        facts[name] = np.concatenate([getattr(small, name), getattr(large, name)[small.n_clients :]])
    return Population(**facts)


def known_facts(cls: type[AnySelector]) -> None:
    """Facts of clients that are not known are never read."""
    world = ScriptedWorld()
    known_ids = np.arange(30)
    share_available = share_of(world, 0.6)
    with_zeros = _known_only(world.population, known_ids, filler=0.0)
    with_nan = _known_only(world.population, known_ids, filler=np.nan)
    for selector in instances(cls):

        def cohorts(population: Population, selector: AnySelector = selector) -> list[Cohort]:
            registrar = Registrar(selector, population, horizon=ROUNDS)
            played = turns(
                registrar,
                world,
                rounds=ROUNDS,
                budget=BUDGET,
                available=lambda t: np.intersect1d(share_available(t), known_ids),
            )
            return [cohort_of(turn) for turn in played]

        first = cohorts(with_zeros)
        second = cohorts(with_zeros)
        third = cohorts(with_nan)
        repeats = same_cohorts(first, second)
        require(cls, repeats, f"chose other clients under the same seed, so this cannot be told. {REMEDY}")
        require(cls, same_cohorts(second, third), "reads facts of clients beyond population.known_ids.")


def _known_only(population: Population, known_ids: Ids, filler: float) -> Population:
    """Return the population with only its first clients known, and a filler as the facts of the others."""
    facts: dict[str, Any] = {}
    for name in population.facts:
        rows = np.array(getattr(population, name))
        if name == "groups":  # whole numbers, which have no NaN
            rows[known_ids.size :] = -1 if np.isnan(filler) else filler
        else:
            rows = rows.astype(np.float64)
            rows[known_ids.size :] = filler
        facts[name] = rows
    return Population(**facts, known_ids=known_ids)
