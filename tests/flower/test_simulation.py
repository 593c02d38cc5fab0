"""Checks 1 and 2: Flower's simulation on Ray chooses as our simulator does, and twice the same."""

import numpy as np
import pytest
from tests.flower import federation
from tests.flower.processes import simulate

pytestmark = pytest.mark.flower
AGAIN = ["uniform", "fedcor", "divfl", "fedss-o"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    told, log = simulate("tests.flower.apps", tmp_path_factory.mktemp("simulation"))
    assert told is not None, log[-4000:]
    return told


@pytest.mark.parametrize("label", list(federation.methods()))
def test_the_same_cohorts_and_model_as_in_the_simulator(label, played):
    cohorts, params = federation.simulated(federation.methods()[label])
    assert played[label]["cohorts"] == cohorts
    np.testing.assert_allclose(played[label]["model"], params, atol=1e-6)
    varied = len({tuple(sorted(cohort)) for cohort in cohorts}) > 1
    assert varied or label in ("full", "divfl")  # DivFL's greedy cover stays; its drawn variant moves


def test_two_runs_with_one_seed_are_the_same_to_the_bit(played, tmp_path):
    again, log = simulate("tests.flower.apps", tmp_path / "again", *AGAIN)
    assert again is not None, log[-4000:]
    for label in AGAIN:
        assert again[label]["cohorts"] == played[label]["cohorts"]
        assert again[label]["hash"] == played[label]["hash"]
