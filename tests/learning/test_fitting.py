import numpy as np
import pytest
import torch
from torch import nn

from sortition.core.errors import InputError
from sortition.learning import LocalRule
from sortition.learning.fitting import learner_for, trains_on_one

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3, 8, 8)).astype(np.float32), RNG.integers(0, 4, 30)
RULE = LocalRule(lr=0.1, steps=2, batch=10)


class Net(nn.Module):
    """A small CNN; ``ends`` is what becomes of the last convolution."""

    def __init__(self, ends, norm=None):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 6, 3), norm or nn.Identity())
        self.head, self.ends = nn.Linear(6 * 4 * 4, 4), ends

    def forward(self, x):
        return self.ends(self, self.body(x))


def viewed(net, h):
    return net.head(h.view(-1, 6 * 4 * 4))


def flat(net, h):
    return net.head(h.flatten(1))


def test_a_module_that_takes_views_of_images_trains_like_one_that_flattens_them():
    torch.manual_seed(0)
    model = Net(viewed)
    plain = learner_for(model, X, Y, RULE, 4)
    model.ends = flat
    other = learner_for(model, X, Y, RULE, 4)
    assert (other.examples.is_image, plain.examples.is_image) == (
        True,
        False,
    )  # channels-last where the module can read it
    a, b = (
        learner.train(learner.initial, [np.arange(30)], np.array([0]), seed=0, t=0).deltas for learner in (plain, other)
    )
    np.testing.assert_allclose(a, b, atol=2e-6)
    np.testing.assert_allclose(
        plain.passes.losses_and_hits(plain.initial)[0], other.passes.losses_and_hits(other.initial)[0], atol=1e-5
    )


def test_a_model_that_meets_channels_on_another_axis_is_refused_with_their_order():
    channels_last = X.transpose(0, 2, 3, 1)
    with pytest.raises(InputError, match=r"of shape \(8, 8, 3\).*Are its channels where they belong\? Uint8 images"):
        learner_for(Net(flat), channels_last, Y, RULE, 4)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (lambda net, h: (flat(net, h), h), "got a tuple"),
        (lambda net, h: flat(net, h)[:, :3], r"got a tensor of shape \(2, 3\) of 2 examples"),
        (lambda net, h: flat(net, h)[:, None], r"got a tensor of shape \(2, 1, 4\)"),
        (lambda net, h: net.head(h), "got RuntimeError: mat1 and mat2 shapes"),
    ],
    ids=["two outputs", "too few scores", "another axis", "another width"],
)
def test_a_model_that_does_not_fit_is_refused_before_it_trains(ends, message):
    with pytest.raises(InputError, match=r"model must be a module that gives 4 logits for each example, .*" + message):
        learner_for(Net(ends), X, Y, RULE, 4)


@pytest.mark.parametrize(
    ("model", "can"),
    [
        (Net(flat, nn.BatchNorm2d(6)), True),  # a variance over the places of one image
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.BatchNorm1d(5), nn.Linear(5, 4)), False),
    ],
)
def test_whether_a_model_trains_on_one_example_leaves_it_as_it_was(model, can):
    learner = learner_for(model, X, Y, RULE, 4)
    state_before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    assert trains_on_one(learner) == can
    assert all(torch.equal(value, state_before[name]) for name, value in learner.model.state_dict().items())


def test_trying_a_model_leaves_it_and_torchs_random_numbers_as_they_were():
    model = Net(flat, nn.BatchNorm2d(6))
    state_before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    learner_for(model, X, Y, RULE, 4)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(torch.equal(value, state_before[name]) for name, value in model.state_dict().items())


def test_a_model_that_ends_with_a_softmax_is_refused_and_one_with_a_log_softmax_is_not():
    x, y = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32), np.arange(8) % 3
    layers = [nn.Flatten(), nn.Linear(4, 3)]
    with pytest.raises(InputError, match=r"got probabilities, as after a softmax"):
        learner_for(nn.Sequential(*layers, nn.Softmax(dim=1)), x, y, RULE, 3)
    learner_for(nn.Sequential(*layers, nn.LogSoftmax(dim=1)), x, y, RULE, 3)


@pytest.mark.parametrize("ndim", [2, 3, 4])
def test_whole_numbers_become_floats_for_a_model_that_takes_floats_only(ndim):
    x, y = np.arange(2**ndim * 3).reshape(-1, *[2] * (ndim - 1)), np.arange(2**ndim * 3 // 2 ** (ndim - 1)) % 2
    learner = learner_for(nn.Sequential(nn.Flatten(), nn.Linear(2 ** (ndim - 1), 2)), x, y, RULE, 2)
    assert learner.examples.rows.dtype == torch.float32
    assert learner.passes_over(x, y).examples.rows.dtype == torch.float32
