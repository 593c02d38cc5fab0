"""What could be gained by choosing clients in a federation, and whether its clients are alike.

The oracle trains a random pool of clients, and takes those whose updates lower the loss on the test set most: no method
can know that, so it shows how much choosing may bring at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import Cohort
from sortition.core.mixtures import between_clients, spread_of
from sortition.core.streams import stream
from sortition.learning.vector import Vector
from sortition.selectors._parts.shares import as_shares, data_shares, label_shares
from sortition.selectors.microcosm.portrait import unexplained_ratio
from sortition.simulation import Setup, World

POOL = 3  # times the cohort: so many clients train, and the oracle chooses among them
WARM = 20  # rounds of uniform sampling after which clients' updates are compared
MOST_COMPARED = 100  # clients whose updates are compared


def oracle_run(setup: Setup, rounds: int, on_model: Callable[[int, Vector], object]) -> None:
    """Play ``rounds`` in which the cohort is chosen greedily by the test loss; weights are by size, as uniform's."""
    world = setup.world
    params = world.initial
    for t in range(rounds):
        params = params + oracle_step(world, params, setup.cohort, t, setup.seed)
        on_model(t, params)


def oracle_step(world: World, params: Vector, cohort: int, t: int, seed: int) -> Vector:
    """Return the update of the cohort that lowers the test loss most, built greedily from a pool."""
    rng = stream(seed, "oracle", t)
    pool = np.sort(rng.permutation(world.n_clients)[: POOL * cohort])
    deltas = world.train(params, pool, (), t).deltas
    sizes = world.training_parts.sizes[pool].astype(np.float64)
    chosen: list[int] = []
    for _ in range(min(cohort, pool.size)):
        others = [candidate for candidate in range(pool.size) if candidate not in chosen]
        losses = [_loss_with(world, params, deltas, sizes, [*chosen, candidate]) for candidate in others]
        chosen.append(others[int(np.argmin(losses))])
    return _mean_update(deltas, sizes, chosen)


def _mean_update(deltas: Vector, sizes: Floats, members: list[int]) -> Vector:
    return weighted_sum(sizes[members] / sizes[members].sum(), deltas[members])


def _loss_with(world: World, params: Vector, deltas: Vector, sizes: Floats, members: list[int]) -> float:
    return world.evaluator.score(params + _mean_update(deltas, sizes, members))["loss"]


@dataclass(frozen=True)
class Likeness:
    """How far clients' updates differ, after some rounds of uniform sampling.

    Attributes:
        kappa: κ, the share of the labels' variance that lies between clients.
        common: the share of the updates' mean square that is their mean: 1 where all updates are equal.
        lasting: the share of the variance between updates that comes again with other batches: what is the client's
            own. The rest is the noise of batches.
        explained: the share of the lasting variance that label shares explain (adjusted R² over ``lasting``).
    """

    kappa: float
    common: float
    lasting: float
    explained: float


def likeness(setup: Setup) -> Likeness:
    """Compare updates of the clients of a federation, each trained twice from one model, with other batches."""
    world = setup.world
    params = world.initial
    rng = stream(setup.seed, "likeness")
    for t in range(WARM):
        ids = np.sort(rng.permutation(world.n_clients)[: setup.cohort])
        weights = Cohort.by_size(ids, world.training_parts.sizes).weights
        params = params + weighted_sum(weights, world.train(params, ids, (), t).deltas)
    ids = np.sort(rng.permutation(world.n_clients)[:MOST_COMPARED])
    first = np.asarray(world.train(params, ids, (), WARM).deltas, np.float64)
    second = np.asarray(world.train(params, ids, (), WARM + 1).deltas, np.float64)
    p = as_shares(data_shares(world.population())[ids])
    centred_first = first - p @ first
    centred_second = second - p @ second
    variance = float(p @ (centred_first**2 + centred_second**2).sum(axis=1)) / 2
    covariance = float(p @ (centred_first * centred_second).sum(axis=1))
    square = float(p @ (first**2 + second**2).sum(axis=1)) / 2
    lasting = covariance / variance
    return Likeness(
        kappa=_kappa(world, ids, p),
        common=max(0.0, float((p @ first) @ (p @ second))) / square,
        lasting=lasting,
        explained=_explained(world, ids, p, (first + second) / 2, lasting),
    )


def _kappa(world: World, ids: Ids, p: Floats) -> float:
    mean, spread = spread_of(label_shares(world.label_counts[ids]), p)
    return between_clients(mean, spread)


def _explained(world: World, ids: Ids, p: Floats, updates: Floats, lasting: float) -> float:
    """Return the adjusted R² of mean updates on label shares, relative to the lasting part of their variance."""
    unexplained_part = unexplained_ratio(label_shares(world.label_counts[ids]), updates, p)
    if unexplained_part is None or lasting <= 0:
        return float("nan")
    r_squared = 1 / (1 + unexplained_part)
    lasting_of_mean = 2 * lasting / (1 + lasting)  # of the mean of two trainings
    return min(1.0, r_squared / lasting_of_mean)
