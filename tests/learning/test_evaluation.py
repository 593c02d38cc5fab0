import numpy as np
import pytest
import torch
from torch import nn

from sortition.learning import Learner, LocalRule, build

RNG = np.random.default_rng(0)
RULE = LocalRule(lr=0.1, steps=1)


@pytest.mark.parametrize("engine", ["stacked", "sequential"])
def test_losses_hits_and_gradient_are_torchs(engine):
    x, y = RNG.normal(size=(2500, 1, 4, 3)).astype(np.float32), RNG.integers(0, 4, 2500)
    model = build("mlp", (1, 4, 3), 4, hidden=(5,))
    own = Learner(model, x, y, RULE, engine=engine)
    index = RNG.permutation(2500)[:1300]
    logits = model(torch.from_numpy(x))
    expected = nn.functional.cross_entropy(logits, torch.from_numpy(y), reduction="none").detach().numpy()
    losses, hits = own.passes.losses(own.initial)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(hits, logits.argmax(1).numpy() == y)
    np.testing.assert_allclose(own.passes.losses(own.initial, index)[0], expected[index], rtol=1e-5)
    np.testing.assert_allclose(own.passes.outputs(own.initial, x), logits.detach().numpy(), atol=1e-6)
    mean = nn.functional.cross_entropy(model(torch.from_numpy(x[index])), torch.from_numpy(y[index]))
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(mean, list(model.parameters()))])
    np.testing.assert_allclose(own.passes.gradient(own.initial, index), gradient.numpy(), atol=1e-6)


def test_passes_over_the_test_set_share_the_model():
    x, y = RNG.normal(size=(8, 3, 16, 16)).astype(np.float32), RNG.integers(0, 4, 8)
    own = Learner(build("cnn", (3, 16, 16), 4, preset="mcmahan-mnist"), x, y, RULE)
    other = own.over(x[4:], y[4:])
    np.testing.assert_allclose(other.losses(own.initial)[0], own.passes.losses(own.initial)[0][4:], rtol=1e-5)


@pytest.mark.parametrize("numbers", [1, 1 << 30])
def test_losses_do_not_depend_on_how_many_examples_pass_at_once(numbers, monkeypatch):
    x, y = RNG.integers(0, 256, (300, 1, 4, 3), dtype=np.uint8), RNG.integers(0, 4, 300)
    own = Learner(build("mlp", (1, 4, 3), 4, hidden=(5,)), x, y, RULE, white=255)
    at = RNG.permutation(300)[:290]
    logits = own.passes.outputs(own.initial, x[at] / np.float32(255))
    wanted = nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(y[at]), reduction="none")
    monkeypatch.setattr("sortition.learning.evaluation.NUMBERS", numbers)
    losses, hits = own.passes.losses(own.initial, at)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert hits.tolist() == (logits.argmax(1) == y[at]).tolist()


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
    own = Learner(MODELS[name](), x, y, RULE)
    assert (own.passes.layers is None) == (name in ("dropout", "cnn"))  # these pass one set after the other
    parts = [RNG.permutation(60)[:n] for n in (1, 9, 20, 3)]
    each = np.stack([own.passes.gradient(own.initial, part) for part in parts])
    together = own.passes.gradients(own.initial, parts)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, each, atol=1e-6)
    np.testing.assert_allclose(own.passes.gradients(own.initial, parts[2:])[0], each[2], atol=1e-6)
