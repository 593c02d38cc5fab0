from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.selectors._parts import facility
from sortition.selectors._parts.distances import distances_between, enlarge_table, pairwise_distances
from sortition.selectors._parts.facility import greedy_cover, represented_mass, stochastic_cover


def plain_greedy(distance, k, price, mass):
    """Every candidate looked at in every step."""
    served, chosen = (distance * mass).max(axis=0), []
    for _ in range(min(k, len(distance))):
        cost = [
            np.inf if c in chosen else float((np.minimum(distance[c] * mass, served) - served).sum() + price[c])
            for c in range(len(distance))
        ]
        least = min(cost)
        best = next(c for c, value in enumerate(cost) if value <= least + 1e-9)
        chosen.append(best)
        served = np.minimum(served, distance[best] * mass)
    return chosen


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_lazy_is_plain_greedy(seed, n, k, whole):
    rng = np.random.default_rng(seed)
    # whole distances tie often
    distance = rng.integers(0, 5, (n, n)).astype(float) if whole else pairwise_distances(rng.normal(size=(n, 3)))
    price = rng.integers(-3, 4, n).astype(float)
    mass = rng.integers(1, 4, n).astype(float)
    assert greedy_cover(distance, k, price=price, mass=mass).tolist() == plain_greedy(distance, k, price, mass)


def test_lazy_evaluation_in_batches_is_plain_greedy(monkeypatch):
    rng = np.random.default_rng(0)
    distance, price = pairwise_distances(rng.normal(size=(150, 4))), rng.normal(size=150)
    straight = greedy_cover(distance, 20, price=price).tolist()
    monkeypatch.setattr(facility, "BATCH", 3)
    assert greedy_cover(distance, 20, price=price).tolist() == straight == plain_greedy(distance, 20, price, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_within_one_minus_one_over_e_of_the_best(seed):
    distance = pairwise_distances(np.random.default_rng(seed).normal(size=(8, 2)))
    nothing = distance.max(axis=0).sum()

    def saved(S):
        return nothing - distance[list(S)].min(axis=0).sum()

    for k in (1, 2, 3):
        best = max(saved(S) for S in combinations(range(8), k))
        ours = saved(greedy_cover(distance, k))
        assert (1 - 1 / np.e) * best <= ours + 1e-12
        if k == 1:
            assert ours == pytest.approx(best)  # the medoid


def test_more_places_than_candidates_takes_all_once():
    distance = pairwise_distances(np.random.default_rng(0).normal(size=(5, 2)))
    assert sorted(greedy_cover(distance, 9).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(stochastic_cover(distance, 9, 2, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3, 4]
    assert greedy_cover(np.empty((0, 3)), 2).size == 0


def test_stochastic_with_all_candidates_is_greedy_and_with_few_is_not_far():
    distance = pairwise_distances(np.random.default_rng(1).normal(size=(60, 3)))
    assert stochastic_cover(distance, 6, 60, np.random.default_rng(0)).tolist() == greedy_cover(distance, 6).tolist()

    def cover(S):
        return distance[S].min(axis=0).sum()

    few = [cover(stochastic_cover(distance, 6, 15, np.random.default_rng(s))) for s in range(20)]
    lots = [cover(np.random.default_rng(s).choice(60, 6, replace=False)) for s in range(20)]
    assert cover(greedy_cover(distance, 6)) < np.mean(few) < 0.5 * (cover(greedy_cover(distance, 6)) + np.mean(lots))


def test_everybody_is_represented_once():
    distance = np.array([[0.0, 1.0, 5.0, 2.0], [5.0, 4.0, 0.0, 2.0]])  # client 3 is as near to both: the first has it
    assert represented_mass(distance).tolist() == [3.0, 1.0]
    assert represented_mass(distance, np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [7.0, 3.0]


def test_distances():
    rows = np.random.default_rng(0).normal(size=(6, 9)) + 1e4  # far from zero, close together
    true = np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
    assert pairwise_distances(rows) == pytest.approx(true, abs=1e-7)
    assert distances_between(rows[:2], rows) == pytest.approx(true[:2], abs=1e-5)
    assert np.array_equal(pairwise_distances(rows), pairwise_distances(rows).T)
    assert not np.diagonal(pairwise_distances(rows)).any()


def test_a_table_grows_and_keeps_what_it_held():
    table = enlarge_table(enlarge_table(None, 2, np.nan), 2, np.nan)
    table[:] = 1.0
    larger = enlarge_table(table, 3, np.nan)
    assert larger[:2, :2].tolist() == [[1, 1], [1, 1]]
    assert np.isnan(larger[2]).all()


def test_sums_that_overflow_end_all_the_same():
    far = np.full((6, 6), 1e308)
    np.fill_diagonal(far, 0.0)
    with np.errstate(all="ignore"):
        assert np.unique(greedy_cover(far, 4)).size == 4
        assert np.unique(greedy_cover(np.full((6, 6), np.nan), 4)).size == 4


def test_many_that_are_all_alike_tie():
    assert greedy_cover(np.zeros((1000, 1000)), 3).tolist() == [0, 1, 2]
    assert greedy_cover(np.ones((1000, 50)), 3, price=np.zeros(1000)).tolist() == [0, 1, 2]
