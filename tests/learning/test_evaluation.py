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
