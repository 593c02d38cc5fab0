import tracemalloc

import pytest

from sortition.core import Cohort, Selector, method
from sortition.testing import selection_cost as module
from sortition.testing.selection_cost import selection_cost
from sortition.testing.violation import ContractError


@method
class Raises(Selector):
    """Fails while it is measured."""

    def select(self, state, round):
        raise RuntimeError("no choice")


@method
class First(Selector):
    """The first clients."""

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


def test_a_selector_that_raises_leaves_no_tracing_behind():
    with pytest.raises(RuntimeError, match="no choice"):
        selection_cost(Raises(), 50)
    assert not tracemalloc.is_tracing()


def test_the_cost_is_positive():
    seconds, peak = selection_cost(First(), 2000)
    assert seconds > 0
    assert peak > 1000


def measured(seconds):
    """A measurement that gives these seconds in turn, few clients before many."""
    left = iter(seconds)
    return lambda selector, n_clients: (next(left), 1000.0)


def test_one_measurement_on_a_busy_machine_does_not_condemn_a_method(monkeypatch):
    monkeypatch.setattr(module, "selection_cost", measured([0.01, 0.9, 0.01, 0.1]))
    module.scales(First)


def test_a_method_that_is_slow_in_every_measurement_is_refused(monkeypatch):
    monkeypatch.setattr(module, "selection_cost", measured([0.01, 0.9] * module.MEASUREMENTS))
    with pytest.raises(ContractError, match="90 × the time for 10 × the clients"):
        module.scales(First)
