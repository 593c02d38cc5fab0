"""The two engines against torch's own SGD and against each other."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sortition.core.errors import InputError
from sortition.learning import Learner, LocalRule, build
from sortition.learning.batches import draw_batch_plans

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 12)).astype(np.float32)
Y = RNG.integers(0, 4, 120)
# unequal sizes: less than a batch, a partial last batch, whole batches
MEMBERS = [np.arange(0, 5), np.arange(5, 42), np.arange(42, 74), np.arange(74, 120)]
IDS = np.array([7, 2, 9, 4])

RULES = {
    "plain": LocalRule(lr=0.1, steps=7, batch=8),
    "epochs": LocalRule(lr=0.1, epochs=2, batch=8),
    "full-batch": LocalRule(lr=0.1, epochs=3, batch=None),
    "momentum": LocalRule(lr=0.05, epochs=2, batch=8, momentum=0.9),
    "decay": LocalRule(lr=0.1, epochs=2, batch=8, weight_decay=0.1),
    "proximal": LocalRule(lr=0.1, epochs=2, batch=8, proximal=0.5),
    "all": LocalRule(lr=0.05, epochs=2, batch=8, momentum=0.5, weight_decay=0.1, proximal=0.5),
    "adam": LocalRule(lr=0.01, epochs=2, batch=8, optimizer="adam"),
    "adam-all": LocalRule(lr=0.01, epochs=2, batch=8, optimizer="adam", weight_decay=0.1, proximal=0.5),
}


def learner_of(rule, engine="auto", seed=0, **options):
    return Learner(build("mlp", (12,), 4, seed=seed, hidden=(9, 6), **options), X, Y, rule, engine=engine)


def torchs(model, rule):
    """The optimiser of torch that a rule names."""
    if rule.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=rule.lr, weight_decay=rule.weight_decay)
    return torch.optim.SGD(model.parameters(), rule.lr, momentum=rule.momentum, weight_decay=rule.weight_decay)


def by_hand(model, rule, index, counts, params, optimiser=None):
    """Torch's own optimiser on one client, with the proximal term as a loss."""
    model = copy.deepcopy(model) if optimiser is None else model
    optimiser = optimiser or torchs(model, rule)
    start = [p.detach().clone() for p in model.parameters()]
    losses = []
    for row, count in zip(index, counts, strict=True):
        batch = row[:count]
        loss = nn.functional.cross_entropy(model(torch.from_numpy(X[batch])), torch.from_numpy(Y[batch]))
        losses.append(loss.item())
        near = sum(((p - s) ** 2).sum() for p, s in zip(model.parameters(), start, strict=True))
        optimiser.zero_grad()
        (loss + rule.proximal / 2 * near).backward()
        optimiser.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy() - params, np.mean(losses)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
@pytest.mark.parametrize("name", RULES)
def test_every_client_trains_as_torchs_sgd_would(name, engine):
    rule = RULES[name]
    learner = learner_of(rule, engine)
    trained = learner.train(learner.initial, MEMBERS, IDS, seed=3, t=0, dispersion=name == "plain")
    for i, plan in enumerate(draw_batch_plans(MEMBERS, IDS, rule, 3, 0)):
        delta, loss = by_hand(build("mlp", (12,), 4, hidden=(9, 6)), rule, plan.index, plan.counts, learner.initial)
        np.testing.assert_allclose(trained.deltas[i], delta, atol=2e-6)
        assert trained.losses[i] == pytest.approx(loss, rel=1e-5)
        assert trained.steps[i] == plan.steps


