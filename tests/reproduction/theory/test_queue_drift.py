import numpy as np
import pytest

from sortition.reproduction.theory.queue_drift import QueueState, check_queue_drift
from sortition.selectors.longfed import LongFed


def literal_drift(state, cohort):
    """Eqs. 13, 16, 17 and 21, client by client: the drift and the term that a choice can lower."""
    drift = term = 0.0
    for i, k in enumerate(state.reference):
        y = (i in cohort) - (k in cohort) - state.delta
        z = (k in cohort) - (i in cohort) - state.delta
        drift += max(state.z[i] + y, 0) ** 2 + max(state.q[i] + z, 0) ** 2 - state.z[i] ** 2 - state.q[i] ** 2
        term += 2 * (state.z[i] * y + state.q[i] * z)
    return drift, term


@pytest.mark.parametrize("seed", range(5))
def test_drift_and_term_are_those_of_the_paper_and_the_bound_holds(seed):
    rng = np.random.default_rng(seed)
    state = QueueState(4 * rng.random(9), 4 * rng.random(9), rng.integers(0, 9, 9), delta=0.1)
    cohort = rng.choice(9, 3, replace=False)
    drift, term = literal_drift(state, set(cohort.tolist()))
    assert state.drift(cohort) == pytest.approx(drift)
    assert state.term(cohort) == pytest.approx(term)
    assert drift <= term + state.constant


def test_the_bound_is_reached_up_to_the_clients_that_nobody_moves():
    """With empty queues and δ = 0 the drift is one for each client whose x_i differs from its reference's."""
    state = QueueState(np.zeros(4), np.zeros(4), np.array([1, 0, 3, 2]), delta=0.0)
    assert state.drift(np.array([0])) == 2
    assert state.term(np.array([0])) == 0
    assert state.constant == 8


def test_what_the_choice_weighs_keeps_the_queues_short():
    fair = check_queue_drift(LongFed(trade_off=2.0), 40, budget=4)
    careless = check_queue_drift(LongFed(trade_off=0.0), 40, budget=4)
    assert fair.largest_ratio <= 1
    assert careless.largest_ratio <= 1
    assert fair.drift < fair.random_drift
    assert fair.drift < careless.drift
    assert fair.rank_correlation > 0.5
