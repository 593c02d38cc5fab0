"""The setting: what it means, what a stale update counts, and what is refused before anything runs."""

import math

import numpy as np
import pytest

from sortition.core import Cohort, InputError
from sortition.federation.pace import CohortPace, OpenSelection, Pace, Quantile
from sortition.federation.staleness import Staleness


def test_rounds_by_default():
    pace = CohortPace(10)
    assert not pace.settings.overlaps
    assert (pace.places, pace.deadline, pace.target(Cohort.uniform(range(8)))) == (10, math.inf, 8)
    assert pace.settings.changed() == {}


def test_a_quorum_is_a_share_or_a_number():
    cohort = Cohort.uniform(range(10))
    assert CohortPace(10, Pace(quorum=0.8)).target(cohort) == 8
    assert CohortPace(10, Pace(quorum=0.75)).target(cohort) == 8
    assert CohortPace(10, Pace(quorum=3)).target(cohort) == 3
    assert CohortPace(10, Pace(quorum=1)).target(cohort) == 1
    assert CohortPace(10, Pace(quorum=1.0)).target(cohort) == 10
    more = Cohort.uniform(range(15))
    assert CohortPace(10, Pace(overselect=1.5, quorum=0.5)).target(more) == 5


def test_one_answer_is_not_a_share_of_one():
    assert Pace(quorum=1).changed() == {"quorum": 1}
    assert Pace(quorum=1.0).changed() == {}
    assert Pace(quorum=1, late="use").overlaps


def test_places_of_a_buffered_pace():
    pace = CohortPace(10, Pace(kind="buffered", concurrency=20, buffer=5, refill=3))
    assert pace.places == 20
    assert pace.free_places(18) == 2
    assert [pace.refills(in_flight) for in_flight in (18, 17)] == [False, True]
    assert CohortPace(10, Pace(kind="buffered", buffer=5)).concurrency == 10


def test_when_a_buffered_step_is_due():
    fixed = CohortPace(10, Pace(kind="buffered", buffer=3))
    assert fixed.earliest_step(5.0, [1, 2], {1: 40.0}) == -math.inf
    for n_waiting, is_due in ((2, False), (3, True), (4, True)):
        assert fixed.is_buffered_step_due(n_waiting=n_waiting, clock=0.0, earliest_step=-math.inf) == is_due
    adaptive = CohortPace(10, Pace(kind="buffered", buffer="adaptive"))
    assert adaptive.earliest_step(5.0, [1, 2], {1: 40.0, 3: 90.0}) == 9.0  # 3 is not at work, 2 is not known
    assert adaptive.earliest_step(5.0, [2], {1: 40.0}) == 5.0
    for clock, n_waiting, is_due in ((8.9, 1, False), (9.0, 1, True), (9.0, 0, False)):
        assert adaptive.is_buffered_step_due(n_waiting=n_waiting, clock=clock, earliest_step=9.0) == is_due


@pytest.mark.parametrize(
    ("n_arrived", "n_at_work", "clock", "is_due"),
    [(1, 3, 0.0, False), (2, 2, 0.0, True), (1, 0, 0.0, True), (0, 4, 9.9, False), (0, 4, 10.0, True)],
)
@pytest.mark.parametrize("has_earlier_work_ended", [False, True])
def test_when_the_step_of_a_round_is_due(n_arrived, n_at_work, clock, is_due, has_earlier_work_ended):
    selection = OpenSelection(target=2, n_arrived=n_arrived, n_at_work=n_at_work, closes=10.0)
    assert selection.is_step_due(clock, has_earlier_work_ended=has_earlier_work_ended) == is_due


def test_the_step_of_an_empty_selection_waits_for_earlier_work():
    empty = OpenSelection(closes=10.0)
    assert not empty.is_step_due(20.0, has_earlier_work_ended=False)
    assert empty.is_step_due(0.0, has_earlier_work_ended=True)
    unneeded = OpenSelection(target=0, n_arrived=0, n_at_work=2)
    assert not unneeded.is_step_due(0.0, has_earlier_work_ended=True)  # at least one of its updates


def test_a_deadline_that_follows_the_clients():
    pace = CohortPace(10, Pace(deadline=Quantile(0.8)))
    assert pace.deadline_after([]) == math.inf
    assert pace.deadline_after([5.0, 1.0, 4.0, 2.0, 3.0]) == 4.0
    assert pace.deadline_after([1.0, 2.0, 3.0, math.inf, math.inf]) == math.inf  # too few answer


