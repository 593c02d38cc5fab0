import numpy as np
import pytest

from sortition.aggregation import CombineRule, StepRule, weighted_sum
from sortition.aggregation.combine import RULES
from sortition.core.errors import InputError

UPDATES = np.array([[1, 2], [3, 4]], np.float32)


def test_the_mean_is_the_sum_weighted_as_the_cohort_says():
    rule = CombineRule()
    update, memory = rule.apply(np.array([7, 3]), np.array([0.25, 0.5]), UPDATES, rule.init(2))
    np.testing.assert_allclose(update, [1.75, 2.5])
    assert memory is None


def test_updates_keep_their_precision():
    for kind in (np.float32, np.float64):
        assert weighted_sum(np.array([0.25, 0.5]), UPDATES.astype(kind)).dtype == kind
    np.testing.assert_array_equal(weighted_sum(np.empty(0), np.empty((0, 2), np.float32)), [0, 0])


@pytest.mark.parametrize("name", RULES)
def test_updates_of_whole_numbers_count_as_floats(name):
    rule, whole, weights = CombineRule(name), np.array([[2, 5], [4, 8]]), np.array([0.5, 0.5])
    found, _ = rule.apply(np.arange(2), weights, whole, rule.init(2, 2), clients=2)
    expected, _ = rule.apply(np.arange(2), weights, whole.astype(float), rule.init(2, 2), clients=2)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(weighted_sum(weights, whole), [3, 6.5])


@pytest.mark.parametrize("kind", [complex, object, bool])
def test_updates_that_are_no_real_numbers_are_refused(kind):
    with pytest.raises(InputError, match="combine must be given updates of real numbers; got"):
        CombineRule().apply(np.arange(2), np.array([0.5, 0.5]), UPDATES.astype(kind))


def test_combine_and_step_make_a_loop_of_ones_own():
    combine, step = CombineRule(), StepRule("momentum", momentum=0.5)
    model, memory, state = np.zeros(2, np.float32), combine.init(2), step.init(2)
    for _ in range(2):
        update, memory = combine.apply(np.array([0, 1]), np.array([0.5, 0.5]), UPDATES, memory)
        model, state = step.apply(model, update, state)
    np.testing.assert_allclose(model, 2.5 * np.array([2, 3]))  # v = Δ, then 1.5 Δ


def test_unknown_rules_and_shapes_that_do_not_belong_together_are_refused():
    with pytest.raises(InputError, match="Did you mean 'mean'"):
        CombineRule("meen")
    with pytest.raises(InputError, match=r"combine must be given ids \(k,\), weights \(k,\) and updates \(k, P\)"):
        CombineRule().apply(np.array([1]), np.array([0.5, 0.5]), UPDATES)
