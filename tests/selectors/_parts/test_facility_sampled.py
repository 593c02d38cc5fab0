from __future__ import annotations

import numpy as np

from sortition.core.signals import fold
from sortition.selectors._parts.distances import distances_between, pairwise_distances
from sortition.selectors._parts.facility import greedy_cover
from sortition.selectors._parts.facility_sampled import sampled_cover, shorten_rows, store_rows


def crowd(n, seed, kinds=30, width=16):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(kinds, width))
    return (centres[rng.integers(kinds, size=n)] + 0.4 * rng.normal(size=(n, width))).astype(np.float32)


def coverage(rows, ids):
    return float(distances_between(rows[ids], rows).min(axis=0).sum())


def test_better_than_solving_a_subsample_and_near_to_the_exact_choice():
    excess = []
    for seed in range(8):
        rows, rng, everybody = crowd(1500, seed), np.random.default_rng(seed), np.arange(1500)
        exact = coverage(rows, greedy_cover(pairwise_distances(rows), 15))
        references, candidates = (np.sort(rng.choice(1500, 200, replace=False)) for _ in range(2))
        subsample = candidates[greedy_cover(distances_between(rows[candidates], rows[references]), 15)]
        ours = sampled_cover(rows, everybody, candidates, references, 15, np.ones(200))
        assert np.unique(ours).size == 15
        assert coverage(rows, ours) < coverage(rows, subsample)
        excess.append([coverage(rows, ours) / exact - 1, coverage(rows, subsample) / exact - 1])
    ours, subsample = np.mean(excess, axis=0)
    assert ours < 0.04
    assert ours < 0.65 * subsample


def test_only_the_pool_is_chosen_and_prices_count():
    rows, pool = crowd(400, 0), np.arange(0, 400, 3)
    price = np.zeros(400)
    free = sampled_cover(rows, pool, pool, np.arange(400), 8, np.ones(400), price)
    assert np.isin(free, pool).all()
    price[free] = 1e6
    assert not np.isin(sampled_cover(rows, pool, pool, np.arange(400), 8, np.ones(400), price), free).any()


def test_sketches_keep_distances():
    # relative variance of a squared distance ≤ 2/256, so about √(2/256)/2 = 4.4 % of a distance
    vectors = np.random.default_rng(0).normal(size=(20, 5000))
    true, sketched = pairwise_distances(vectors), pairwise_distances(shorten_rows(vectors, 256))
    off = ~np.eye(20, dtype=bool)
    error = (sketched[off] - true[off]) / true[off]
    assert np.sqrt(np.mean(error**2)) < 0.06
    assert abs(error.mean()) < 0.03


def test_short_rows_are_kept_as_they_are_and_the_first_fix_the_width():
    rows = store_rows(np.empty((4, 0)), np.array([2]), np.array([[1.0, 2.0]]), 64)
    assert rows.tolist() == [[0, 0], [0, 0], [1, 2], [0, 0]]
    assert store_rows(rows, np.array([], np.int64), np.empty((0, 2)), 64) is rows


def test_many_rows_are_folded_as_each_alone():
    rows = np.random.default_rng(0).normal(size=(3, 500))
    np.testing.assert_array_equal(shorten_rows(rows, 64), [fold(row, 64) for row in rows])
