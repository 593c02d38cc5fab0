from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import fedss_literal as literal

from sortition.selectors.fedss.allocation import allocate_within_caps, apportion, draw_systematically, inclusion_chances


def test_neyman_of_two_strata():
    # H = (2, 1), N = (50, 50), S = 9: 9·100/150 = 6 and 3
    assert apportion(np.array([2 * 50, 1 * 50]), 9, np.array([50, 50])).tolist() == [6, 3]


def test_largest_remainders_with_a_floor_of_one():
    # 10·(0.47, 0.38, 0.15) = 4.7, 3.8, 1.5: floors 4, 3, 1, and one more for 0.8 and 0.7
    assert apportion(np.array([47, 38, 15]), 10, np.array([99, 99, 99])).tolist() == [5, 4, 1]
    # 0.1 of a place is raised to one; the other nine are shared 99 : 0 among the rest
    assert apportion(np.array([99, 1]), 10, np.array([99, 99])).tolist() == [9, 1]


def test_caps_hand_their_surplus_on_in_proportion():
    # 12 places over 6 : 3 : 3 would be 6, 3, 3; the first has 2 to give, so 10 go 5 : 5
    assert apportion(np.array([6, 3, 3]), 12, np.array([2, 9, 9])).tolist() == [2, 5, 5]
    assert apportion(np.array([0, 0, 1]), 6, np.array([2, 3, 1])).tolist() == [2, 3, 1]  # everybody is needed


instances = st.lists(st.tuples(st.integers(1, 60), st.floats(0, 5), st.integers(1, 12)), min_size=1, max_size=6)


@given(instances, st.integers(1, 30))
def test_agrees_with_the_literal_allocation(rows, extra):
    N, H, A = (list(column) for column in zip(*rows, strict=True))
    S = min(len(N) + extra - 1, sum(A))
    seats = apportion(np.array(N) * np.array(H), S, np.array(A))
    assert seats.sum() == S
    assert (seats >= 1).all()
    assert (seats <= A).all()
    target = literal.fractional_allocation(N, H, S, A)
    assert allocate_within_caps(np.array(N) * np.array(H), S, np.array(A)) == pytest.approx(target, abs=1e-5)
    assert np.abs(seats - target).max() < 1 + 1e-6


@given(instances, st.integers(1, 12))
def test_no_other_point_within_the_bounds_is_better(rows, extra):
    N, H, A = (np.array(column) for column in zip(*rows, strict=True))
    share = N * H
    S = min(len(N) + extra - 1, int(A.sum()))
    best = allocate_within_caps(share, S, A)
    value = np.sum(share**2 / best)
    for i, j in itertools.permutations(range(len(N)), 2):  # convex: no pairwise exchange may help
        step = min(1e-3, A[j] - best[j], best[i] - 1)
        if step > 0:
            moved = best.copy()
            moved[i] -= step
            moved[j] += step
            assert np.sum(share**2 / moved) >= value - 1e-6 * max(value, 1)


def test_chances_of_strata_are_proportional_and_at_most_one():
    assert inclusion_chances(np.array([0.5, 0.3, 0.1, 0.1]), 2).tolist() == pytest.approx([1.0, 0.6, 0.2, 0.2])
    # the first takes one whole place; of the other one the second gets 0.3/0.5


@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=12), st.integers(1, 3), st.integers(0, 1000))
def test_systematic_lots_fill_all_places(mass, places, seed):
    chance = inclusion_chances(np.array(mass) / sum(mass), places)
    assert chance.sum() == pytest.approx(places)
    drawn = draw_systematically(chance, places, np.random.default_rng(seed))
    assert len(set(drawn.tolist())) == places


def test_systematic_lots_have_the_chances_asked_for():
    chance, hits = np.array([1.0, 0.6, 0.2, 0.2]), np.zeros(4)
    for seed in range(4000):
        hits[draw_systematically(chance, 2, np.random.default_rng(seed))] += 1
    assert hits / 4000 == pytest.approx(chance, abs=0.03)