KEPT = {
    "momentum": LocalRule(lr=0.05, epochs=2, batch=8, momentum=0.9, weight_decay=0.1, keep_state=True),
    "adam": LocalRule(lr=0.01, epochs=2, batch=8, optimizer="adam", keep_state=True),
}


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
@pytest.mark.parametrize("name", KEPT)
def test_a_kept_state_is_that_of_one_optimiser_over_all_participations(name, engine):
    rule, rounds = KEPT[name], (0, 1, 4)
    learner, states = learner_of(rule, engine), None
    models = [build("mlp", (12,), 4, hidden=(9, 6)) for _ in IDS]
    optimisers = [torchs(model, rule) for model in models]
    for t in rounds:
        params = learner.initial * (1 + t)  # the server's model moves between participations
        trained = learner.train(params, MEMBERS, IDS, seed=3, t=t, states=states)
        states = trained.states
        for i, plan in enumerate(draw_batch_plans(MEMBERS, IDS, rule, 3, t)):
            torch.nn.utils.vector_to_parameters(torch.tensor(params), models[i].parameters())
            delta, _ = by_hand(models[i], rule, plan.index, plan.counts, params, optimisers[i])
            np.testing.assert_allclose(trained.deltas[i], delta, atol=2e-6)
    assert (
        np.abs(learner.train(params, MEMBERS, IDS, seed=3, t=t).deltas - trained.deltas).max() > 1e-4
    )  # anew: another


@pytest.mark.parametrize("name", RULES)
def test_stacked_equals_sequential_with_dropout(name):
    one, other = (learner_of(RULES[name], engine, dropout=0.4) for engine in ("stacked", "sequential"))
    a, b = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=5, dispersion=True) for learner in (one, other))
    np.testing.assert_allclose(a.deltas, b.deltas, atol=2e-6)
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-5)
    np.testing.assert_allclose(a.dispersion, b.dispersion, rtol=1e-4)


def test_dropout_changes_the_result_and_evaluation_is_without_it():
    dry, wet = learner_of(RULES["plain"]), learner_of(RULES["plain"], dropout=0.5)
    np.testing.assert_array_equal(dry.initial, wet.initial)
    a, b = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0) for learner in (dry, wet))
    assert np.abs(a.deltas - b.deltas).max() > 1e-3
    np.testing.assert_array_equal(
        dry.passes.losses_and_hits(dry.initial)[0], wet.passes.losses_and_hits(wet.initial)[0]
    )


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Sigmoid])
def test_other_activations_and_a_layer_without_bias(activation):
    model = nn.Sequential(nn.Linear(12, 5, bias=False), activation(), nn.Sequential(nn.Linear(5, 4)))
    a, b = (Learner(model, X, Y, RULES["momentum"], engine=e) for e in ("stacked", "sequential"))
    got, expected = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas for learner in (a, b))
    np.testing.assert_allclose(got, expected, atol=2e-6)


@pytest.mark.parametrize("pair", [(nn.Tanh, nn.Sigmoid), (nn.Sigmoid, nn.Tanh), (nn.ReLU, nn.Tanh), (nn.Tanh, nn.ReLU)])
def test_activations_that_follow_each_other(pair):
    model = nn.Sequential(nn.Linear(12, 5), *(activation() for activation in pair), nn.Linear(5, 4))
    a, b = (Learner(model, X, Y, RULES["plain"], engine=e) for e in ("stacked", "sequential"))
    got, expected = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas for learner in (a, b))
    np.testing.assert_allclose(got, expected, atol=2e-6)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
def test_a_client_does_not_depend_on_its_cohort(engine):
    learner = learner_of(RULES["epochs"], engine, dropout=0.5)
    together = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=3)
    for i in range(4):
        alone = learner.train(learner.initial, MEMBERS[i : i + 1], IDS[i : i + 1], seed=1, t=3)
        np.testing.assert_allclose(alone.deltas[0], together.deltas[i], atol=1e-6)


def test_a_cohort_too_large_for_one_stack_trains_in_several(monkeypatch):
    learner = learner_of(RULES["epochs"], dropout=0.5)
    whole = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=3, dispersion=True)
    monkeypatch.setattr("sortition.learning.client_stack.STACK_BYTES", 3 * 4 * learner.layout.size)
    parts = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=3, dispersion=True)
    np.testing.assert_allclose(parts.deltas, whole.deltas, atol=1e-6)
    np.testing.assert_allclose(parts.dispersion, whole.dispersion, rtol=1e-5)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
