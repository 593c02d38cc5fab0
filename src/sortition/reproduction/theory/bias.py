"""System-induced bias: what a method's aggregate is in expectation, against the population's.

A round's aggregate is Σ_k a_k x_k with the cohort's weights a; the population's is Σ_k p_k x_k, p_k = n_k/n. So the
bias of a method under an availability, for whatever x, is in its expected weights: Σ_k (E[a_k] − p_k) x_k. FedSS's
Lemma 1 is this for simple random sampling. Three ways to E[a]: exactly, by simulation, or from the records of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sortition.core import InputError, Population, Registrar, Round, Selector
from sortition.core.arrays import Array, Floats, Ids
from sortition.reproduction.theory.enumeration import EveryOutcome
from sortition.results.run_folder import Run
from sortition.testing.play import Backend, turns

Sets = Iterable[tuple[float, Ids]]  # available ids, with their probability


def expected_weights(selector: Selector[Any], population: Population, sets: Sets, budget: int) -> Floats:
    """Return E[a] (N,) of a first round, over the available sets and over all of the method's own draws.

    This is for methods that ask nothing and draw by choices; others are simulated.
    """
    expected = np.zeros(population.n_clients)
    for probability, weights in _enumerate_outcomes(selector, population, sets, budget):
        expected += probability * weights
    return expected


def expected_error(
    selector: Selector[Any], population: Population, sets: Sets, budget: int, vectors: Array, target: Array
) -> float:
    """Return E‖Σ_k a_k x_k − target‖² of a first round, over the same outcomes; vectors are (N, d)."""
    expected = 0.0
    for probability, weights in _enumerate_outcomes(selector, population, sets, budget):
        expected += probability * np.sum((weights @ vectors - target) ** 2)
    return float(expected)


def _enumerate_outcomes(
    selector: Selector[Any], population: Population, sets: Sets, budget: int
) -> Iterator[tuple[float, Floats]]:
    """Yield probability and weights (N,) of every outcome of a first round."""
    view = population.disclose(selector.needs.reads, type(selector).__name__)
    for probability, available in sets:
        draws = EveryOutcome()
        for _ in draws.outcomes():
            rng = cast(np.random.Generator, draws)
            state = selector.init(population.n_clients, rng)
            first_round = Round(
                index=0, horizon=None, available=np.asarray(available), budget=budget, population=view, rng=rng
            )
            cohort = selector.select(state, first_round)
            if isinstance(cohort, Generator):
                raise InputError(
                    f"expected_weights(selector) must be of a method that asks nothing; got {type(selector).__name__}."
                )
            weights = np.zeros(population.n_clients)
            weights[cohort.ids] = cohort.weights
            yield probability * draws.chance, weights


@dataclass(frozen=True)
class Simulated:
    """The weights of a played federation, over the rounds in which somebody was chosen.

    Attributes:
        mean: (N,), over rounds.
        error: (N,), standard errors of the mean.
        rounds: (T, N), round by round.
    """

    mean: Floats
    error: Floats
    rounds: Floats


def simulate_weights(
    selector: Selector[Any],
    world: Backend,
    available: Callable[[int], Ids],
    *,
    rounds: int,
    budget: int,
    seed: int = 0,
) -> Simulated:
    """Estimate E[a] over the rounds of a played federation, for any method and any availability."""
    registrar = Registrar(selector, world.population, horizon=rounds, seed=seed)
    weights = np.zeros((rounds, world.n_clients))
    for turn in turns(registrar, world, rounds=rounds, budget=budget, available=available):
        if turn.cohort is not None and turn.cohort.ids.size:
            weights[turn.index, turn.cohort.ids] = turn.cohort.weights
    played = weights[weights.sum(axis=1) > 0]
    n_played = max(len(played), 1)
    return Simulated(mean=played.mean(axis=0), error=played.std(axis=0) / np.sqrt(n_played), rounds=played)


def bias(weights: Array, population_weights: Array, vectors: Array) -> Floats:
    """Return Σ_k (E[a_k] − p_k) x_k; vectors are (N,) or (N, d)."""
    return np.asarray((np.asarray(weights) - np.asarray(population_weights)) @ np.asarray(vectors))


def recorded_weights(run: Run) -> Floats:
    """Return the weights (T, N) of the rounds of a run in which somebody trained, each summing to one."""
    n = run.federation()["sizes"].size
    rows = []
    for record in run.records:
        ids = np.asarray(record["cohort"], np.int64)
        weights = np.asarray(record["weights"], np.float64)
        if record.get("answered") is not None:
            weights = np.where(np.isin(ids, record["answered"]), weights, 0.0)
        if weights.sum() > 0:
            row = np.zeros(n)
            row[ids] = weights / weights.sum()
            rows.append(row)
    if not rows:
        return np.zeros((0, n))
    return np.stack(rows)


# -- metrics of a run -----------------------------------------------------------------------------------------------


def _label_shares(run: Run) -> tuple[Floats, Floats]:
    """Return the label distribution of each round's aggregate (T, C), and the population's (C,)."""
    counts = run.federation()["label_counts"].astype(np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return recorded_weights(run) @ shares, counts.sum(axis=0) / counts.sum()


def label_bias(run: Run) -> float | None:
    """Return the total variation between the mean aggregate's label distribution and the population's, in per cent."""
    rounds, population = _label_shares(run)
    if not len(rounds):
        return None
    return float(50 * np.abs(rounds.mean(axis=0) - population).sum())


def chance_bias(run: Run) -> float | None:
    """Return the expected ``label_bias`` of an unbiased method that scatters as much, in as many rounds.

    Rounds are taken as independent: E|N(0, s²/T)| = s √(2/(πT)).
    """
    rounds, _ = _label_shares(run)
    if len(rounds) < 2:
        return None
    mean_deviation = np.sqrt(2 / np.pi / len(rounds))  # E|N(0, 1/T)|
    return float(50 * mean_deviation * rounds.std(axis=0, ddof=1).sum())


def round_error(run: Run) -> float | None:
    """Return the root mean square distance of single rounds' label distributions from the population's, in per cent."""
    rounds, population = _label_shares(run)
    if not len(rounds):
        return None
    squared_distances = ((rounds - population) ** 2).sum(axis=1)
    return float(100 * np.sqrt(squared_distances.mean()))


def client_bias(run: Run) -> float | None:
    """Return the total variation between the clients' mean weights and their shares of the data, in per cent."""
    weights = recorded_weights(run)
    if not len(weights):
        return None
    sizes = run.federation()["sizes"].astype(np.float64)
    return float(50 * np.abs(weights.mean(axis=0) - sizes / sizes.sum()).sum())
