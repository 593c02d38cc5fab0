"""The choice by progress per second, beside a literal twin with loops."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.mutations import slipped

from sortition.core import Cohort, Feedback, Population, Registrar, Round
from sortition.selectors import load
from sortition.selectors.microcosm.durations import duration_limits, expected_seconds, observed_seconds
from sortition.selectors.microcosm.payments import MOST_UNITS, make_payments
from sortition.selectors.microcosm.quickest import choose_quickest
from sortition.selectors.microcosm.sitting import Sitting


def sitting_of(seed, n=16, places=4):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, 3))
    return Sitting(
        phi=phi / np.sqrt((phi**2).sum(axis=1).mean()),
        target=0.1 * rng.normal(size=3),
        owed=1 / n + 0.05 * rng.normal(size=n),
        trade_off=1.5,
        common=1.0,
        places=places,
        floors=np.zeros(n),
        random_order=rng.permutation(n),
    )


def literal_limit(sitting, seconds):
    """The limit whose portrait has the most progress per second: every sum written out."""
    best, best_rate = None, -float("inf")
    for limit in duration_limits(seconds, sitting.places, least=0.0, deadline=None):
        pool = [k for k in sitting.random_order.tolist() if seconds[k] <= limit]
        weighed = sitting.portrait(np.array(pool), swaps=False)
        a = dict(zip(weighed.members.tolist(), weighed.weights.tolist(), strict=True))
        progress = sitting.common
        for k, weight in a.items():
            progress += sitting.trade_off * (2 * sitting.owed[k] * weight - weight**2)
        for j in range(sitting.phi.shape[1]):
            mixture = sum(weight * sitting.phi[k, j] for k, weight in a.items())
            progress += 2 * sitting.target[j] * mixture - mixture**2
        duration = max(seconds[k] for k in a)
        rate = progress / duration if progress > 0 else progress * duration
        if rate > best_rate:
            best, best_rate = float(limit), rate
    return best


def decided(sitting, seconds, waits=None, **more):
    n = seconds.size
    owing = make_payments(np.full(n, 1 / n), sitting.places)
    waits = np.zeros((n, MOST_UNITS), np.int32) if waits is None else waits
    options = {"deadline": None, "overlaps": False} | more
    return choose_quickest(sitting, seconds=seconds, owing=owing, waits=waits, ids=np.arange(n), **options)


def durations(seed, n=16):
    return np.random.default_rng([seed, 1]).lognormal(0, 1, n)


@pytest.mark.parametrize("seed", range(12))
def test_takes_the_limit_of_the_literal_twin(seed):
    sitting, seconds = sitting_of(seed), durations(seed)
    decision = decided(sitting, seconds)
    assert decision.limit == pytest.approx(literal_limit(sitting, seconds))
    assert seconds[decision.portrait.members].max() <= decision.limit
    assert decision.too_slow == (seconds > decision.limit).sum()


SLIPS = [
    ("choose_quickest", "progress / duration", "progress"),  # time forgotten
    ("choose_quickest", "member_seconds.max()", "member_seconds.min()"),  # the first ends the round
]


@pytest.mark.parametrize(("name", "right", "wrong"), SLIPS)
def test_a_slip_is_caught_by_the_twin(name, right, wrong, monkeypatch):
    module = sys.modules["sortition.selectors.microcosm.quickest"]
    monkeypatch.setattr(module, name, slipped(getattr(module, name), right, wrong))
    sittings = [(sitting_of(seed), durations(seed)) for seed in range(12)]

    def choose(sitting, seconds):
        n = seconds.size
        return module.choose_quickest(
            sitting,
            seconds=seconds,
            owing=make_payments(np.full(n, 1 / n), sitting.places),
            waits=np.zeros((n, MOST_UNITS), np.int32),
            ids=np.arange(n),
            deadline=None,
            overlaps=False,
        )

    assert any(choose(*case).limit != pytest.approx(literal_limit(*case)) for case in sittings)


def test_equal_durations_give_the_portrait_of_rounds():
    sitting = sitting_of(3)
    decision = decided(sitting, np.ones(16))
    plain = sitting.portrait(sitting.random_order)
    assert decision.portrait.members.tolist() == plain.members.tolist()
    assert decision.portrait.weights == pytest.approx(plain.weights)


def test_a_payment_that_is_due_is_made_and_shared_by_the_slow():
    seconds = np.arange(1.0, 17.0)
    waits = np.zeros((16, MOST_UNITS), np.int32)
    waits[8:, 0] = 7  # of a patience of 8: the slow half has one round left
    decision = decided(sitting_of(5), seconds, waits)
    assert decision.due == 4
    assert set(decision.portrait.members.tolist()) <= set(range(8, 16))
    assert decision.portrait.weights.min() >= 1 / 4 - 1e-9


def test_no_candidate_is_expected_after_the_deadline_where_enough_are_before():
    seconds = np.arange(1.0, 17.0)
    assert duration_limits(seconds, 4, least=0.0, deadline=6.5).max() == 6.0
    assert duration_limits(seconds, 4, least=0.0, deadline=2.0).tolist() == [4.0]  # four places, however late


def feedback_of(cohort, ids, seconds):
    round = Round(0, None, np.arange(8), 4, Population([3] * 8), np.random.default_rng(0), clock=0.0)
    return Feedback(round, Cohort.uniform(cohort), np.array(ids), {}, durations=np.array(seconds))


def test_durations_move_half_way_and_who_is_silent_is_slow():
    learnt = observed_seconds(np.array([1.0, np.nan, 4.0, 2.0]), feedback_of([0, 1, 2, 3], [0, 1], [4.0, 9.0]))
    assert learnt == pytest.approx([2.0, 9.0, 9.0, 9.0])
    assert expected_seconds(np.array([1.0, 3.0, np.nan])).tolist() == [1.0, 3.0, 2.0]


def test_without_a_clock_nobody_is_asked_and_nothing_is_counted():
    world = Population([5] * 12, np.eye(4, dtype=int)[np.arange(12) % 4] * 5)
    registrar = Registrar(load("microcosm", estimate=False), world)
    turn = registrar.begin(np.arange(12), 3)
    assert turn.cohort is not None  # no question was put
    registrar.finish(turn, turn.cohort.ids)
    assert not registrar.state.waits.any()


def test_who_is_at_work_need_not_be_chosen_again():
    """Two labels, two places; a client of label 0 is at work, so the next is one of label 1."""
    counts = np.array([[10, 0]] * 4 + [[0, 10]] * 4)
    registrar = Registrar(
        load("microcosm", by="labels", estimate=False, seconds="ignored"), Population([10] * 8, counts)
    )
    first = registrar.begin(np.arange(4), 1)
    registrar.dispatch(first)
    at_work = first.cohort.ids
    second = registrar.begin(np.setdiff1d(np.arange(8), at_work), 1)
    assert second.cohort.ids[0] >= 4


def test_a_balanced_target_gives_rare_labels_their_weight():
    """Nine clients of label 0 and one of label 1: balanced, the one has half of the weight over time."""
    counts = np.array([[10, 0]] * 9 + [[0, 10]])
    weight = np.zeros(10)
    registrar = Registrar(
        load("microcosm", by="labels", estimate=False, target="balanced", forgetting=0.0), Population([10] * 10, counts)
    )
    for _ in range(60):
        turn = registrar.begin(np.arange(10), 3)
        weight[turn.cohort.ids] += turn.cohort.weights
        registrar.finish(turn, turn.cohort.ids)
    assert weight[9] / weight.sum() == pytest.approx(0.5, abs=0.03)