def test_dispersion_is_the_standard_deviation_of_the_step_gradients(engine):
    # A learning rate of almost 0 keeps the model still, so the gradients of the steps can be taken at the start.
    rule = LocalRule(lr=1e-12, steps=5, batch=8, weight_decay=0.3, proximal=0.2)
    learner = learner_of(rule, engine)
    got = learner.train(learner.initial, MEMBERS[1:2], IDS[1:2], seed=1, t=0, dispersion=True).dispersion[0]
    (plan,) = draw_batch_plans(MEMBERS[1:2], IDS[1:2], rule, 1, 0)
    g = np.stack(
        [learner.passes.gradient(learner.initial, row[:c]) for row, c in zip(plan.index, plan.counts, strict=True)]
    )
    assert got == pytest.approx(np.sqrt(((g - g.mean(0)) ** 2).sum() / 4), rel=1e-4)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
def test_root_mean_squares_of_losses_are_of_examples_under_the_model_that_they_met(engine):
    rule = LocalRule(lr=0.3, epochs=2, batch=8)
    learner = learner_of(rule, engine)
    got = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0, rms_losses=True)
    np.testing.assert_allclose(got.deltas, learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas, atol=1e-7)
    for i, plan in enumerate(draw_batch_plans(MEMBERS, IDS, rule, 1, 0)):
        params, each = learner.initial.copy(), []
        for row, count in zip(plan.index, plan.counts, strict=True):
            each.append(learner.passes.losses_and_hits(params, row[:count])[0])
            params = params - rule.lr * learner.passes.gradient(params, row[:count])
        parts = np.concatenate(each), np.concatenate(each[: len(each) // 2]), each[-1]
        expected = [np.sqrt(np.mean(np.square(part))) for part in parts]
        np.testing.assert_allclose(got.rms_losses[i], expected, rtol=1e-4)
    assert learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).rms_losses is None


@pytest.mark.parametrize("preset", ["fedcor", "mcmahan-mnist"])
def test_images_train_as_in_torch(preset):
    shape = (3, 20, 20)
    x = RNG.normal(size=(30, *shape)).astype(np.float32)
    y = RNG.integers(0, 4, 30)
    model = build("cnn", shape, 4, preset=preset)
    rule = LocalRule(lr=0.1, steps=3, batch=10, momentum=0.5)
    learner = Learner(model, x, y, rule)
    assert not learner.is_stacked
    got = learner.train(learner.initial, [np.arange(30)], np.array([0]), seed=0, t=0).deltas[0]
    (plan,) = draw_batch_plans([np.arange(30)], np.array([0]), rule, 0, 0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for row in plan.index:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(torch.from_numpy(x[row])), torch.from_numpy(y[row])).backward()
        optimiser.step()
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy() - learner.initial
    np.testing.assert_allclose(got, expected, atol=5e-6)


def test_other_random_layers_are_keyed_too_and_leave_torchs_generator_alone():
    model = nn.Sequential(nn.Linear(12, 6), nn.AlphaDropout(0.5), nn.Linear(6, 4))
    learner = Learner(model, X, Y, RULES["plain"])
    before = torch.get_rng_state()
    together = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=3)
    alone = learner.train(learner.initial, MEMBERS[2:3], IDS[2:3], seed=1, t=3)
    np.testing.assert_allclose(alone.deltas[0], together.deltas[2], atol=1e-6)
    assert torch.equal(before, torch.get_rng_state())


def test_idle_dropout_draws_nothing():
    model = nn.Sequential(nn.Linear(12, 6), nn.Dropout(0.0), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 4))
    a, b = (Learner(model, X, Y, RULES["plain"], engine=e) for e in ("stacked", "sequential"))
    got, expected = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas for learner in (a, b))
    np.testing.assert_allclose(got, expected, atol=2e-6)


def test_one_dropout_layer_in_two_places():
    drop = nn.Dropout(0.5)
    model = nn.Sequential(nn.Linear(12, 6), drop, nn.ReLU(), nn.Linear(6, 6), drop, nn.Linear(6, 4))
    a, b = (Learner(model, X, Y, RULES["plain"], engine=e) for e in ("stacked", "sequential"))
    got, expected = (learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas for learner in (a, b))
    np.testing.assert_allclose(got, expected, atol=2e-6)


