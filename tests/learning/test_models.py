import numpy as np
import pytest
import torch
from torch import nn

from sortition.core.errors import InputError
from sortition.learning import build
from sortition.learning.cnns import PRESETS
from sortition.learning.vector import Layout, flatten, load_into


def size(model):
    return Layout.of(model).size


def test_sizes_of_the_papers_models():
    assert size(build("softmax", (60,), 10)) == 610
    assert size(build("mlp", (1, 28, 28), 10)) == 784 * 64 + 64 + 64 * 30 + 30 + 30 * 10 + 10
    # McMahan et al. 2017: "1,663,370 total parameters"
    assert size(build("cnn", (1, 28, 28), 10, preset="mcmahan-mnist")) == 1_663_370
    # FedGS's CIFAR-10 net: 1600 features after two unpadded 5 × 5 convolutions
    expected = (3 * 25 * 64 + 64) + (64 * 25 * 64 + 64) + (1600 * 384 + 384) + (384 * 192 + 192) + (192 * 10 + 10)
    assert size(build("cnn", (3, 32, 32), 10, preset="fedgs-cifar")) == expected
    # FedCor's: 1024 features after the unpooled third convolution
    expected = (3 * 9 * 32 + 32) + (32 * 9 * 64 + 64) + (64 * 9 * 64 + 64) + (1024 * 64 + 64) + 650
    assert size(build("cnn", (3, 32, 32), 10, preset="fedcor")) == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_give_logits(preset):
    assert build("cnn", (3, 32, 32), 7, preset=preset)(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_dropout_stands_before_each_relu():
    kinds = [type(m) for m in build("mlp", (4,), 2, hidden=(3, 3), dropout=0.5)]
    assert kinds == [nn.Flatten, *[nn.Linear, nn.Dropout, nn.ReLU] * 2, nn.Linear]


def test_initial_weights_come_from_the_seed_alone():
    torch.manual_seed(1)
    a = flatten(build("mlp", (4,), 2, seed=5))
    before = torch.get_rng_state()
    b = flatten(build("mlp", (4,), 2, seed=5))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, flatten(build("mlp", (4,), 2, seed=6)))


def test_inits_of_softmax():
    assert not flatten(build("softmax", (4,), 3, init="zero")).any()
    zero_bias = flatten(build("softmax", (4,), 3, init="zero-bias"))
    assert zero_bias[:12].all()
    assert not zero_bias[12:].any()


def test_any_module_by_import_path():
    model = build("torch.nn:Linear", (4,), 3, in_features=4, out_features=3)
    assert isinstance(model, nn.Linear)
    # "inputs" and "classes" are passed where the class or function has them
    assert build("sortition.learning.models:softmax", (4,), 5, init="zero")[1].weight.shape == (5, 4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mpl", {}, "Unknown model 'mpl'; known are softmax, mlp, cnn, resnet, char-lstm. Did you mean 'mlp'?"),
        ("mlp", {"hiden": (1,)}, "Did you mean"),
        ("mlp", {"hidden": (0,)}, "mlp.hidden must be"),
        ("mlp", {"dropout": 1.0}, r"mlp.dropout must be in \[0, 1\)"),
        ("cnn", {"preset": "fedcro"}, "Did you mean 'fedcor'"),
        ("cnn", {}, "cnn must be given images"),
        ("softmax", {"init": "one"}, "Unknown init"),
        ("nowhere.at.all:Net", {}, "model.name must be importable"),
        ("collections:Counter", {}, "must be a torch.nn.Module; got 'Counter'"),
    ],
)
def test_bad_models_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        build(name, (4,), 3, **options)


def test_images_too_small_for_the_net():
    with pytest.raises(InputError, match="large enough"):
        build("cnn", (3, 8, 8), 10)


def test_vectors_round_trip_and_find_the_head():
    model = build("mlp", (4,), 3, hidden=(5,))
    layout, flat = Layout.of(model), flatten(model)
    other = build("mlp", (4,), 3, hidden=(5,), seed=9)
    load_into(other, layout, torch.from_numpy(flat))
    np.testing.assert_array_equal(flatten(other), flat)
    weight, bias = layout.head(3)
    np.testing.assert_array_equal(flat[weight].reshape(3, 5), model[-1].weight.detach().numpy())
    np.testing.assert_array_equal(flat[bias], model[-1].bias.detach().numpy())
    assert Layout.of(nn.Linear(4, 3, bias=False)).head(3) == (slice(0, 12), None)
    with pytest.raises(InputError, match="closed by a layer with 7 outputs"):
        layout.head(7)
