from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from sortition.core import Cohort, InputError, Population, Round, UndeclaredError
from sortition.core.cohort import check_cohort, count_with_standby, make_unchecked_cohort


def make_round(available, budget=2, population=None):
    return Round(0, None, np.asarray(available), budget, population or Population([1, 2, 3]), np.random.default_rng(0))


def test_a_population_shows_only_what_was_declared():
    population = Population([3, 4], [[1, 2], [4, 0]])
    view = population.disclose(["sizes"], "Mine")
    assert view.sizes.tolist() == [3, 4]
    with pytest.raises(UndeclaredError, match=r"Mine read population\.label_counts"):
        _ = view.label_counts
    with pytest.raises(ValueError, match="read-only"):
        view.sizes[0] = 9


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"sizes": [1, -2]}, r"Population\.sizes must be ≥ 0; got -2\."),
        ({"sizes": [1.0, np.nan]}, r"Population\.sizes must be finite"),
        ({"sizes": [[1, 2]]}, r"Population\.sizes must be of shape"),
        ({"sizes": [1, 2], "label_counts": [[1, 2]]}, r"Population\.label_counts must be of shape \(2, …\)"),
        ({"sizes": [1, 2], "groups": [0.5, 1.0]}, r"Population\.groups must be whole numbers"),
        ({"sizes": ["a", "b"]}, r"Population\.sizes must be numbers"),
        ({"sizes": [1, 2], "known_ids": [5]}, r"Population\.known_ids must be ids below 2; got 5"),
        ({}, r"Population must be of at least one client"),
    ],
)
def test_bad_facts_are_named(facts, sentence):
    with pytest.raises(InputError, match=sentence):
        Population(**facts)


def test_facts_of_unknown_clients_are_not_looked_at():
    population = Population([1.0, np.nan], known_ids=[0])
    assert population.known_ids.tolist() == [0]
    assert not population.knows(np.array([0, 1]))


def test_a_missing_fact_is_asked_for_by_name():
    with pytest.raises(InputError, match=r"population\.sizes must be given"):
        _ = Population(n_clients=3).sizes


def test_available_ids_are_sorted_and_read_only():
    round = make_round([2, 0])
    assert round.available.tolist() == [0, 2]
    assert round.places == 2
    assert round.n_clients == 3
    with pytest.raises(ValueError, match="read-only"):
        round.available[0] = 1


@pytest.mark.parametrize(
    ("available", "budget", "sentence"),
    [
        ([0, 0], 1, "available must be distinct; got client 0 twice"),
        ([0, -1], 1, "available must be ≥ 0; got -1"),
        ([0.5], 1, "one-dimensional array of whole client ids"),
        ([0], 0, r"budget must be a whole number ≥ 1; got 0"),
        ([0], 1.5, "budget must be a whole number"),
    ],
)
def test_bad_rounds_are_refused(available, budget, sentence):
    with pytest.raises(InputError, match=sentence):
        make_round(available, budget)


def test_node_ids_beyond_int64_are_refused_rather_than_rounded():
    with pytest.raises(InputError, match="dense ids"):
        make_round(np.array([2**63 + 1], dtype=np.uint64))


def test_cohort_weights_by_name():
    assert Cohort.uniform([4, 2]).weights.tolist() == [0.5, 0.5]
    assert Cohort.by_size([0, 2], np.array([1, 50, 3])).weights.tolist() == [0.25, 0.75]
    assert Cohort.by_size([0, 1], np.array([0, 0])).weights.tolist() == [0.5, 0.5]
    drawn = Cohort.drawn([3, 1, 3, 3])
    assert drawn.ids.tolist() == [1, 3]
    assert drawn.weights.tolist() == [0.25, 0.75]
    assert Cohort.uniform([]).ids.size == 0


@pytest.mark.parametrize(
    ("ids", "weights", "sentence"),
    [
        ([1, 1], [0.5, 0.5], "ids must be distinct"),
        ([1, 2], [0.5], "weights must be one per member"),
        ([1, 2], [0.5, -0.5], "weights must be finite and ≥ 0"),
        ([1, 2], [0.5, np.inf], "weights must be finite and ≥ 0"),
    ],
)
def test_bad_cohorts_are_refused(ids, weights, sentence):
    with pytest.raises(InputError, match=sentence):
        Cohort(np.array(ids), np.array(weights))


def test_groups_must_fit():
    with pytest.raises(InputError, match="groups must be one whole number per member"):
        Cohort(np.array([1, 2]), np.array([0.5, 0.5]), groups=np.array([1]))


