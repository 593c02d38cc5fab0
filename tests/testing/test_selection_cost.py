import tracemalloc

import pytest

from sortition.core import Cohort, Selector, method
from sortition.testing.selection_cost import selection_cost


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
