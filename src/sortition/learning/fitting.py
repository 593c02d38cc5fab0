"""Makes a learner for any model and tries it on two examples: a model that does not fit is refused before training."""

from __future__ import annotations

import copy
from functools import partial
from typing import TypedDict, Unpack

import numpy.typing as npt
import torch
from torch import nn

from sortition.core.errors import bad
from sortition.learning.learner import Learner
from sortition.learning.rule import LocalRule


class LearnerOptions(TypedDict, total=False):
    """Further arguments of :class:`~sortition.learning.learner.Learner`."""

    device: str
    engine: str
    white: int


def learner_for(
    model: nn.Module,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    rule: LocalRule,
    classes: int,
    **options: Unpack[LearnerOptions],
) -> Learner:
    """Make a learner whose model gives a logit for each of ``classes`` labels.

    Images lie channels-last, which is fastest; a module that cannot read them so (``x.view(…)``) gets them as they are.
    Whole numbers stay so for a module that takes them (``nn.Embedding``); another gets their values as floats.
    """
    make = partial(Learner, model, x, y, rule, **options)
    learner = make()
    fault = first_fault = _fault(learner, classes)
    if fault and learner.examples.image:
        learner = make(channels_last=False)
        fault = first_fault = _fault(learner, classes)
    if fault and learner.examples.rows.dtype == torch.int64:
        learner = make(channels_last=learner.channels_last, whole=False)
        fault = _fault(learner, classes)
    if fault:
        shape = tuple(learner.examples.shape)
        rule_of_outputs = f"a module that gives {classes} logits for each example, of shape {shape}"
        hint = f"Labels are 0 … {classes - 1}; each is the number of a logit."
        raise bad("model", rule_of_outputs, first_fault, hint)
    return learner


def _fault(learner: Learner, classes: int) -> str:
    """Say why the model does not fit the examples; empty where it does."""
    n_examples = min(2, len(learner.y))
    try:
        outputs = learner.passes.first_outputs(learner.initial, n_examples)
    except Exception as error:  # a user's module can raise anything
        return f"{type(error).__name__}: {error}"
    if not isinstance(outputs, torch.Tensor):
        return f"a {type(outputs).__name__}"
    if outputs.ndim != 2 or len(outputs) != n_examples or outputs.size(1) < classes:
        return f"a tensor of shape {tuple(outputs.shape)} of {n_examples} examples"
    if _are_probabilities(outputs):
        return "probabilities, as after a softmax. Leave the softmax out: the loss contains one"
    return ""


def _are_probabilities(outputs: torch.Tensor) -> bool:
    """Whether outputs of several classes went through a softmax already."""
    if outputs.size(1) <= 1 or not bool((outputs >= 0).all()):
        return False
    sums = outputs.sum(dim=1)
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-5))


def trains_on_one(learner: Learner) -> bool:
    """Whether the model can train on a batch of one example, of which some normalisations have no variance."""
    model = copy.deepcopy(learner.model).train()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model(learner.examples.take(torch.zeros(1, dtype=torch.int64, device=learner.device)))
    except ValueError:
        return False
    return True