class TestStaleness:
    def test_rules(self):
        tau = np.array([0, 1, 3, 8])
        assert Staleness("constant").discounts(tau).tolist() == [1, 1, 1, 1]
        assert Staleness("polynomial").discounts(tau) == pytest.approx([1, 2**-0.5, 0.5, 1 / 3])
        assert Staleness("polynomial", exponent=1.0).discounts(tau) == pytest.approx([1, 0.5, 0.25, 1 / 9])
        assert Staleness("hinge", a=2.0, b=3.0).discounts(tau) == pytest.approx([1, 1, 1, 1 / 11])

    def test_saa_by_hand(self):
        """REFL's values: τ = 1 at Λmax and at half of it, τ = 4 at Λmax."""
        updates = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [1.0, 2**0.5], [1.0, -2.0]])
        weights = Staleness("saa").discounts(np.array([0, 0, 1, 1, 4]), updates)
        assert weights == pytest.approx([1, 1, 0.5462, 0.4627, 0.3512], abs=1e-4)

    def test_saa_of_an_update_like_the_fresh_ones(self):
        weights = Staleness("saa").discounts(np.array([0, 2]), np.ones((2, 3)))
        assert weights == pytest.approx([1, 0.65 / 3])

    def test_saa_without_anything_fresh(self):
        weights = Staleness("saa").discounts(np.array([1, 3]), np.eye(2))
        assert weights == pytest.approx([0.65 / 2, 0.65 / 4])
        zero = Staleness("saa").discounts(np.array([0, 1]), np.array([[0.0, 0.0], [1.0, 0.0]]))
        assert zero == pytest.approx([1, 0.65 / 2])

    def test_saa_falls_with_age_and_never_outweighs_a_fresh_update(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            updates = rng.normal(size=(6, 4)) * 10.0 ** rng.integers(-3, 4)
            tau = np.array([0, 0, *rng.integers(1, 9, 4)])
            weights = Staleness("saa").discounts(tau, updates)
            assert (weights[2:] < 0.5463).all()
            older = Staleness("saa").discounts(tau + (tau > 0), updates)
            assert (older[2:] < weights[2:]).all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "async"}, r"Unknown kind 'async'; pace has rounds, buffered\."),
        ({"kind": "buffered"}, r"pace\.buffer must be given where kind = 'buffered'"),
        ({"kind": "buffered", "buffer": 2, "quorum": 0.5}, r"pace\.quorum must be left out where kind = 'buffered'"),
        ({"kind": "buffered", "buffer": 2, "late": "use"}, r"pace\.late must be left out where kind = 'buffered'"),
        ({"kind": "buffered", "buffer": 2, "refill": "often"}, r"pace\.refill must be 'step', 'arrival' or"),
        ({"kind": "buffered", "buffer": 0}, r"pace\.buffer must be a whole number ≥ 1, or 'adaptive'; got 0"),
        ({"concurrency": 5}, r"pace\.concurrency must be left out where kind = 'rounds'; got 5\."),
        ({"staleness": "polynomial"}, r"pace\.staleness must be left out where late = 'drop'; got 'polynomial'\."),
        ({"max_staleness": 3}, r"pace\.max_staleness must be left out where late = 'drop'; got 3\."),
        ({"late": "use"}, r"pace\.late must be 'drop' where every answer is waited for"),
        ({"late": "keep"}, r"Unknown late 'keep'"),
        ({"quorum": 1.5}, r"pace\.quorum must be a share in \(0, 1\]"),
        ({"quorum": 0}, r"pace\.quorum must be a share in \(0, 1\]"),
        ({"quorum": True}, r"pace\.quorum must be a share in \(0, 1\]"),
        ({"deadline": 0}, r"pace\.deadline must be seconds > 0"),
        ({"deadline": {"quantile": 1.2}}, r"pace\.deadline\.quantile must be a share in \(0, 1\]; got 1\.2\."),
        ({"deadline": {"quantil": 0.5}}, r"Unknown key 'quantil'; pace\.deadline has quantile\."),
        ({"overselect": 0.5}, r"pace\.overselect must be finite and ≥ 1"),
        ({"late": "use", "quorum": 0.5, "staleness": "old"}, r"Unknown staleness 'old'"),
        ({"late": "use", "quorum": 0.5, "staleness": {"name": "saa", "beta": 2}}, r"pace\.staleness\.beta must be in"),
        ({"normalise": "sum"}, r"Unknown normalise 'sum'"),
        ({"slot": 0}, r"pace\.slot must be finite and > 0"),
        ({"quorums": 0.5}, r"Unknown key 'quorums'; Federation\.pace has .* Did you mean 'quorum'\?"),
    ],
)
def test_a_mistake_is_one_sentence(table, message):
    with pytest.raises(InputError, match=message):
        Pace.of(table, "Federation")


@pytest.mark.parametrize(
    ("pace", "minimum", "message"),
    [
        (Pace(quorum=11), 0, r"pace\.quorum must be at most the cohort, 10; got 11\."),
        (Pace(kind="buffered", buffer=11), 0, r"pace\.buffer must be at most the concurrency, 10; got 11\."),
        (Pace(kind="buffered", buffer=2, refill=11), 0, r"pace\.refill must be at most the concurrency, 10; got 11\."),
        (Pace(quorum=0.5), 6, r"Guards\.minimum must be at most 5, with which a step is made; got 6\."),
    ],
)
def test_what_does_not_fit_the_cohort(pace, minimum, message):
    with pytest.raises(InputError, match=message):
        CohortPace(10, pace).check("Federation", minimum)


def test_a_table_is_the_setting_and_the_setting_a_table():
    table = {
        "late": "use",
        "quorum": 0.8,
        "deadline": {"quantile": 0.9},
        "staleness": {"name": "polynomial", "exponent": 2.0},
        "max_staleness": 4,
    }
    assert Pace.of(table, "Federation").changed() == table
    assert Pace.of({**table, "staleness": "saa"}, "Federation").changed() == {**table, "staleness": "saa"}
    assert Pace.of(Pace.of(table, "x").changed(), "x") == Pace.of(table, "x")