class TestWeightsOfThoseWhoAnswered:
    def test_total_mass_is_kept(self):
        weights, notes = Cohort.uniform([5, 3, 8, 1]).weights_of(np.array([8, 5]))
        assert weights == pytest.approx([0.5, 0.5])
        assert notes == {}

    def test_all_answering_changes_nothing_in_their_order(self):
        cohort = Cohort(np.array([5, 3]), np.array([0.2, 0.7]))
        assert cohort.weights_of(np.array([3, 5]))[0].tolist() == [0.7, 0.2]

    def test_a_stratum_keeps_its_mass(self):
        # strata 0: clients 1, 2 (mass 0.6), 1: clients 3, 4 (mass 0.4); client 2 is silent
        cohort = Cohort(np.array([1, 2, 3, 4]), np.array([0.3, 0.3, 0.1, 0.3]), groups=np.array([0, 0, 1, 1]))
        weights, notes = cohort.weights_of(np.array([1, 3, 4]))
        assert weights == pytest.approx([0.6, 0.1, 0.3])
        assert notes == {}

    def test_a_silent_stratum_gives_its_mass_in_proportion(self):
        cohort = Cohort(np.array([1, 2, 3]), np.array([0.5, 0.3, 0.2]), groups=np.array([0, 1, 2]))
        weights, notes = cohort.weights_of(np.array([2, 3]))
        assert weights == pytest.approx([0.6, 0.4])
        assert notes == {"silent_groups": [0]}

    @pytest.mark.parametrize("groups", [None, [0, 0, 0]])
    def test_weights_next_to_nothing_carry_the_mass_of_those_who_fell_silent(self, groups):
        cohort = Cohort(np.array([1, 2, 3]), np.array([2.0, 1e-310, 3e-310]), groups=groups)
        assert cohort.weights_of(np.array([2, 3]))[0] == pytest.approx([0.5, 1.5])

    def test_mass_that_is_one_in_expectation_is_never_rescaled(self):
        cohort = Cohort(np.array([1, 2, 3]), np.array([2.5, 0.3, 0.2]), groups=np.array([0, 1, 1]), mass="expected")
        weights, notes = cohort.weights_of(np.array([3, 2]))
        assert weights.tolist() == [0.2, 0.3]
        assert notes == {}
        with pytest.raises(InputError, match=r"Cohort.mass must be 'one' or 'expected'; got 'two'"):
            Cohort(np.array([1]), np.array([1.0]), mass="two")

    def test_nobody(self):
        assert Cohort.uniform([1]).weights_of(np.array([], dtype=np.int64))[0].size == 0

    @pytest.mark.parametrize(("members", "answered", "who"), [([1, 2], [0], 0), ([2, 1], [1, 5], 5), ([], [3], 3)])
    def test_who_is_no_member_has_no_weight(self, members, answered, who):
        cohort = Cohort.uniform(np.array(members, np.int64))
        with pytest.raises(InputError, match=rf"weights_of\(answered\) must be members .* got client {who}"):
            cohort.weights_of(np.array(answered))

    def test_nobody_answers_twice(self):
        with pytest.raises(InputError, match=r"weights_of\(answered\) must be distinct"):
            Cohort.uniform([1, 2]).weights_of([1, 1])


def test_a_random_size_is_bounded_in_expectation():
    ids = np.arange(5)
    drawn = Cohort(ids, np.full(5, 0.4), mass="expected", expected_size=2.0)
    assert check_cohort(drawn, make_round(np.arange(8), 2), "Mine") is drawn  # five, where two are expected
    with pytest.raises(InputError, match=r"Mine's cohort must be at most 2 clients; got 2\.5 in expectation"):
        check_cohort(Cohort(ids[:1], np.ones(1), expected_size=2.5), make_round(np.arange(8), 2), "Mine")
    with pytest.raises(InputError, match=r"Cohort.expected_size must be finite and ≥ 0, or None; got nan"):
        Cohort(ids, np.ones(5), expected_size=float("nan"))


def test_a_budget_beyond_all_clients_on_earth_is_refused():
    with pytest.raises(InputError, match=r"Round\.budget must be at most 10,000,000; got 1099511627776\."):
        Round(0, None, np.arange(3), 2**40, Population(np.ones(3)), np.random.default_rng(0))


@pytest.mark.parametrize(("cohort", "overselect", "begin"), [(10, 1.0, 10), (10, 1.3, 13), (50, 1.1, 55), (7, 1.3, 10)])
def test_standby_is_rounded_up_from_the_true_product(cohort, overselect, begin):
    assert count_with_standby(cohort, overselect) == begin


def test_an_unchecked_cohort_is_what_the_constructor_makes_of_the_same():
    ids = np.array([4, 1])
    weights = np.array([0.25, 0.75])
    checked = Cohort(ids, weights, mass="expected")
    unchecked = make_unchecked_cohort(ids, weights, mass="expected")
    for field in fields(Cohort):
        np.testing.assert_equal(getattr(unchecked, field.name), getattr(checked, field.name))
