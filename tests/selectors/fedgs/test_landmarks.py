from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import floyd_warshall

from sortition.selectors.fedgs import graph
from sortition.selectors.fedgs import landmarks as lm


def length(similarity):
    return graph.lengths(graph.normalise(similarity, 0.0, 1.0), "released", 0.01, 0.1)


def places(n, seed=0, width=8):
    return graph.scale_to_unit(np.random.default_rng(seed).dirichlet(np.full(width, 0.3), n)).astype(np.float32)


def shortest(rows):
    R = np.asarray(length(rows @ rows.T), np.float64)
    np.fill_diagonal(R, 0.0)
    return floyd_warshall(np.ma.masked_invalid(R), directed=False)


def test_few_nodes_that_are_all_landmarks_have_the_true_distances():
    # 100 nodes, all of them landmarks: relaxing over landmarks three times finds paths of up to eight edges
    rows = places(100)
    table, largest = lm.survey(rows, length, np.random.default_rng(0))
    found = lm.path_lengths(rows, table, lambda s: length(s) / largest)
    assert found * largest == pytest.approx(shortest(rows), rel=1e-3)
    assert found.max() == pytest.approx(1, abs=1e-6)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_distances_are_symmetric_upper_bounds(seed):
    rows, rng = places(300, seed), np.random.default_rng(seed)
    nodes = rows[np.sort(rng.choice(300, 100, replace=False))]
    table, largest = lm.survey(nodes, length, rng)
    ways = lm.distances_to_landmarks(rows, nodes, table, lambda s: length(s) / largest)
    found = lm.path_lengths(rows, ways, lambda s: length(s) / largest)
    assert (found == found.T).all()
    assert (np.diag(found) == 0).all()
    assert (found * largest >= shortest(rows) * (1 - 1e-3)).all()


def test_a_client_at_a_nodes_place_is_as_far_as_the_node_and_remoteness_is_the_mean():
    nodes = places(60)
    table, largest = lm.survey(nodes, length, np.random.default_rng(0))
    scaled = lambda s: length(s) / largest  # noqa: E731
    found = lm.distances_to_landmarks(nodes[[7, 3]], nodes, table, scaled)
    assert (found <= table[[7, 3]] + 1e-6).all()  # looking at more nodes may still find a shorter way
    assert found == pytest.approx(table[[7, 3]], rel=0.1)
    remote, home = lm.remoteness(nodes, nodes, table, scaled)
    assert remote == pytest.approx(np.minimum(table, 1).mean(axis=1), abs=1e-6)
    assert (home == table.argmin(axis=1)).all()


@pytest.mark.parametrize("longest", [0.4, 2.0, np.inf])
def test_ways_are_shortened_to_the_min_plus_product(longest):
    rng = np.random.default_rng(0)
    left, right = rng.random((40, 5)).astype(np.float32), rng.random((5, 7)).astype(np.float32)
    ways = np.minimum(rng.random((40, 7)).astype(np.float32) * 3, np.float32(longest))
    expected = np.minimum(ways, (left[:, :, None] + right).min(axis=1))
    lm.shorten(ways, left, right)
    assert (ways == expected).all()


def test_a_shortlist_has_the_best_of_all_and_of_every_home():
    score = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], float)
    home = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2, 2])
    # 6 places: the best three of all, then in turns the best of homes 0, 1 and 2: scores 6, 3 and 1
    assert lm.shortlist(score, home, 6, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 6, 8]
    assert lm.shortlist(score, home, 10, np.random.default_rng(0)).size == 10


def test_ties_of_a_shortlist_go_by_lot():
    drawn = [lm.shortlist(np.zeros(50), np.zeros(50, int), 10, np.random.default_rng(s)) for s in range(200)]
    counts = np.bincount(np.concatenate(drawn), minlength=50)
    assert counts.min() > 15  # 200 · 10 / 50 = 40 on average, standard deviation 5.7
