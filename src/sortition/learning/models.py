"""Models by name, or any ``torch.nn.Module`` by import path; initial weights from the seed alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import nn

from sortition.core.errors import bad, unknown
from sortition.core.import_policy import imported
from sortition.core.streams import sequence
from sortition.learning.char_lstm import char_lstm
from sortition.learning.cnns import PRESETS
from sortition.learning.resnet import resnet

Shape = tuple[int, ...]
MOST = 1_000_000_000  # weights of a model by name
INITS = ("torch", "zero-bias", "zero")


def softmax(inputs: Shape, classes: int, init: str = "torch") -> nn.Module:
    """Multinomial logistic regression; ``init``: torch's own, zero biases (FedGS), or all zero."""
    if init not in INITS:
        raise unknown("init", init, INITS, "softmax")
    layer = nn.Linear(prod(inputs), classes)
    if init != "torch":
        nn.init.zeros_(layer.bias)
    if init == "zero":
        nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)


def mlp(inputs: Shape, classes: int, hidden: Sequence[int] = (64, 30), dropout: float = 0.0) -> nn.Module:
    """Linear layers with ReLU; ``dropout`` stands before each ReLU, as in FedCor's code (0.5 there)."""
    if not hidden or any(isinstance(h, bool) or not isinstance(h, int) or h < 1 for h in hidden):
        raise bad("mlp.hidden", "one or more whole numbers ≥ 1", hidden)
    widths = [prod(inputs), *hidden, classes]
    if len(widths) > 100 or sum(a * b for a, b in pairwise(widths)) > MOST:
        raise bad("mlp.hidden", f"at most 98 layers and {MOST:,} weights", hidden)
    if not 0 <= dropout < 1:
        raise bad("mlp.dropout", "in [0, 1)", dropout)
    layers: list[nn.Module] = [nn.Flatten()]
    width = prod(inputs)
    for size in hidden:
        layers += [nn.Linear(width, size), *([nn.Dropout(dropout)] if dropout else []), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, classes))


def cnn(inputs: Shape, classes: int, preset: str = "fedcor") -> nn.Module:
    """A convolutional net of a paper; see :mod:`sortition.learning.cnns`."""
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


def build(name: str, inputs: Shape, classes: int, *, seed: int = 0, **options: Any) -> nn.Module:
    """A model with initial weights that depend on ``seed`` only.

    ``name`` is a key of ``MODELS``, or ``package.module:Class``: called with ``inputs`` (shape of one example) and
    ``classes`` where it has parameters of these names, and with the options.
    """
    make = imported(name, "model.name") if ":" in name else MODELS.get(name)
    if make is None:
        raise unknown("model", name, MODELS)
    accepted = inspect.signature(make).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    own = [key for key in accepted if key not in ("inputs", "classes")]
    for key in options:
        if key not in own and not open_ended:
            raise unknown("key", f"model.{key}", own, name)
    facts = {k: v for k, v in {"inputs": tuple(inputs), "classes": classes}.items() if k in accepted}
    with torch.random.fork_rng(devices=[]):  # torch's initialisers know only its global generator
        torch.manual_seed(int(sequence(seed, "model").generate_state(1)[0]))
        model = make(**facts, **options)
    if not isinstance(model, nn.Module):
        raise bad(f"model {name!r}", "a torch.nn.Module", type(model).__name__)
    return model
