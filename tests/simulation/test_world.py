import numpy as np
import pytest
from tests.simulation.small import RULE, SIZES, parts, world
from torch import nn

from sortition.core import signals
from sortition.core.cohort import Cohort
from sortition.core.errors import InputError
from sortition.core.questions import Measure
from sortition.core.signals import Signal
from sortition.learning import LocalRule, build
from sortition.simulation import Devices

ALL = np.arange(10)
PROBE = signals.make_probe(np.zeros(6), np.ones(6), samples=16)
TRAINING = [
    signals.UPDATE,
    signals.STEP_GRADIENT,
    signals.BIAS_UPDATE,
    signals.HEAD_UPDATE,
    signals.TRAINING_LOSS,
    signals.DISPERSION,
    *signals.RMS_LOSSES.values(),
    signals.DURATION,
    signals.UPDATE.sketch(7),
    PROBE,
]
MODEL = [signals.LOSS, signals.BATCH_LOSS, signals.ACCURACY, signals.GRADIENT]


def ask(small_world, signal, ids, t=3, params=None):
    return small_world.measure(small_world.initial if params is None else params, Measure(signal, np.array(ids)), t)


@pytest.mark.parametrize("signal", TRAINING, ids=lambda s: s.name)
def test_a_training_signal_of_others_is_what_they_would_have_reported(signal):
    asked = ask(world(), signal, [2, 5, 8])
    reported = world().train(world().initial, np.array([5, 9, 0]), [signal], 3).reports[signal.name]
    np.testing.assert_allclose(asked.values[1], reported.values[0], rtol=1e-4, atol=1e-6)
    assert np.abs(np.asarray(reported.values[0])).max() > 0


@pytest.mark.parametrize(
    "signal", [signals.LOSS, signals.ACCURACY, signals.GRADIENT, signals.UPDATE], ids=lambda s: s.name
)
@pytest.mark.parametrize("ids", [ALL, [7, 2], [3]], ids=str)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_batched_path_equals_the_open_one(signal, ids, dropout):
    alone = Signal("open", signal.of, lambda c, p: signal.compute(c, p), signal.scalar)  # another function: not known
    one, other = (world(model=build("mlp", (6,), 4, hidden=(5,), dropout=dropout)) for _ in range(2))
    np.testing.assert_allclose(ask(one, signal, ids).values, ask(other, alone, ids).values, rtol=1e-5, atol=1e-6)


def test_losses_and_gradients_are_those_of_the_clients_own_data():
    small_world, split = world(), parts()
    losses = ask(small_world, signals.LOSS, ALL).values
    for k in ALL:
        expected = small_world.learner.passes.losses_and_hits(small_world.initial, split[k])[0]
        assert losses[k] == pytest.approx(expected.mean(), rel=1e-5)
        right = small_world.learner.passes.losses_and_hits(small_world.initial, split[k])[1]
        assert ask(small_world, signals.ACCURACY, [k]).values[0] == pytest.approx(right.mean())
    # one step on all data moves the model by −η times the gradient (dropout off)
    still = world(LocalRule(lr=0.1, steps=1, batch=None), build("mlp", (6,), 4, hidden=(5,)))
    gradient = ask(still, signals.GRADIENT, [4]).values[0]
    np.testing.assert_allclose(ask(still, signals.UPDATE, [4]).values[0], -0.1 * gradient, atol=1e-6)


def test_batch_loss_is_of_one_batch_by_seed_round_and_client():
    small_world = world(LocalRule(lr=0.1, steps=1, batch=4))
    first = ask(small_world, signals.BATCH_LOSS, [4, 6]).values
    np.testing.assert_array_equal(first, ask(small_world, signals.BATCH_LOSS, [6, 4]).values[::-1])
    assert not np.array_equal(first, ask(small_world, signals.BATCH_LOSS, [4, 6], t=4).values)
    whole = ask(world(LocalRule(lr=0.1, steps=1, batch=1000)), signals.BATCH_LOSS, [4, 6]).values
    np.testing.assert_allclose(whole, ask(small_world, signals.LOSS, [4, 6]).values, rtol=1e-5)


def test_products_are_inner_products_of_label_counts():
    small_world = world()
    counts = small_world.label_counts[[2, 0, 5]]
    np.testing.assert_array_equal(ask(small_world, signals.PRODUCTS, [2, 0, 5]).values, counts @ counts.T)
    np.testing.assert_array_equal(small_world.label_counts.sum(1), SIZES)


def test_bias_update_without_a_bias_is_the_row_mean_of_the_weights():
    small_world = world(RULE, nn.Sequential(nn.Linear(6, 4, bias=False)))
    update = ask(small_world, signals.UPDATE, [3]).values[0].reshape(4, 6)
    np.testing.assert_allclose(ask(small_world, signals.BIAS_UPDATE, [3]).values[0], update.mean(1), rtol=1e-5)


def test_a_rehearsal_is_a_training_thrown_away_with_randomness_of_its_own():
    small_world = world()
    cohort = Cohort(np.array([1, 6]), np.array([0.25, 0.75]))
    after = small_world.measure(small_world.initial, Measure(signals.LOSS, ALL, cohort), 3).values
    deltas = small_world.learner.train(
        small_world.initial, [parts()[1], parts()[6]], cohort.ids, seed=0, t=3, purpose="rehearsal"
    ).deltas
    trial = small_world.initial + np.float32([0.25, 0.75]) @ deltas
    np.testing.assert_allclose(after, ask(small_world, signals.LOSS, ALL, params=trial).values, rtol=1e-5)
    real = small_world.train(small_world.initial, cohort.ids, [], 3).deltas
    assert not np.allclose(real, deltas, atol=1e-4)


