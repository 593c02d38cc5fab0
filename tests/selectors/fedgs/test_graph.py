from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sortition.selectors.fedgs import graph


def table(rows, edges, similarity="cosine"):
    rows = graph.scale_to_unit(rows) if similarity == "cosine" else np.asarray(rows, float)
    single = np.ones(len(rows), int)
    raw = rows @ rows.T
    V = graph.normalise(raw, *graph.extremes(raw, single, edges, clip=similarity == "cosine"))
    R = graph.lengths(V, edges, graph.EPSILON[edges], graph.SIGMA2[edges])
    return V, R, graph.path_distances(R, single)


def test_by_hand():
    """Rows e1, (e1 + e2)/√2, e2: cosines 0.7071, 0, 0.7071; max 0.7071 and min 0, so V = 1, 0, 1.

    R = exp(−1/0.1) = 4.54e-5 on the two edges, none between the ends, which are two edges apart: H = ½, 1, ½.
    """
    V, R, H = table([[1, 0], [1, 1], [0, 1]], "released")
    assert V[0, 1] == pytest.approx(1.0)
    assert R[0, 1] == pytest.approx(np.exp(-10))
    assert np.isinf(R[0, 2])
    assert pytest.approx(np.array([[0, 0.5, 1], [0.5, 0, 0.5], [1, 0.5, 0]])) == H


def test_by_hand_with_the_papers_edges():
    """Products 9, 3, 2 and squares: extremes over all pairs are 2 and 9, so V = 1/7 of (x − 2); 2 becomes 0 < ε."""
    V, R, _ = table([[3, 0], [1, 1], [1, 1]], "paper", "dot")  # products: 9, 3, 3, 2
    assert V[0, 1] == pytest.approx(1 / 7)
    assert R[0, 1] == pytest.approx(np.exp(-100 / 7))
    assert np.isinf(R[1, 2])


@given(arrays(float, (6, 3), elements=st.floats(-3, 3, width=16)), st.sampled_from(["released", "paper"]))
@settings(max_examples=60, deadline=None)
def test_distances_are_a_metric_in_the_unit_interval(rows, edges):
    _, R, H = table(rows, edges)
    assert np.array_equal(H, H.T)
    assert (np.diag(H) == 0).all()
    assert H.min() >= 0
    assert H.max() == pytest.approx(1.0)
    joined = np.isfinite(R).all()
    if joined:  # filling with 1 where no path leads may break the triangle inequality
        assert (H[:, None, :] <= H[:, :, None] + H[None, :, :].transpose(0, 1, 2) + 1e-9).all()


def test_short_edges_are_edges():
    """scipy's dense graphs drop what is below 1e-8; exp(−1/0.01) is 4e-44."""
    _, R, H = table([[1, 0.0], [1, 0.1], [0.9, 0.3]], "paper")
    assert R[0, 1] < 1e-40
    assert H[0, 1] < 0.2  # next to the longest edge, not at distance 1


def test_unknown_products_are_no_edges():
    products = np.array([[4.0, 2.0, np.nan], [2.0, 4.0, 4.0], [np.nan, 4.0, 4.0]])
    cosines = graph.cosines(products)
    assert cosines[0, 1] == 0.5
    assert np.isnan(cosines[0, 2])
    R = graph.lengths(graph.normalise(cosines, 0.0, 1.0), "released", 0.01, 0.1)
    assert np.isinf(R[0, 2])
    assert np.isfinite(R[0, 1])


def test_two_clients_of_one_kind_go_through_their_nearest_neighbour_if_that_is_shorter():
    R = np.array([[5.0, 1.0], [1.0, 0.5]])
    H = graph.path_distances(R, np.array([2, 2]))  # over the largest, 2
    assert pytest.approx(np.array([[1.0, 0.5], [0.5, 0.25]])) == H
