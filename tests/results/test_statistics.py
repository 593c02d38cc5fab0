import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortition.results.statistics import Paired, centre, holm, interval, least, paired, verdict, wilcoxon


def test_six_seeds_are_the_fewest_that_can_show_something():
    # all n differences of one sign: p = 2 / 2ⁿ
    assert least(5) == 0.0625
    assert wilcoxon(np.arange(1.0, 6)) == pytest.approx(0.0625)
    assert wilcoxon(np.arange(1.0, 7)) == pytest.approx(0.03125)
    assert wilcoxon(np.zeros(4)) == 1


def test_differences_are_paired_by_seed_and_censored_ones_left_out():
    found = paired({0: 0.5, 1: 0.7, 2: None, 3: 0.9}, {0: 0.4, 1: 0.5, 2: 0.1})
    assert found.n == 2
    assert found.mean == pytest.approx(0.15)
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_the_bootstrap_interval_holds_the_mean_and_repeats():
    data = np.array([0.1, 0.3, 0.2, 0.5, 0.4])
    low, high = interval(data)
    assert low < 0.3 < high
    assert interval(data) == (low, high)
    assert interval(np.array([2.0, 2.0])) == (2.0, 2.0)
    assert math.isnan(interval(np.array([1.0]))[0])


def test_holm_by_hand():
    # 0.01·3 = 0.03; 0.04·2 = 0.08; 0.03 < 0.04 in order: 0.03·2 = 0.06, then max(0.06, 0.04·1)
    ps = {"a": 0.01, "b": 0.04, "c": 0.03}
    found = holm({name: Paired(10, 1.0, 0, 2, p, p, 0) for name, p in ps.items()})
    assert {name: round(one.adjusted, 4) for name, one in found.items()} == {"a": 0.03, "b": 0.06, "c": 0.06}


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_and_keeps_the_order(ps):
    found = holm({str(i): Paired(10, 1.0, 0, 2, p, p, 0) for i, p in enumerate(ps)})
    adjusted = [found[str(i)].adjusted for i in range(len(ps))]
    assert all(a >= p for a, p in zip(adjusted, ps, strict=True))
    order = np.argsort(ps, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_verdicts():
    made = Paired(10, 0.1, 0, 0.2, 0.01, 0.02, 0.01)
    assert verdict(made, higher=True) == "better"
    assert verdict(made, higher=False) == "worse"
    assert verdict(Paired(10, 0.1, 0, 0.2, 0.2, 0.2, 0.01), higher=True) == "no difference shown"
    assert verdict(Paired(5, 0.1, 0, 0.2, 0.0625, 0.0625, 0.0625), higher=True) == "too few seeds to tell"


def test_centres_count_the_censored():
    found = centre([10, None, 14])
    assert (found.mean, found.known, found.total) == (12, 2, 3)
    assert found.sd == pytest.approx(math.sqrt(8))
    assert centre([None]) is None
    assert centre([1.0, 4.0], geometric=True).mean == pytest.approx(2)
