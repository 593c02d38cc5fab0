import numpy as np
import pytest
import torch

from sortition.core.errors import InputError
from sortition.learning import Learner, LocalRule, build


def test_the_small_resnet_has_no_buffers_and_shrinks_twice():
    model = build("resnet", (3, 16, 16), 10, blocks=2)
    assert not list(model.buffers())  # group norm keeps no running statistics
    assert model(torch.zeros(2, 3, 16, 16)).shape == (2, 10)
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(convolutions) == 6 * 2 + 1  # and the linear layer: 6 · blocks + 2
    with pytest.raises(InputError, match="multiple of 8"):
        build("resnet", (3, 16, 16), 10, width=12)
    with pytest.raises(InputError, match="given images"):
        build("resnet", (60,), 10)


def test_the_character_lstm_reads_tokens_in_their_order():
    model = build("char-lstm", (12,), 30, tokens=30, hidden=16)
    text = torch.randint(0, 30, (4, 12))
    assert model(text).shape == (4, 30)
    assert not torch.allclose(model(text), model(text.flip(1)))
    with pytest.raises(InputError, match="at least 30"):
        build("char-lstm", (12,), 30, tokens=20)
    with pytest.raises(InputError, match="given tokens"):
        build("char-lstm", (1, 8, 8), 30)


@pytest.mark.parametrize("name", ["resnet", "char-lstm"])
def test_local_training_lowers_the_loss(name):
    rng = np.random.default_rng(0)
    if name == "resnet":
        x = rng.random((40, 1, 8, 8)).astype(np.float32)
        y = (x.mean(axis=(1, 2, 3)) > 0.5).astype(np.int64)
        model, lr = build(name, x.shape[1:], 2), 0.1
    else:
        x = rng.integers(0, 4, (40, 6))
        y = x[:, -1]
        model, lr = build(name, (6,), 4, tokens=4, hidden=16), 1.0
    learner = Learner(model, x, y, LocalRule(lr=lr, epochs=20, batch=10))
    start = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).numpy()
    trained = learner.train(start, [np.arange(40)], np.array([0]), seed=0, t=0)
    assert loss(model, start + trained.deltas[0], x, y) < 0.7 * loss(model, start, x, y)


def loss(model, flat, x, y):
    torch.nn.utils.vector_to_parameters(torch.from_numpy(np.asarray(flat, np.float32)), model.parameters())
    return torch.nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
