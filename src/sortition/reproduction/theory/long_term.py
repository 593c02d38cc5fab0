"""LongFed's theory on a quadratic federation: queues that stay stable (Theorem 2), and the gap over T (eq. 32)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core import Registrar, Selector
from sortition.core.arrays import Array
from sortition.testing import QuadraticWorld
from sortition.testing.play import everybody, turns


@dataclass(frozen=True)
class LongRun:
    """What a run of T rounds ended with.

    Attributes:
        gap: F(w_T) − F*.
        queue: the longest queue over T; 0 for a method without queues.
    """

    gap: float
    queue: float


def play_long_run(
    selector: Selector[Any], rounds: int, *, budget: int, clients: int = 20, kinds: int = 4, seed: int = 0
) -> LongRun:
    """Play T rounds; the learning rate falls with 1/√T, as the bound needs it."""
    world = QuadraticWorld(clients, kinds=kinds, spread=0.5, noise=0.5, seed=seed)
    world.rate = 1 / (3 * np.sqrt(rounds))  # of this world alone
    registrar = Registrar(selector, world.population, horizon=rounds, seed=seed)
    for _ in turns(registrar, world, rounds=rounds, budget=budget, available=everybody(world)):
        pass
    queues = [getattr(registrar.state, name, np.zeros(1)) for name in ("z", "q")]
    longest_queue = max(float(np.max(queue)) for queue in queues)
    return LongRun(gap=_gap(world), queue=longest_queue / rounds)


def _gap(world: QuadraticWorld) -> float:
    """Return F(w) − F*, F the mean of the clients' losses weighted by their data: ½‖w − Σ p_k c_k‖²."""
    share = world.population.sizes / world.population.sizes.sum()
    return float(0.5 * np.sum((world.model - share @ world.centres) ** 2))


def gap_exponent(horizons: Array, gaps: Array) -> float:
    """Return the exponent a of gap ~ T^a, by least squares on logarithms."""
    return float(np.polyfit(np.log(horizons), np.log(gaps), 1)[0])
