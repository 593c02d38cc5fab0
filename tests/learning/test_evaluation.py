"""Passes without training, held against torch."""

import numpy as np
import pytest
import torch
from torch import nn

from sortition.learning import Learner, LocalRule, build
from sortition.learning.evaluation import gradient_factors
from sortition.learning.objective import Objective
from sortition.learning.task import TaskRule

RNG = np.random.default_rng(0)
RULE = LocalRule(lr=0.1, steps=1)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
def test_losses_hits_and_gradient_are_torchs(engine):
    x, y = RNG.normal(size=(2500, 1, 4, 3)).astype(np.float32), RNG.integers(0, 4, 2500)
    model = build("mlp", (1, 4, 3), 4, hidden=(5,))
    learner = Learner(model, x, y, RULE, engine=engine)
    index = RNG.permutation(2500)[:1300]
    logits = model(torch.from_numpy(x))
    expected = nn.functional.cross_entropy(logits, torch.from_numpy(y), reduction="none").detach().numpy()
    losses, hits = learner.passes.losses_and_hits(learner.initial)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(hits, logits.argmax(1).numpy() == y)
    np.testing.assert_allclose(learner.passes.losses_and_hits(learner.initial, index)[0], expected[index], rtol=1e-5)
    np.testing.assert_allclose(learner.passes.outputs(learner.initial, x), logits.detach().numpy(), atol=1e-6)
    mean = nn.functional.cross_entropy(model(torch.from_numpy(x[index])), torch.from_numpy(y[index]))
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(mean, list(model.parameters()))])
    np.testing.assert_allclose(learner.passes.gradient(learner.initial, index), gradient.numpy(), atol=1e-6)


def test_passes_over_the_test_set_share_the_model():
    x, y = RNG.normal(size=(8, 3, 16, 16)).astype(np.float32), RNG.integers(0, 4, 8)
    learner = Learner(build("cnn", (3, 16, 16), 4, preset="mcmahan-mnist"), x, y, RULE)
    other = learner.passes_over(x[4:], y[4:])
    np.testing.assert_allclose(
        other.losses_and_hits(learner.initial)[0], learner.passes.losses_and_hits(learner.initial)[0][4:], rtol=1e-5
    )


@pytest.mark.parametrize("numbers", [1, 1 << 30])
def test_losses_do_not_depend_on_how_many_examples_pass_at_once(numbers, monkeypatch):
    x, y = RNG.integers(0, 256, (300, 1, 4, 3), dtype=np.uint8), RNG.integers(0, 4, 300)
    learner = Learner(build("mlp", (1, 4, 3), 4, hidden=(5,)), x, y, RULE, white=255)
    index = RNG.permutation(300)[:290]
    logits = learner.passes.outputs(learner.initial, x[index] / np.float32(255))
    expected = nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(y[index]), reduction="none")
    monkeypatch.setattr("sortition.learning.evaluation.CACHED_NUMBERS", numbers)
    losses, hits = learner.passes.losses_and_hits(learner.initial, index)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert hits.tolist() == (logits.argmax(1) == y[index]).tolist()


MODELS = {
    "softmax": lambda: build("softmax", (1, 4, 3), 4),
    "no bias": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 5, bias=False), nn.Tanh(), nn.Linear(5, 4)),
    "dropout": lambda: build("mlp", (1, 4, 3), 4, hidden=(5,), dropout=0.5),
    "cnn": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(4, 4)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [7, 1024])
def test_gradients_of_several_sets_are_those_of_each(name, chunk, monkeypatch):
    monkeypatch.setattr("sortition.learning.evaluation.CHUNK", chunk)
    x, y = RNG.normal(size=(60, 1, 4, 3)).astype(np.float32), RNG.integers(0, 4, 60)
    learner = Learner(MODELS[name](), x, y, RULE)
    assert (learner.passes.layers is None) == (name == "cnn")
    parts = [RNG.permutation(60)[:n] for n in (1, 9, 20, 3)]
    each = np.stack([learner.passes.gradient(learner.initial, part) for part in parts])
    together = learner.passes.gradients(learner.initial, parts)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, each, atol=1e-6)
    np.testing.assert_allclose(learner.passes.gradients(learner.initial, parts[2:])[0], each[2], atol=1e-6)


CHAINS = {
    "softmax": nn.Sequential(nn.Linear(6, 4)),
    "relu, dropout": nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 4)),
    "tanh, no bias": nn.Sequential(
        nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3), nn.Sigmoid(), nn.Linear(3, 4)
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("rows", [slice(0, 1), slice(2, 9), slice(0, 12)], ids=str)
def test_the_product_over_rows_is_the_gradient_of_their_losses(name, rows):
    model = CHAINS[name].eval()
    x, y = torch.randn(12, 6, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4
    parameters = list(model.parameters())
    expected = torch.autograd.grad(nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="sum"), parameters)
    with torch.inference_mode():
        pairs = gradient_factors(list(model), [p.detach() for p in parameters], x, y)
    for (g, h), gradient in zip(pairs, expected, strict=True):
        torch.testing.assert_close((g[rows].t() @ h[rows]).reshape(gradient.shape), gradient)


def test_linear_layers_with_dropout_pass_without_their_modules(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 12)).astype(np.float32), rng.integers(0, 4, 300)
    learner = Learner(build("mlp", (12,), 4, hidden=(9, 6), dropout=0.5), x, y, RULE)
    learner.model.eval()
    with torch.no_grad():
        logits = learner.model(torch.from_numpy(x))
    monkeypatch.setattr(learner.model, "forward", None)  # never called
    losses, hits = learner.passes.losses_and_hits(learner.initial)
    np.testing.assert_array_equal(hits, (logits.argmax(1) == torch.from_numpy(y)).numpy())
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y), reduction="none")
    np.testing.assert_allclose(losses, expected.numpy(), atol=1e-6)


def test_linear_layers_of_another_task_pass_without_their_modules(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 12)).astype(np.float32), rng.normal(size=(300, 4)).astype(np.float32)
    objective = Objective(TaskRule(loss="mse"))
    learner = Learner(build("mlp", (12,), 4, hidden=(9,), dropout=0.5), x, y, RULE, objective=objective)
    learner.model.eval()
    with torch.no_grad():
        outputs = learner.model(torch.from_numpy(x))
    monkeypatch.setattr(learner.model, "forward", None)  # never called
    judged = learner.passes.judge(learner.initial)
    np.testing.assert_allclose(judged.outputs.numpy(), outputs.numpy(), atol=1e-6)
    np.testing.assert_allclose(judged.losses, ((outputs.numpy() - y) ** 2).mean(1), atol=1e-5)
