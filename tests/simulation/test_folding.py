"""Large cohorts fold their updates into one sum: the same rounds as with all updates, in the memory of one block."""

import weakref

import numpy as np
import pytest
from tests.helpers.playing import simulate
from tests.simulation.small import Scripted, world

from sortition.aggregation import CombineRule
from sortition.core import Guards
from sortition.core.signals import LOSS, UPDATE
from sortition.learning import LocalRule
from sortition.simulation import FaultDraws, Faults, Setup, round_cache, start
from sortition.simulation.attacks import Attacks

EVERYBODY = tuple(range(10))


@pytest.fixture
def blocks_of_three(monkeypatch):
    monkeypatch.setattr(round_cache, "BLOCK_BYTES", 4 * 3 * world().initial.size)


def setup(inner=None, selector=None, **options):
    inner = inner or world()
    return Setup(inner, selector or Scripted(cohort=EVERYBODY, weights=tuple(np.arange(1, 11) / 55)), 10, 3, **options)


def alike(made):
    """Rounds with all updates at once and with blocks of three."""
    whole, expected = simulate(made(), 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(round_cache, "BLOCK_BYTES", 4 * 3 * whole.params.size)
        fresh = made()
        assert start(fresh)._folds(10)
        folded, found = simulate(fresh, 3)
    np.testing.assert_allclose(folded.params, whole.params, atol=1e-5)
    for one, other in zip(found, expected, strict=True):
        for volatile in ("test", "train_loss"):
            assert one.pop(volatile) == pytest.approx(other.pop(volatile), abs=1e-5)
        assert one == other
    return whole, expected


def test_rounds_are_those_of_a_cohort_that_trains_at_once():
    alike(setup)


def test_reports_of_all_blocks_arrive_in_the_order_of_the_cohort():
    Scripted.seen.clear()
    alike(lambda: setup(selector=Scripted(cohort=EVERYBODY[::-1], reported=(LOSS,))))
    feedback = [one for one in Scripted.seen if hasattr(one, "reports")]
    whole, folded = feedback[0].reports[LOSS.name], feedback[3].reports[LOSS.name]
    np.testing.assert_array_equal(folded.ids, whole.ids)
    np.testing.assert_allclose(folded.values, whole.values, atol=1e-6)


@pytest.mark.parametrize("faults", [Faults(), Faults(damaged=0.3), Faults(before=0.2, after=0.2)])
def test_refused_updates_leave_the_sum_and_the_others_carry_the_mass(faults):
    inner = world()
    lengths = np.linalg.norm(inner.train(inner.initial, np.array(EVERYBODY), [], 0).deltas, axis=1)

    def made():
        guards = Guards(norm=2, bound=float(np.median(lengths)))
        return setup(guards=guards, faults=FaultDraws(faults, inner.n_clients, 4))

    _, records = alike(made)
    assert any("unsound_updates" in record["notes"] for record in records)


def test_of_a_large_cohort_the_updates_of_one_block_are_alive(blocks_of_three):
    made, living, most = setup(), list[weakref.ref](), 0
    train_cohort = made.world.learner.train_cohort

    def counted(cohort):
        nonlocal most
        living.append(weakref.ref(cohort.trained.deltas))
        most = max(most, sum(len(one()) for one in living if one() is not None))
        return train_cohort(cohort)

    made.world.learner.train_cohort = counted
    simulation = start(made)
    simulation.play_round()
    assert most == 3
    assert len(living) == 4
    assert simulation.params.shape == made.world.initial.shape


def test_small_cohorts_are_not_folded(blocks_of_three):
    made = setup()
    assert not start(made)._folds(3)
    assert start(made)._folds(4)


@pytest.mark.parametrize(
    "options",
    [
        {"combine": CombineRule("median")},
        {"combine": CombineRule("mifa")},
        {"inner": {"attacks": Attacks("update")}},
        {"inner": {"rule": LocalRule(lr=0.1, epochs=1, momentum=0.5, keep_state=True)}},
        {"selector": Scripted(cohort=EVERYBODY, reported=(UPDATE,))},
    ],
    ids=["median", "memory", "attacks", "kept states", "reported"],
)
def test_where_single_updates_are_read_or_kept_they_are_not_folded(blocks_of_three, options):
    inner = world(**options.pop("inner", {}))
    made = setup(inner, **options)
    assert not start(made)._folds(10)