def test_losses_on_the_hold_out_where_asked():
    held = [p[: len(p) // 3] for p in parts()]  # client 0 has one, nobody has none
    kept = [p[len(p) // 3 :] for p in parts()]
    held[5] = held[5][:0]
    on = world(clients=kept, holdout=held, measured_on="holdout")
    off = world(clients=kept, holdout=held)
    for small_world, shares in ((on, held), (off, kept)):
        got = ask(small_world, signals.LOSS, [4]).values[0]
        assert got == pytest.approx(
            small_world.learner.passes.losses_and_hits(small_world.initial, shares[4])[0].mean(), rel=1e-5
        )
    np.testing.assert_allclose(ask(on, signals.LOSS, [5]).values, ask(off, signals.LOSS, [5]).values, rtol=1e-6)
    accuracy = off.evaluator.client_scores(off.initial)
    assert accuracy[4] == pytest.approx(off.learner.passes.losses_and_hits(off.initial, held[4])[1].mean())


def test_results_do_not_depend_on_the_size_of_blocks(monkeypatch):
    whole = ask(world(), PROBE, ALL).values
    monkeypatch.setattr("sortition.simulation.round_cache.BLOCK_BYTES", 3 * 4 * world().initial.size)
    monkeypatch.setattr("sortition.simulation.round_cache.KEPT_BYTES", 0)
    np.testing.assert_allclose(ask(world(), PROBE, ALL).values, whole, rtol=1e-5, atol=1e-6)


def test_asking_twice_trains_once(monkeypatch):
    small_world, calls = world(), []
    learner = small_world.learner
    train = learner.train_cohort
    monkeypatch.setattr(learner, "train_cohort", lambda cohort: calls.append(len(cohort.plans)) or train(cohort))
    ask(small_world, signals.UPDATE, [1, 2, 3])
    ask(small_world, signals.BIAS_UPDATE, [2, 3])
    small_world.train(small_world.initial, np.array([3, 4]), [signals.TRAINING_LOSS], 3)
    assert calls == [3, 1]


def test_reports_of_a_large_cohort_do_not_train_it_again(monkeypatch):
    monkeypatch.setattr("sortition.simulation.round_cache.BLOCK_BYTES", 1)
    monkeypatch.setattr("sortition.simulation.round_cache.KEPT_BYTES", 0)
    small_world, calls = world(), []
    learner = small_world.learner
    train = learner.train_cohort
    monkeypatch.setattr(learner, "train_cohort", lambda cohort: calls.append(len(cohort.plans)) or train(cohort))
    small_world.train(small_world.initial, np.array([1, 2, 3]), [signals.TRAINING_LOSS, signals.BIAS_UPDATE], 3)
    assert calls == [3]


def test_a_hundred_thousand_clients_cost_nothing_until_asked():
    rng = np.random.default_rng(0)
    small_world = world(clients=rng.integers(0, sum(SIZES), (100_000, 3)), devices=Devices(speed_spread=0.5))
    outcome = small_world.train(small_world.initial, np.array([99_999, 5]), [signals.LOSS], 0)
    assert outcome.deltas.shape == (2, small_world.initial.size)
    assert small_world.population().sizes.shape == (100_000,)


def test_variants_share_the_data():
    small_world = world()
    proximal = small_world.variant(LocalRule(lr=0.1, epochs=2, batch=8, proximal=5.0), Devices(speed=1.0))
    assert proximal.learner is small_world.learner
    a, b = (w.train(w.initial, np.array([4]), [], 0) for w in (small_world, proximal))
    assert np.linalg.norm(b.deltas) < np.linalg.norm(a.deltas)
    assert b.durations[0] == pytest.approx(1000 * a.durations[0])


def test_bad_worlds_are_refused():
    with pytest.raises(InputError, match=r"World.clients must be ≥ 1 training example each; got client 1 with none"):
        world(clients=[[0], [], [1]])
    with pytest.raises(InputError, match=r"World.clients must be indices of the 144 examples"):
        world(clients=[[0], [144]])
    with pytest.raises(InputError, match="Did you mean 'holdout'"):
        world(measured_on="hold-out")
    with pytest.raises(InputError, match=r"World.holdout must be given"):
        world(measured_on="holdout")
    with pytest.raises(InputError, match=r"World.holdout must be one index array per client"):
        world(holdout=[[1]])
    normed = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
    world(LocalRule(lr=0.1, epochs=1, batch=None), normed)
    with pytest.raises(InputError, match="a batch of one at client 2 with 9 examples"):
        world(LocalRule(lr=0.1, epochs=1, batch=8), normed)
    with pytest.raises(InputError, match="a batch of one at client 2 with 9 examples"):
        world(LocalRule(lr=0.1, steps=2, batch=8), normed)
    world(LocalRule(lr=0.1, steps=1, batch=8), normed)  # which never comes to the end of such an epoch
    with pytest.raises(InputError, match="model must be a module that gives 4 logits for each example"):
        world(model=nn.Linear(6, 3))
