from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.selectors._parts.bins import Bins, as_whole_sizes, fill_bins, fill_bins_by_groups, fill_bins_by_size

RNG = np.random.default_rng
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)


class Marks:
    """A generator whose draws of whole numbers are given."""

    def __init__(self, marks):
        self.marks = np.asarray(marks)

    def integers(self, high, size):
        assert self.marks.size == size
        assert self.marks.max() < high
        return self.marks


def expectation(bins: Bins, n: int, m: int) -> list[Fraction]:
    """E[draws of i / m], by looking at every outcome of the m draws: all of them are equally likely."""
    count = np.zeros(n, np.int64)
    for marks in itertools.product(range(bins.capacity), repeat=m):
        np.add.at(count, bins.draw(Marks(marks)), 1)
    return [Fraction(int(c), m * bins.capacity**m) for c in count]


def test_algorithm_1_by_hand():
    # p = (.5, .2, .15, .1, .05), m = 3: mass (1.5, .6, .45, .3, .15)
    got = fill_bins_by_size(np.array([10, 4, 3, 2, 1]), 3).table(5)
    np.testing.assert_allclose(got, [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 0.1, 0.45, 0.3, 0.15]])


def test_algorithm_2_by_hand():
    # m = 2, n = 10: mass (6, 4, 6, 4), groups {0, 1} and {2, 3} weigh a bin each
    got = fill_bins_by_groups(np.array([3, 2, 3, 2]), 2, np.array([0, 0, 1, 1]), RNG(0)).table(4)
    np.testing.assert_allclose(got, [[0.6, 0.4, 0, 0], [0, 0, 0.6, 0.4]])


def test_a_client_larger_than_a_bin_gets_bins_of_its_own():
    # p = (.9, .1), m = 2: mass 1.8 and .2; the released code gives (1, 0), (0, 1)
    got = fill_bins_by_groups(np.array([9, 1]), 2, np.array([0, 1]), RNG(0)).table(2)
    np.testing.assert_allclose(got, [[1, 0], [0.8, 0.2]])


def test_pouring_cuts_a_client_where_a_bin_ends():
    pieces = fill_bins(np.array([7, 8]), np.array([3, 5]), np.array([4, 0, 2, 2]))
    assert list(zip(pieces.bin.tolist(), pieces.client.tolist(), pieces.mass.tolist(), strict=True)) == [
        (0, 7, 3),
        (0, 8, 1),
        (2, 8, 2),
        (3, 8, 2),
    ]


@pytest.mark.parametrize("sizes", [[4, 3, 2, 1], [9, 1], [7, 1, 1, 1], [5, 0, 5], [1, 1, 1, 1, 1], [3]])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_both_algorithms_are_exactly_unbiased_by_enumeration(sizes, m):
    n = np.array(sizes)
    p = [Fraction(size, sum(sizes)) for size in sizes]
    assert expectation(fill_bins_by_size(n, m), n.size, m) == p
    # every way to group up to four clients, for Algorithm 2
    groupings = itertools.product(range(2), repeat=min(n.size, 4))
    for head in itertools.islice(groupings, 0, None, 1 if m < 3 else 3):
        groups = np.array([*head, *range(2, 2 + n.size - len(head))])
        _, groups = np.unique(groups, return_inverse=True)
        assert expectation(fill_bins_by_groups(n, m, groups, RNG(0)), n.size, m) == p


@given(SIZES, st.integers(1, 9), st.integers(0, 2**31), st.integers(1, 6))
def test_rows_sum_to_one_and_columns_to_m_p(sizes, m, seed, kinds):
    n = np.array(sizes)
    rng = RNG(seed)
    _, groups = np.unique(rng.integers(kinds, size=n.size), return_inverse=True)
    for bins in (fill_bins_by_size(n, m), fill_bins_by_groups(n, m, groups, rng)):
        assert (bins.mass > 0).all()
        assert (np.bincount(bins.bin, bins.mass, minlength=m) == n.sum()).all()
        assert (np.bincount(bins.client, bins.mass, minlength=n.size) == m * n).all()
        assert (np.diff(bins.bin) >= 0).all()
        # at least as likely to be drawn as under m independent draws by size: 1 − Π(1 − r_ki) ≥ 1 − (1 − p_i)^m
        chance = 1 - np.prod(1 - bins.table(n.size), axis=0)
        assert (chance >= 1 - (1 - n / n.sum()) ** m - 1e-12).all()


def test_a_group_heavier_than_a_bin_fills_bins_alone():
    # four clients of one kind weigh 3.2 bins of 4, one other .8
    got = fill_bins_by_groups(np.array([2, 2, 2, 2, 2]), 4, np.array([0, 0, 0, 0, 1]), RNG(0)).table(5)
    assert (got[:3, 4] == 0).all()
    np.testing.assert_allclose(got[3], [*got[3, :4], 0.8])


def test_members_of_a_split_group_are_shuffled():
    sizes, groups = np.full(12, 1), np.repeat([0, 1, 2], 4)
    tables = {fill_bins_by_groups(sizes, 2, groups, RNG(seed)).table(12).tobytes() for seed in range(6)}
    assert len(tables) > 1


def test_sizes_become_whole():
    assert as_whole_sizes(np.array([2.0, 3.0])).tolist() == [2, 3]
    assert as_whole_sizes(np.zeros(3)).tolist() == [1, 1, 1]
    halves = as_whole_sizes(np.array([0.25, 0.75]))
    assert halves[1] == 3 * halves[0]


def test_totals_beyond_64_bits_are_scaled():
    sizes = as_whole_sizes(np.array([10**17, 10**17, 5]), 100)  # 100 times their sum is 2·10¹⁹ > 2⁶³
    assert sizes[0] == sizes[1] > 0
    for bins in (fill_bins_by_size(sizes, 100), fill_bins_by_groups(sizes, 100, np.arange(3), RNG(0))):
        np.testing.assert_allclose(bins.table(3).sum(axis=0), [50, 50, 0], atol=1e-6)
