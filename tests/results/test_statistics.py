import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sortition.core.errors import InputError
from sortition.results.statistics import (
    BETTER,
    EQUAL,
    UNDECIDED,
    VERDICTS,
    WORSE,
    Reason,
    centre,
    compare,
    compare_pairs,
    differences,
    floored_variance,
    holm,
    looks_skewed,
    pooled_variance,
)

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
    values = np.random.default_rng(0).normal(0.02, 0.02, 10)
    alone = compare(ZEROS, {"a": values.tolist()})["a"]
    beside = compare(ZEROS, {"a": values.tolist(), "b": (-values).tolist(), "c": (values - 0.01).tolist()})["a"]
    assert beside.p == pytest.approx(3 * alone.p)
    # Bonferroni: Student's quantile at 0.025 / 3 in place of 0.025
    ratio = stats.t.isf(0.025 / 3, 9) / stats.t.isf(0.025, 9)
    assert (beside.high - beside.low) == pytest.approx(ratio * (alone.high - alone.low))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=8), min_size=1, max_size=4),
    st.floats(0.1, 5),
    st.sampled_from(["accuracy", "loss"]),
)
def test_interval_p_and_verdict_agree_by_construction(columns, margin, metric):
    others = {str(i): [1 + value for value in column] for i, column in enumerate(columns)}
    found = compare([1.0] * 12, others, margin=margin, metric=metric, resolution=0.001)
    for each in found.values():
        assert each.verdict in VERDICTS
        assert (each.reason is None) == each.decided
        assert each.low <= each.inner_low <= each.difference <= each.inner_high <= each.high
        slack = 1e-9
        if each.p < 0.05 - slack:
            assert each.low > 0 or each.high < 0
        if each.low > slack or each.high < -slack:
            assert each.p < 0.05 + slack
        if each.verdict == EQUAL:
            assert max(abs(each.inner_low), abs(each.inner_high)) <= margin / 100 + slack
        if each.verdict in (BETTER, WORSE):
            assert each.low > 0 or each.high < 0
            assert (each.verdict == BETTER) == ((each.difference > 0) == (metric == "accuracy"))
        if each.verdict == UNDECIDED:
            assert each.low <= slack <= each.high + 2 * slack
            assert each.seeds_needed is None or each.seeds_needed > each.seeds


def test_practical_equality_is_two_one_sided_tests():
    pairs = [0.001, -0.002, 0.0005, 0.002, -0.001, 0.0015, 0.0, -0.0005]
    found = one(pairs, margin=0.5)
    tests = [
        stats.ttest_1samp(pairs, -0.005, alternative="greater").pvalue,
        stats.ttest_1samp(pairs, 0.005, alternative="less").pvalue,
    ]
    assert found.p_equal == pytest.approx(max(tests))
    assert found.verdict == EQUAL
    assert one(pairs, margin=0.1).verdict == UNDECIDED


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
    assert one([0.0, 0.0, 0.0]).verdict == EQUAL
    diverged = one([0.1, math.inf, 0.1])
    assert (diverged.verdict, diverged.seeds, math.isnan(diverged.difference)) == (UNDECIDED, 3, True)
    assert diverged.reason is Reason.DIVERGED


@pytest.mark.parametrize("pairs", [[0.3], [0.3, 0.3], [0.3, 0.30001]])
def test_one_or_two_seeds_prove_nothing(pairs):
    found = one(pairs, resolution=1e-4)
    assert (found.verdict, found.reason, found.seeds_needed) == (UNDECIDED, Reason.FEW_SEEDS, None)
    assert math.isnan(found.low)
    assert found.p == 1
    assert found.difference == pytest.approx(0.3, abs=1e-4)


