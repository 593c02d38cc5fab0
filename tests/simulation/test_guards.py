"""Guards in simulated rounds: absurd updates never reach the model, small cohorts move nothing, all is recorded."""

import json

import numpy as np
import pytest
from tests.helpers.playing import simulate
from tests.simulation.small import Scripted, world

from sortition.core import Guards
from sortition.core.signals import LOSS
from sortition.selectors import load
from sortition.simulation import FaultDraws, Faults, Setup, run, start

EVERYBODY = tuple(range(10))


class Crafted(FaultDraws):
    """Client 4 sends an update of a chosen length; client 7 a loss of NaN."""

    def __init__(self, inner, factor):
        super().__init__(Faults(), inner.n_clients, 0)
        self.factor = factor

    def updates(self, t, outcome):
        deltas = outcome.deltas.copy()
        deltas[outcome.ids == 4] *= self.factor
        return deltas

    def damage(self, t, reading):
        values = reading.values.copy()
        values[reading.ids == 7] = np.nan
        return type(reading)(reading.ids, values)


def setup(guards, selector, faults=None, cohort=10):
    inner = world()
    draws = None if faults is None else Crafted(inner, faults)
    return Setup(inner, selector, cohort, 5, guards=guards, faults=draws)


@pytest.mark.parametrize(("factor", "kept"), [(50.0, False), (1e6, False), (1e30, False), (np.nan, False), (2.0, True)])
def test_an_absurd_update_is_not_aggregated_and_the_others_carry_the_mass(factor, kept):
    simulation, (record,) = simulate(setup(Guards(norm=20), Scripted(cohort=EVERYBODY), faults=factor), 1)
    assert record["notes"].get("unsound_updates") == (None if kept else [4])
    assert simulation.registrar.strikes[4] == (0 if kept else 1)
    assert np.isfinite(simulation.params).all()
    if not kept:
        honest, _ = simulate(setup(Guards(), Scripted(cohort=tuple(k for k in EVERYBODY if k != 4)), cohort=9), 1)
        np.testing.assert_allclose(simulation.params, honest.params, atol=1e-6)


def test_without_the_guard_it_would_have_been():
    free, _ = simulate(setup(Guards(norm=0, bound=0), Scripted(cohort=EVERYBODY), faults=1e6), 1)
    assert np.abs(free.params).max() > 1e3


def test_an_unsound_update_leads_to_quarantine_and_both_are_recorded():
    guards = Guards(norm=20, strikes=1, quarantine=2)
    _, records = simulate(setup(guards, Scripted(cohort=EVERYBODY), faults=100.0), 4)
    assert [4 in record["cohort"] for record in records] == [True, False, False, True]
    assert [record["notes"].get("guards") for record in records] == [None, {"quarantined": 1}, {"quarantined": 1}, None]
    json.dumps(records)


def test_a_cohort_that_shrinks_below_the_minimum_moves_nothing():
    scripted = Scripted(cohort=(4, 1, 7), reported=(LOSS,))
    simulation, (record,) = simulate(setup(Guards(minimum=3, norm=20), scripted, faults=np.nan, cohort=3), 1)
    assert record["answered"] == [1, 7]  # they did complete
    assert record["notes"]["guards"] == {"too_few_completed": 2}
    np.testing.assert_array_equal(simulation.params, start(Setup(world(), scripted, 3, 2)).params)
    enough, (record,) = simulate(setup(Guards(minimum=2, norm=20), scripted, faults=np.nan, cohort=3), 1)
    assert "guards" not in record["notes"]
    assert (enough.params != simulation.params).any()


def test_too_few_eligible_skip_the_round():
    class Two:
        def at(self, t):
            return np.arange(10) < 2 + 8 * t

    setup = Setup(world(), load("uniform"), 3, 2, availability=Two(), guards=Guards(minimum=3))
    records = []
    run(setup, on_record=lambda _, record: records.append(record))
    assert [record["skipped"] for record in records] == [True, False]
    assert records[0]["notes"] == {"skipped": "too few eligible", "guards": {"too_few_eligible": 2}}


def test_explorers_stand_in_the_record_and_train():
    _, records = simulate(setup(Guards(explore=0.5), Scripted(cohort=(0, 1, 2, 3)), cohort=4), 5)
    for record in records:
        explorers = record["notes"]["guards"]["explored"]
        assert record["cohort"][-2:] == explorers
        assert sum(record["weights"]) == pytest.approx(1)


def test_a_minimum_above_the_cohort_is_refused_before_anything_runs():
    from sortition.core.errors import InputError

    with pytest.raises(InputError, match=r"Guards.minimum must be at most the cohort, 3; got 4"):
        Setup(world(), load("uniform"), 3, 2, guards=Guards(minimum=4))
