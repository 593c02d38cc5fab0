"""Checks of how a method chooses: allowed cohorts, repeatable runs, restarts, faults, clients that join."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Cohort, Population, Registrar, Selector
from sortition.core.arrays import Ids
from sortition.testing.outside import REMEDY, outside_sources, same_cohorts
from sortition.testing.play import BUDGET, ROUNDS, AnswerFaults, everybody, instances, play, play_turn, share_of, turns
from sortition.testing.violation import require
from sortition.testing.worlds import ScriptedWorld


def allowed_cohorts(cls: type[Selector[Any]]) -> None:
    """Cohorts are distinct, available and within the budget, whoever is there."""
    world = ScriptedWorld()
    odd, even = np.arange(1, 40, 2), np.arange(0, 40, 2)
    patterns = {
        "everybody": everybody(world),
        "one client": lambda t: np.array([37]),
        "fewer than the budget": lambda t: np.array([3, 17, 39]),
        "alternating halves": lambda t: odd if t % 2 else even,
        "nobody in every third round": lambda t: np.empty(0, np.int64) if t % 3 == 0 else odd,
        "high ids": lambda t: np.arange(25, 40),
    }
    for selector in instances(cls):
        for name, available in patterns.items():
            cohorts = play(selector, world, ROUNDS, budget=BUDGET, available=available)
            chose = any(c.ids.size for c in cohorts) or name != "everybody"
            require(cls, chose, f"never chose anybody with {name} available.")


def ties(cls: type[Selector[Any]]) -> None:
    """Clients that are all alike are no problem."""
    for selector in instances(cls):
        cohorts = play(selector, ScriptedWorld(same=True), ROUNDS, budget=BUDGET)
        chose = all(c.ids.size or c.expected_size for c in cohorts)
        require(cls, chose, "chose nobody among clients that are all alike.")


def repeatable(cls: type[Selector[Any]]) -> None:
    """The same seed gives the same cohorts; no other generator is drawn from, no memory kept outside the state."""
    for selector in instances(cls):
        found = outside_sources(selector)
        require(cls, not found, " ".join(found))


def interleaved(cls: type[Selector[Any]]) -> None:
    """One instance serves two runs at once."""
    world = ScriptedWorld()
    for selector in instances(cls):
        who = [share_of(world, 0.6, s) for s in (0, 1)]
        alone = [play(selector, world, ROUNDS, budget=BUDGET, available=who[s], seed=s) for s in (0, 1)]
        runs = [Registrar(selector, world.population, horizon=ROUNDS, seed=s) for s in (0, 1)]
        both: list[list[Cohort]] = [[], []]
        for t in range(ROUNDS):
            for s in (0, 1):
                turn = play_turn(runs[s], world, who[s](t), BUDGET)
                both[s].append(turn.cohort or Cohort.uniform([]))
        require(
            cls,
            all(same_cohorts(a, b) for a, b in zip(alone, both, strict=True)),
            f"chose otherwise beside another run. {REMEDY}",
        )


def resumable(cls: type[Selector[Any]]) -> None:
    """Saved and restored after every round, it chooses as if never stopped; an abandoned turn leaves no trace."""
    world = ScriptedWorld()
    who = share_of(world, 0.6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrar.npz"
        for selector in instances(cls):
            straight = play(selector, world, ROUNDS, budget=BUDGET, available=who)
            registrar = Registrar(selector, world.population, horizon=ROUNDS)
            stopped: list[Cohort] = []
            for t in range(ROUNDS):
                registrar.begin(who(t), BUDGET)  # abandoned
                registrar.save(path)
                registrar = Registrar.load(path, selector, world.population)
                stopped.append(
                    play_turn(registrar, world, share_of(world, 0.6)(t), BUDGET).cohort or Cohort.uniform([])
                )
            require(
                cls,
                same_cohorts(straight, stopped),
                f"chooses differently after a restart. {REMEDY}",
            )


def unreliable(cls: type[Selector[Any]]) -> None:
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
            for turn in turns(registrar, world, ROUNDS, BUDGET, share_of(world, 0.6), faults):
                for name, array in turn.state.arrays().items():
                    require(cls, array.dtype.kind != "O", f"keeps objects in state.{name}.")


def growing(cls: type[Selector[Any]]) -> None:
    """Clients join while it runs, and ids do not shift."""
    small, large = ScriptedWorld(20), ScriptedWorld(40)
    for selector in instances(cls):
        registrar = Registrar(selector, small.population, horizon=2 * ROUNDS)
        list(turns(registrar, small, ROUNDS, BUDGET, everybody(small)))
        registrar.join(_extended(small.population, large.population))
        list(turns(registrar, large, ROUNDS, BUDGET, everybody(large)))


def _extended(small: Population, large: Population) -> Population:
    facts: dict[str, Any] = {
        name: np.concatenate([getattr(small, name), getattr(large, name)[small.n_clients :]]) for name in small.facts
    }
    return Population(**facts)


def known_facts(cls: type[Selector[Any]]) -> None:
    """Facts of clients that are not known are never read."""
    world, known = ScriptedWorld(), np.arange(30)
    who = share_of(world, 0.6)
    views = [_known_only(world.population, known, filler) for filler in (0.0, 0.0, np.nan)]
    for selector in instances(cls):
        chosen = []
        for population in views:
            registrar = Registrar(selector, population, horizon=ROUNDS)
            played = turns(registrar, world, ROUNDS, BUDGET, lambda t: np.intersect1d(who(t), known))
            chosen.append([turn.cohort or Cohort.uniform([]) for turn in played])
        repeats = same_cohorts(*chosen[:2])
        require(cls, repeats, f"chose other clients under the same seed, so this cannot be told. {REMEDY}")
        require(cls, same_cohorts(*chosen[1:]), "reads facts of clients beyond population.known.")


def _known_only(population: Population, known: Ids, filler: float) -> Population:
    facts: dict[str, Any] = {}
    for name in population.facts:
        rows = np.array(getattr(population, name))
        facts[name] = rows if name == "groups" else rows.astype(np.float64)
        facts[name][known.size :] = -1 if name == "groups" and np.isnan(filler) else filler
    return Population(**facts, known=known)
