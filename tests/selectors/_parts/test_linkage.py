from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from sortition.selectors._parts.linkage import (
    build_tree,
    cut_to_count,
    cut_to_mass,
    directions,
    gaps_between,
    mutual_gaps,
    tree_groups,
)

RNG = np.random.default_rng


def angles(rows):
    points = directions(np.asarray(rows, float))
    return gaps_between(points, points)


def partition(labels):
    return {frozenset(np.flatnonzero(labels == g).tolist()) for g in np.unique(labels)}


def test_angles_by_hand():
    # (1,0) and (0,3): π/2; (1,0) and (−2,0): π; (1,0) and (1,1): π/4
    got = angles([[1, 0], [0, 3], [-2, 0], [1, 1]])
    np.testing.assert_allclose(got[0], [0, np.pi / 2, np.pi, np.pi / 4], atol=1e-12)
    np.testing.assert_allclose(got, got.T)


def test_a_zero_row_is_alike_only_to_zero_rows():
    got = angles([[0, 0], [0, 0], [5, 1]])
    assert got[0, 1] == 0
    np.testing.assert_allclose(got[:2, 2], np.pi / 2)


def test_equal_directions_are_at_distance_zero_at_any_scale():
    row = RNG(0).normal(size=7)
    assert (angles([row * s for s in (1e-9, 1.0, 3.7, 1e9)]) == 0).all()


@pytest.mark.parametrize("gap", ["l1", "l2"])
def test_norms_by_hand(gap):
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert gaps_between(rows, rows, gap)[0, 1] == {"l1": 7, "l2": 5}[gap]


@pytest.mark.parametrize("gap", ["l1", "l2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_within_a_group_are_those_between_two_groups_to_the_byte(gap, dtype):
    rows = RNG(2).normal(size=(40, 23)).astype(dtype)
    rows[::3] = 0
    expected = gaps_between(rows, rows, gap)
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(mutual_gaps(rows, gap), expected)
    np.testing.assert_array_equal(mutual_gaps(rows[::3], gap), 0)


def test_ward_takes_distance_rows_as_points():
    gaps = angles(RNG(1).normal(size=(30, 4)))
    np.fill_diagonal(gaps, 0)
    np.testing.assert_allclose(build_tree(gaps), linkage(pdist(gaps), "ward"), rtol=1e-7, atol=1e-7)


def test_a_cut_to_count_gives_that_many_even_where_all_are_alike():
    for n, count in ((6, 3), (6, 1), (6, 6), (6, 9), (1, 4)):
        links = build_tree(np.zeros((n, n)))
        assert np.unique(cut_to_count(links, count)).size == min(count, n)


def test_a_cut_to_count_undoes_the_last_merges():
    points = np.array([0.0, 0.1, 5.0, 5.1, 9.0])[:, None]
    links = build_tree(np.abs(points - points.T), "average")
    assert partition(cut_to_count(links, 3)) == {frozenset({0, 1}), frozenset({2, 3}), frozenset({4})}


def test_a_cut_to_mass_keeps_the_largest_subtrees_that_fit():
    points = np.array([0.0, 0.1, 0.3, 5.0, 5.1])[:, None]
    links = build_tree(np.abs(points - points.T), "average")
    # {0,1} weighs 4, with client 2 it weighs 7 > 6; {3,4} weighs 9 > 6, so they part; client 4 alone is too heavy
    got = partition(cut_to_mass(links, np.array([2, 2, 3, 2, 7]), 6))
    assert got == {frozenset({0, 1}), frozenset({2}), frozenset({3}), frozenset({4})}


def kinds(n, seed=0, dim=6):
    """Clients of five directions with a little noise, in turn."""
    rng = RNG(seed)
    centres = np.eye(dim)[:5] - 0.1
    return centres[np.arange(n) % 5] * rng.uniform(0.5, 2, (n, 1)) + 0.03 * rng.normal(size=(n, dim))


@pytest.mark.parametrize("gap", ["angle", "l2", "l1"])
def test_a_sample_finds_the_groups_of_the_whole_tree(gap):
    rows = kinds(300) if gap == "angle" else kinds(300) / np.linalg.norm(kinds(300), axis=1, keepdims=True)
    whole = tree_groups(rows, lambda links, _: cut_to_count(links, 5), 300, RNG(0), among=np.arange(len(rows)), gap=gap)
    sampled = tree_groups(
        rows, lambda links, _: cut_to_count(links, 5), 40, RNG(0), among=np.arange(len(rows)), gap=gap
    )
    assert partition(whole) == partition(sampled) == partition(np.arange(300) % 5)


def test_offsets_part_clients_of_one_direction():
    rows = np.tile(RNG(2).normal(size=4), (200, 1))
    offset = np.where(np.arange(200) % 4 == 0, 10.0, 0.0) + RNG(3).normal(size=200) * 0.01
    for limit in (200, 50):
        labels = tree_groups(
            rows, lambda links, _: cut_to_count(links, 2), limit, RNG(0), among=np.arange(len(rows)), offset=offset
        )
        assert partition(labels) == partition(np.arange(200) % 4 == 0)


def test_groups_with_one_centre_are_one():
    # three directions only, cut into nine groups: of the nine centres no more than three are told apart
    rows = np.eye(3)[np.arange(300) % 3]
    labels = tree_groups(rows, lambda links, _: cut_to_count(links, 9), 60, RNG(0), among=np.arange(len(rows)))
    assert partition(labels) == partition(np.arange(300) % 3)
    assert np.bincount(labels).all()  # no label is without members


def test_a_sample_prefers_rows_that_are_not_zero():
    rows = np.zeros((1000, 5))
    rows[[10, 500, 990]] = kinds(3, dim=5)  # 0.3 %: a plain sample of 20 would mostly miss them
    labels = tree_groups(rows, lambda links, _: cut_to_count(links, 4), 20, RNG(0), among=np.arange(len(rows)))
    assert partition(labels) == {
        frozenset({10}),
        frozenset({500}),
        frozenset({990}),
        frozenset(set(range(1000)) - {10, 500, 990}),
    }
