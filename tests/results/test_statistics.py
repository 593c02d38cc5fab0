import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sortition.core.errors import InputError
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, VERDICTS, WORSE, centre, compare, differences

ZEROS = [0.0] * 10


def one(pairs, **options):
    """A single method whose differences from the baseline are these."""
    return compare([0.0] * len(pairs), {"method": pairs}, **options)["method"]


def test_differences_are_paired_by_seed_and_unknown_ones_left_out():
    found = differences({0: 0.5, 1: 0.7, 2: None, 3: 0.9}, {0: 0.4, 1: 0.5, 2: 0.1})
    assert found == pytest.approx([0.1, 0.2])
    assert compare({0: 1.0}, {"other": {1: 1.0}}) == {}


def test_one_method_is_students_paired_test():
    ours, theirs = [0.71, 0.74, 0.69, 0.75, 0.72, 0.73], [0.70, 0.71, 0.69, 0.72, 0.70, 0.70]
    found = compare(theirs, {"method": ours})["method"]
    expected = stats.ttest_rel(ours, theirs)
    low, high = expected.confidence_interval(0.95)
    assert (found.difference, found.p) == pytest.approx((np.mean(ours) - np.mean(theirs), expected.pvalue))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.verdict == BETTER


def test_a_family_of_methods_has_wider_intervals_and_larger_p():
    rng = np.random.default_rng(0)
    alone = compare(ZEROS, {"a": rng.normal(0.02, 0.02, 10).tolist()})["a"]
    rng = np.random.default_rng(0)
    beside = compare(ZEROS, {name: rng.normal(0.02, 0.02, 10).tolist() for name in "abc"})["a"]
    assert beside.p == pytest.approx(3 * alone.p)
    # Bonferroni: Student's quantile at 0.025 / 3 in place of 0.025
    ratio = stats.t.isf(0.025 / 3, 9) / stats.t.isf(0.025, 9)
    assert (beside.high - beside.low) == pytest.approx(ratio * (alone.high - alone.low))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=12), min_size=1, max_size=4),
    st.floats(0.001, 0.05),
    st.booleans(),
)
def test_interval_p_and_verdict_agree_by_construction(columns, margin, higher):
    found = compare([0.0] * 12, {str(i): column for i, column in enumerate(columns)}, margin=margin, higher=higher)
    for each in found.values():
        assert each.verdict in VERDICTS
        assert each.low <= each.inner_low <= each.difference <= each.inner_high <= each.high
        slack = 1e-9
        if each.p < 0.05 - slack:
            assert each.low > 0 or each.high < 0
        if each.low > slack or each.high < -slack:
            assert each.p < 0.05 + slack
        if each.verdict == EQUAL:
            assert max(abs(each.inner_low), abs(each.inner_high)) <= margin + slack
        if each.verdict in (BETTER, WORSE):
            assert each.low > 0 or each.high < 0
            assert (each.verdict == BETTER) == ((each.difference > 0) == higher)
        if each.verdict == UNDECIDED:
            assert each.low <= slack <= each.high + 2 * slack
            assert each.seeds_needed is None or each.seeds_needed > each.seeds


def test_practical_equality_is_two_one_sided_tests():
    pairs = [0.001, -0.002, 0.0005, 0.002, -0.001, 0.0015, 0.0, -0.0005]
    found = one(pairs, margin=0.005)
    tests = [
        stats.ttest_1samp(pairs, -0.005, alternative="greater").pvalue,
        stats.ttest_1samp(pairs, 0.005, alternative="less").pvalue,
    ]
    assert found.p_equal == pytest.approx(max(tests))
    assert found.verdict == EQUAL
    assert one(pairs, margin=0.001).verdict == UNDECIDED


def test_a_difference_that_is_certain_and_tiny_is_practically_none():
    found = one([0.0010, 0.0011, 0.0012, 0.0009, 0.0010])
    assert found.low > 0
    assert found.verdict == EQUAL


def test_the_seeds_that_are_advised_decide_four_times_of_five():
    rng = np.random.default_rng(3)
    first = one([0.03, -0.01, 0.02, 0.03, -0.015, 0.02])
    assert first.verdict == UNDECIDED
    sd = np.std([0.03, -0.01, 0.02, 0.03, -0.015, 0.02], ddof=1)
    played = [one(rng.normal(first.difference, sd, first.seeds_needed).tolist()).decided for _ in range(400)]
    assert 0.74 < np.mean(played) < 0.9


def test_the_signed_rank_test_is_beside_it_where_so_few_pairs_can_show_something():
    rising = np.arange(1.0, 7) / 100
    assert one(rising.tolist()).signed_rank == pytest.approx(2 / 2**6)
    assert one(rising[:5].tolist()).signed_rank is None  # 2 / 2⁵ is above 5 %
    six = compare([0.0] * 6, {name: rising.tolist() for name in "ab"})
    assert six["a"].signed_rank is None  # twice 2 / 2⁶ is too


def test_one_seed_equal_seeds_and_a_run_that_diverged():
    lonely = one([0.3])
    assert (lonely.verdict, lonely.seeds_needed, math.isnan(lonely.low)) == (UNDECIDED, None, True)
    assert one([0.0, 0.0, 0.0]).verdict == EQUAL
    assert one([0.1, 0.1, 0.1]).verdict == BETTER
    diverged = one([0.1, math.inf, 0.1])
    assert (diverged.verdict, diverged.seeds, math.isnan(diverged.difference)) == (UNDECIDED, 3, True)


@pytest.mark.parametrize(("option", "value"), [("margin", 0), ("margin", math.nan), ("level", 0), ("level", 1.5)])
def test_bad_options(option, value):
    with pytest.raises(InputError, match=f"compare.{option} must be"):
        compare(ZEROS, {"a": ZEROS}, **{option: value})


def test_centres_count_the_censored():
    found = centre([10, None, 14])
    assert (found.mean, found.known, found.total) == (12, 2, 3)
    assert found.sd == pytest.approx(math.sqrt(8))
    assert centre([None]) is None
    assert centre([1.0, 4.0], geometric=True).mean == pytest.approx(2)
