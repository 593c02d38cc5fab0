"""Each robust rule against its formula, on numbers that can be followed by hand."""

import numpy as np
import pytest

from sortition.aggregation import CombineRule, weighted_sum
from sortition.core.errors import InputError

LINE = np.array([[1.0], [2.0], [3.0], [4.0], [100.0]])
POINTS = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [100, 100]], float)
ROBUST = ("median", "trimmed-mean", "geometric-median", "norm-bound")


def centre(name, updates, weights=None, **options):
    k = len(updates)
    weights = np.full(k, 1 / k) if weights is None else np.array(weights, float)
    return CombineRule(name, **options).apply(np.arange(k), weights, np.asarray(updates), None)[0]


def test_the_published_example_of_one_outlier():
    assert centre("median", LINE) == pytest.approx(3)
    assert centre("trimmed-mean", LINE, trim=0.2) == pytest.approx(3)
    assert centre("mean", LINE) == pytest.approx(22)


def test_an_even_median_is_the_mean_of_the_two_middle_values():
    assert centre("median", LINE[:4]) == pytest.approx(2.5)
    assert centre("median", LINE[:2]) == pytest.approx(1.5)
    rng = np.random.default_rng(0)
    for k in range(1, 12):
        updates = rng.normal(size=(k, 70_000 if k == 7 else 40)).astype(np.float32)  # more than one block of columns
        np.testing.assert_allclose(centre("median", updates), np.median(updates, axis=0), atol=1e-6)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_trimmed_mean_cuts_whole_updates_where_the_share_is_whole(cut):
    updates = np.random.default_rng(1).normal(size=(10, 30))
    inner = np.sort(updates, axis=0)[cut : 10 - cut].mean(axis=0)
    np.testing.assert_allclose(centre("trimmed-mean", updates, trim=cut / 10), inner, atol=1e-12)


def test_weighted_forms_equal_repeated_updates():
    updates, times = np.random.default_rng(2).normal(size=(6, 20)), np.array([1, 3, 2, 1, 2, 1])
    repeated = np.repeat(updates, times, axis=0)
    for name, options in (("median", {}), ("trimmed-mean", {"trim": 0.25}), ("geometric-median", {"passes": 50})):
        one, other = centre(name, updates, times / 10, **options), centre(name, repeated, **options)
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_trimming_all_but_nothing_is_the_median():
    for trim in (0.5 - 1e-6, 0.5 - 1e-13):
        assert centre("trimmed-mean", LINE, trim=trim) == pytest.approx(3)
        assert centre("trimmed-mean", LINE[:4], trim=trim) == pytest.approx(2.5)


def test_half_of_a_weight_can_be_cut():
    # shares .5 .3 .2, cut .2 from each side: .3 of 0, .3 of 10, 0 of 1000
    assert centre("trimmed-mean", [[0.0], [10.0], [1000.0]], [0.5, 0.3, 0.2], trim=0.2) == pytest.approx(5)


def test_weiszfeld_passes_from_the_mean():
    np.testing.assert_allclose(centre("geometric-median", POINTS, passes=3), [0.9661, 0.9661], atol=5e-5)
    np.testing.assert_allclose(centre("geometric-median", POINTS, passes=500), [0.7887, 0.7887], atol=5e-5)
    np.testing.assert_allclose(centre("median", POINTS), [1, 1])


def test_the_geometric_median_is_the_smallest_sum_of_distances():
    rng = np.random.default_rng(3)
    updates, weights = rng.normal(size=(7, 5)), rng.dirichlet(np.ones(7))

    def cost(v):
        return weights @ np.linalg.norm(updates - v, axis=1)

    costs = [cost(centre("geometric-median", updates, weights, passes=n)) for n in (1, 2, 4, 8, 300)]
    assert costs == sorted(costs, reverse=True)
    best = centre("geometric-median", updates, weights, passes=300)
    assert all(cost(best) <= cost(best + 0.01 * rng.normal(size=5)) for _ in range(50))
    heavy = centre("geometric-median", updates, [0.6, *[0.4 / 6] * 6], passes=400)
    np.testing.assert_allclose(heavy, updates[0], atol=1e-3)  # more than half of the weight


def test_no_update_is_longer_than_the_bound():
    updates = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, -50.0], [2.0, 0.0], [0.0, 0.0]])  # norms 5, 1, 50, 2, 0: median 2
    cut = updates * np.array([4 / 5, 1, 4 / 50, 1, 1])[:, None]
    weights = [0.1, 0.2, 0.3, 0.2, 0.2]
    np.testing.assert_allclose(centre("norm-bound", updates, weights, bound=2.0), weights @ cut)
    np.testing.assert_allclose(centre("norm-bound", updates, weights, bound=1e9), weights @ updates)


@pytest.mark.parametrize("name", ROBUST)
def test_what_all_centres_have_in_common(name):
    rng = np.random.default_rng(4)
    updates, weights = rng.normal(size=(8, 6)).astype(np.float32), rng.dirichlet(np.ones(8))
    found = centre(name, updates, weights)
    assert found.dtype == np.float32
    order = rng.permutation(8)
    np.testing.assert_allclose(centre(name, updates[order], weights[order]), found, atol=1e-6)
    np.testing.assert_allclose(centre(name, 2 * updates, weights), 2 * found, atol=1e-5)
    np.testing.assert_allclose(centre(name, updates, weights / 2), found / 2, atol=1e-6)  # the total mass is kept
    np.testing.assert_allclose(centre(name, np.tile(updates[:1], (5, 1))), updates[0], atol=1e-6)
    np.testing.assert_array_equal(centre(name, updates, np.zeros(8)), np.zeros(6))
    if name != "norm-bound":
        np.testing.assert_allclose(centre(name, updates + np.float32(3), weights), found + 3, atol=1e-5)


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("size", [1e3, 1e30])
def test_two_of_ten_cannot_move_a_centre_far(name, size):
    updates = np.random.default_rng(5).normal(size=(10, 4))
    honest = weighted_sum(np.full(8, 1 / 8), updates[:8])
    updates[8:] = size
    moved = np.linalg.norm(centre(name, updates, trim=0.2, passes=200) - honest)
    assert moved < 4
    assert np.linalg.norm(centre("mean", updates) - honest) > size / 10


def test_what_has_no_meaning_is_refused():
    ids, weights, updates = np.arange(3), np.array([2.0, 0.5, 0.1]), np.eye(3)
    for name in ("median", "trimmed-mean", "geometric-median"):
        with pytest.raises(InputError, match=f"combine = '{name}' must be given weights that sum to 1"):
            CombineRule(name).apply(ids, weights, updates, mass="expected")
    CombineRule("norm-bound").apply(ids, weights, updates, mass="expected")
    with pytest.raises(InputError, match="combine must be given finite updates"):
        CombineRule("median").apply(ids, weights, np.full((3, 3), np.nan))
    for option, value in (
        ("trim", 0.5), ("trim", -0.1), ("trim", "much"), ("trim", False), ("passes", 0), ("bound", 0.0), ("bound", "2"),
        ("bound", None), ("memory_limit", True), ("smoothing", np.inf),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"CombineRule.{option} must be"):
            CombineRule("median", **{option: value})