def test_running_statistics_travel_with_the_model():
    model = nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    learner = Learner(model, X, Y, LocalRule(lr=0.1, steps=2, batch=30))
    assert learner.layout.size == learner.layout.weights + 10
    delta = learner.train(learner.initial, [np.arange(120)], np.array([0]), seed=0, t=0).deltas[0]
    assert np.abs(delta[learner.layout.weights :]).max() > 0
    assert (learner.passes.gradient(learner.initial, np.arange(9))[learner.layout.weights :] == 0).all()


def test_counters_begin_anew_with_every_client():
    model = nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5, momentum=None), nn.ReLU(), nn.Linear(5, 4))
    learner = Learner(model, X, Y, LocalRule(lr=0.1, steps=2, batch=3))
    together = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0).deltas
    alone = learner.train(learner.initial, MEMBERS[2:3], IDS[2:3], seed=1, t=0).deltas
    np.testing.assert_array_equal(together[2], alone[0])  # its running mean is by the number of batches seen


def twice(layer):
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(12, 4))


def tied():
    model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 4))
    model[2].weight = model[0].weight
    return model


def hooked():
    model = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 4))
    model[0].register_forward_hook(lambda module, given, out: 2 * out)
    return model


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: twice(nn.Linear(12, 12)), (12,)),
        (tied, (12,)),
        (hooked, (12,)),
        (lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)), (4, 3)),
    ],
    ids=["a layer twice", "tied weights", "a hook", "a layer over the last axis"],
)
def test_linear_layers_that_are_no_chain_train_as_in_torch(make, shape):
    torch.manual_seed(0)
    model, rule, x = make(), LocalRule(lr=0.1, steps=3, batch=8), X.reshape(-1, *shape)
    learner = Learner(model, x, Y, rule)
    got = learner.train(learner.initial, MEMBERS[1:2], IDS[1:2], seed=1, t=0).deltas[0]
    (plan,) = draw_batch_plans(MEMBERS[1:2], IDS[1:2], rule, 1, 0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for row, count in zip(plan.index, plan.counts, strict=True):
        optimiser.zero_grad()
        batch = row[:count]
        nn.functional.cross_entropy(model(torch.from_numpy(x[batch])), torch.from_numpy(Y[batch])).backward()
        optimiser.step()
    after = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    np.testing.assert_allclose(got, after - learner.initial, atol=2e-6)
    losses = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(Y), reduction="none")
    np.testing.assert_allclose(learner.passes.losses_and_hits(after)[0], losses.detach().numpy(), atol=1e-5)
    with pytest.raises(InputError, match="no chain of linear layers"):
        Learner(model, x, Y, rule, engine="stacked")


class TwoHeads(nn.Module):
    """Only one of its heads is read."""

    def __init__(self):
        super().__init__()
        self.spare, self.head = nn.Linear(12, 3), nn.Linear(12, 4)

    def forward(self, x):
        return self.head(x)


@pytest.mark.parametrize("name", ["plain", "all", "adam-all"])
def test_weights_that_nothing_depends_on_stay_as_they_are(name):
    learner, model = Learner(TwoHeads(), X, Y, RULES[name]), TwoHeads()
    torch.nn.utils.vector_to_parameters(torch.tensor(learner.initial), model.parameters())
    trained = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=0, dispersion=True)
    for i, plan in enumerate(draw_batch_plans(MEMBERS, IDS, RULES[name], 1, 0)):
        delta, _ = by_hand(model, RULES[name], plan.index, plan.counts, learner.initial)
        np.testing.assert_allclose(trained.deltas[i][39:], delta[39:], atol=2e-6)
    assert not trained.deltas[:, :39].any()
    assert not learner.passes.gradient(learner.initial, np.arange(9))[:39].any()


def test_forcing_and_refusing_engines():
    model = nn.Sequential(nn.Linear(12, 4), nn.Softplus(), nn.Linear(4, 4))
    with pytest.raises(InputError, match="engine must be 'auto', 'vmapped' or 'sequential'"):
        Learner(model, X, Y, RULES["plain"], engine="stacked")
    with pytest.raises(InputError, match="Did you mean 'stacked'"):
        Learner(model, X, Y, RULES["plain"], engine="stakced")
    with pytest.raises(InputError, match=r"device must be one of cpu.*; got 'abacus'"):
        Learner(model, X, Y, RULES["plain"], device="abacus")