class TestFloor:
    """The spread that tests use is never below what the test set and the other methods make plausible."""

    def test_differences_are_never_more_exact_than_the_test_set(self):
        # two rounded values differ by an error of variance h² / 6, here 0.02² / 6 on 50 examples
        found = one([0.02, 0.02, 0.02], resolution=0.02)
        assert found.sd == 0
        assert found.error == pytest.approx(0.02 / math.sqrt(6) / math.sqrt(3))
        assert found.verdict == UNDECIDED
        assert one([0.1, 0.1, 0.1], resolution=0.0001).verdict == BETTER

    def test_without_any_spread_and_a_known_resolution_there_is_no_verdict(self):
        for pairs in ([0.1] * 3, [0.1] * 20, [0.3 - 0.2, 0.4 - 0.3, 0.5 - 0.4]):  # the last differ by rounding
            found = one(pairs)
            assert (found.verdict, found.reason, found.p) == (UNDECIDED, Reason.NO_SPREAD, 1)

    def test_the_spread_of_the_other_methods_counts_as_one_more_seed(self):
        others = {"calm": [0.01, 0.01, 0.01, 0.01], "wild": [0.05, -0.03, 0.02, 0.01], "wilder": [0.1, -0.1, 0.1, 0.0]}
        found = compare([0.0] * 4, others)
        spread = np.var(others["wild"], ddof=1), np.var(others["wilder"], ddof=1)
        assert found["calm"].error ** 2 * 4 == pytest.approx(np.median(spread) / 4)
        moderated = (3 * spread[0] + np.median(spread)) / 4
        assert found["wild"].error ** 2 * 4 == pytest.approx(moderated)
        assert found["wilder"].error ** 2 * 4 == pytest.approx(spread[1])  # above the median: as it is
        assert compare([0.0] * 4, {"calm": others["calm"]}, resolution=1e-4)["calm"].verdict == BETTER
        assert found["calm"].verdict == UNDECIDED

    def test_a_method_that_is_the_baseline_itself_stays_practically_equal(self):
        found = compare(ZEROS, {"same": ZEROS, "wild": [0.1, -0.1] * 5}, resolution=1e-3)
        assert found["same"].verdict == EQUAL

    def test_it_only_ever_widens(self):
        variances = np.array([[0.0, 1.0, 4.0], [2.0, 2.0, 2.0]])
        pooled = pooled_variance(variances)
        assert pooled.tolist() == [2.5, 2.0]
        tested = floored_variance(variances, n=5, pooled=pooled[:, None], resolution=0.1)
        assert (tested >= variances).all()
        assert pooled_variance(np.zeros((2, 3))).tolist() == [0.0, 0.0]


def test_what_looks_skewed_is_said():
    # g₁ of four equal values and one far away is 1.5, the largest that five values can have; 1.2 is the threshold
    skew = [0.01, 0.01, 0.01, 0.01, -0.09]
    assert looks_skewed(np.array(skew))
    assert one([0.1 + value for value in skew]).skewed
    assert not looks_skewed(np.array([0.01, 0.02, 0.03, 0.04, 0.05]))
    assert not looks_skewed(np.full(5, 0.1))
    assert not looks_skewed(np.array([0.0, 0.0, 9.0]))  # three values can never show it
    rng = np.random.default_rng(1)
    assert 0.02 < np.mean([looks_skewed(rng.normal(size=10)) for _ in range(2000)]) < 0.08


def test_pairs_can_have_different_baselines():
    values = {"a": [0.1, 0.2, 0.3, 0.35], "b": [0.0, 0.1, 0.25, 0.3], "c": [0.0, 0.0, 0.1, 0.0]}
    found = compare_pairs(values, [("a", "b"), ("a", "c"), ("b", "c")])
    assert [(one.method, one.baseline, one.family) for one in found] == [
        ("a", "b", 3), ("a", "c", 3), ("b", "c", 3),
    ]  # fmt: skip
    assert found[0].difference == pytest.approx(0.075)


def test_holm_is_step_down():
    assert holm([0.012, 0.02, 0.04, 0.9]) == [True, False, False, False]
    assert holm([0.04, 0.001, 0.01, 0.02]) == [True] * 4
    assert holm([]) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [("margin", 0), ("margin", math.nan), ("margin", 1e9), ("level", 0), ("level", 1.5), ("resolution", 2)],
)
def test_bad_options(option, value):
    with pytest.raises(InputError, match=f"compare.{option} must be"):
        compare(ZEROS, {"a": ZEROS}, **{option: value})


def test_centres_count_the_censored():
    found = centre([10, None, 14])
    assert (found.mean, found.n_known, found.total) == (12, 2, 3)
    assert found.sd == pytest.approx(math.sqrt(8))
    assert centre([None]) is None
    assert centre([1.0, 4.0], geometric=True).mean == pytest.approx(2)
