"""Models by name, or any ``torch.nn.Module`` by import path; initial weights from the seed alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import nn

from sortition.core.errors import bad, unknown
from sortition.core.import_policy import import_named
from sortition.core.streams import seed_sequence
from sortition.learning.char_lstm import char_lstm
from sortition.learning.cnns import PRESETS
from sortition.learning.resnet import resnet

Shape = tuple[int, ...]
Shapes = Shape | Mapping[str, Shape]  # of one array, or of several by name
MOST_WEIGHTS = 1_000_000_000  # of a model by name
INITS = ("torch", "zero-bias", "zero")


def softmax(inputs: Shape, classes: int, init: str = "torch") -> nn.Module:
    """Make multinomial logistic regression; ``init``: torch's own, zero biases (FedGS), or all zero."""
    if init not in INITS:
        raise unknown("init", init, INITS, "softmax")
    layer = nn.Linear(prod(inputs), classes)
    if init != "torch":
        nn.init.zeros_(layer.bias)
    if init == "zero":
        nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)


def mlp(inputs: Shape, classes: int, hidden: Sequence[int] = (64, 30), dropout: float = 0.0) -> nn.Module:
    """Make linear layers with ReLU; ``dropout`` stands before each ReLU, as in FedCor's code (0.5 there)."""
    if not hidden or any(isinstance(width, bool) or not isinstance(width, int) or width < 1 for width in hidden):
        raise bad("mlp.hidden", "one or more whole numbers ≥ 1", hidden)
    widths = [prod(inputs), *hidden, classes]
    weights = sum(width_in * width_out for width_in, width_out in pairwise(widths))
    if len(widths) > 100 or weights > MOST_WEIGHTS:
        raise bad("mlp.hidden", f"at most 98 layers and {MOST_WEIGHTS:,} weights", hidden)
    if not 0 <= dropout < 1:
        raise bad("mlp.dropout", "in [0, 1)", dropout)
    layers: list[nn.Module] = [nn.Flatten()]
    width = prod(inputs)
    for next_width in hidden:
        layers.append(nn.Linear(width, next_width))
        if dropout:
            layers.append(nn.Dropout(dropout))
        layers.append(nn.ReLU())
        width = next_width
    return nn.Sequential(*layers, nn.Linear(width, classes))


def cnn(inputs: Shape, classes: int, preset: str = "fedcor") -> nn.Module:
    """Make a convolutional net of a paper; see :mod:`sortition.learning.cnns`."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS, "cnn")
    if len(inputs) != 3:
        raise bad("cnn", "given images (channels, height, width)", f"inputs of shape {inputs}")
    return PRESETS[preset](inputs, classes)


MODELS: dict[str, Callable[..., nn.Module]] = {
    "softmax": softmax,
    "mlp": mlp,
    "cnn": cnn,
    "resnet": resnet,
    "char-lstm": char_lstm,
}


def build(name: str, inputs: Shapes, classes: int, *, seed: int = 0, **options: object) -> nn.Module:
    """Make a model with initial weights that depend on ``seed`` only.

    ``name`` is a key of ``MODELS``, or ``package.module:Class``, which is called with ``inputs`` (shape of one example,
    or a dict of the shapes of several arrays) and ``classes`` (the number of outputs) where it has parameters of these
    names, and with the options.
    """
    make = _find_maker(name)
    if name in MODELS and isinstance(inputs, Mapping):
        hint = "Give a module of your own, whose forward takes them by position (tuple) or by name (dict)."
        raise bad(f"model {name!r}", "given one array of examples", f"several: {', '.join(inputs)}", hint)
    parameters = inspect.signature(make).parameters
    takes_any_option = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    option_names = [key for key in parameters if key not in ("inputs", "classes")]
    for key in options:
        if key not in option_names and not takes_any_option:
            raise unknown("key", f"model.{key}", option_names, name)
    shape_arguments: dict[str, object] = {}
    if "inputs" in parameters:
        shape_arguments["inputs"] = dict(inputs) if isinstance(inputs, Mapping) else tuple(inputs)
    if "classes" in parameters:
        shape_arguments["classes"] = classes
    with torch.random.fork_rng(devices=[]):  # torch's initialisers know only its global generator
        torch.manual_seed(int(seed_sequence(seed, "model").generate_state(1)[0]))
        model = make(**shape_arguments, **options)
    if not isinstance(model, nn.Module):
        raise bad(f"model {name!r}", "a torch.nn.Module", type(model).__name__)
    return model


def _find_maker(name: str) -> Callable[..., nn.Module]:
    """Return the function or class that makes the model of this name."""
    if ":" in name:
        return import_named(name, "model.name")
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]
