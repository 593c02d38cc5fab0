import numpy as np
import pytest

from sortition.aggregation import ServerRule, StepRule
from sortition.core.errors import InputError

W = np.array([1.0, 2.0], np.float32)
D = np.array([0.5, -1.0], np.float32)


def test_plain_and_momentum_by_hand():
    new, _ = StepRule(lr=2.0).apply(W, D, {})
    np.testing.assert_allclose(new, [2.0, 0.0])
    rule = StepRule("momentum", momentum=0.5)
    one, state = rule.apply(W, D, rule.init(2))
    two, _ = rule.apply(one, D, state)  # v2 = 0.5·D + D = 1.5·D
    np.testing.assert_allclose(two, W + 2.5 * D)


def test_adam_by_hand():
    rule = StepRule("adam", lr=0.1, beta1=0.5, beta2=0.75, epsilon=0.1)
    new, state = rule.apply(W, D, rule.init(2))
    # first = D/2 = (.25, −.5); second = D²/4 = (.0625, .25), roots (.25, .5); steps .1·(.25/.35, −.5/.6)
    np.testing.assert_allclose(new, W + 0.1 * np.array([0.25 / 0.35, -0.5 / 0.6]), rtol=1e-6)
    np.testing.assert_allclose(state["second"], [0.0625, 0.25])
    assert new.dtype == np.float32
    np.testing.assert_array_equal(W, [1, 2])


def test_bad_step_rules_are_refused():
    with pytest.raises(InputError, match="Did you mean 'adam'"):
        StepRule("adm")
    with pytest.raises(InputError, match=r"StepRule.lr must be finite and > 0"):
        StepRule(lr=0.0)
    with pytest.raises(InputError, match=r"StepRule.beta1"):
        StepRule("adam", beta1=1.0)


@pytest.mark.parametrize("name", ["lr", "epsilon", "momentum", "beta1", "beta2"])
@pytest.mark.parametrize("value", ["0.1", None, [0.5], True], ids=str)
def test_parameters_that_are_no_numbers_are_refused(name, value):
    for rule in (StepRule, ServerRule):
        with pytest.raises(InputError, match=rf"StepRule\.{name} must be (finite and > 0|in \[0, 1\)); got"):
            rule("adam", **{name: value})
