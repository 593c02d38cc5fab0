from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core.sampling import take_largest, take_largest_unsorted
from sortition.core.ties import BITS, TIE_TOLERANCE, first_largest, first_smallest, grid_step, round_to_tie_grid

numbers = st.floats(-1e12, 1e12, allow_nan=False)


@given(st.lists(numbers, min_size=2, max_size=8))
def test_rounding_keeps_the_order_and_the_size(values: list[float]) -> None:
    given = np.sort(np.array(values))
    for scale in (None, 1e12):
        found = round_to_tie_grid(given, scale)
        assert (np.diff(found) >= 0).all()
        np.testing.assert_allclose(found, given, rtol=2.0**-BITS, atol=0 if scale is None else scale * 2.0**-BITS)
        np.testing.assert_array_equal(round_to_tie_grid(found, scale), found)


def test_last_bits_do_not_count_and_meaningful_differences_do() -> None:
    score = np.array([0.3, 0.1 + 0.2, 0.1 * 3, 0.30001])
    assert len(set(score.tolist())) == 3
    assert len(set(round_to_tie_grid(score).tolist())) == 2
    # on both sides of a power of two, where the exponent changes
    assert np.unique(round_to_tie_grid(np.array([1.0, np.nextafter(1, 0), np.nextafter(1, 2)]))).size == 1
    # a difference of large numbers is noise relative to itself, not relative to them
    noise = np.array([1e16 + 2 - 1e16, 1e-3, -1e-3])
    assert np.unique(round_to_tie_grid(noise, 1e16)).tolist() == [0.0]
    assert np.isinf(round_to_tie_grid(np.array([np.inf, -np.inf]))).all()
    assert np.isnan(round_to_tie_grid(np.array([np.nan]))).all()


@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0, 1e-30, 1e30])
def test_the_grid_does_not_depend_on_the_last_bits_of_its_scale(scale: float) -> None:
    assert grid_step(np.nextafter(scale, 0)) == grid_step(scale) == grid_step(np.nextafter(scale, np.inf))
    assert grid_step(scale) <= scale * 2.0 ** (2 - BITS)


@pytest.mark.parametrize("scale", [5e-324, 1e-320, 1e-308, 1e-300])
def test_next_to_nothing_has_a_grid_too(scale: float) -> None:
    assert grid_step(scale) > 0
    found = round_to_tie_grid(np.array([0.0, scale, -scale]), scale)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, [0, scale, -scale], rtol=TIE_TOLERANCE, atol=3e-308)


def test_of_equal_scores_the_first_is_taken() -> None:
    tied = np.array([0.1, 0.3, 0.1 + 0.2, 0.1 * 3])
    assert [first_largest(tied), first_largest(tied[[0, 2, 1]]), first_smallest(-tied)] == [1, 1, 1]
    assert first_largest(np.array([0.1, 0.3, 0.3001])) == 2
    assert first_largest(np.array([1e-12, 2e-12]), scale=1.0) == 0
    assert first_largest(np.array([-np.inf, -np.inf])) == 0
    assert first_largest(np.array([1.0, np.inf])) == 1


def test_a_ranking_is_by_rounded_value_and_id() -> None:
    ids = np.array([7, 3, 9, 5])
    values = np.array([0.1 + 0.2, 0.3, 0.5, 0.1 * 3])
    assert take_largest(ids, values, 3).tolist() == [9, 3, 5]
    assert sorted(take_largest_unsorted(ids, values, 2).tolist()) == [3, 9]
    drawn = {tuple(take_largest(ids, values, 2, np.random.default_rng(seed)).tolist()) for seed in range(40)}
    assert drawn == {(9, 3), (9, 5), (9, 7)}
