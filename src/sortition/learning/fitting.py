"""A learner for any model, tried on two examples: what does not fit the data is refused before anything trains."""

from __future__ import annotations

import copy
from typing import Any

import numpy.typing as npt
import torch
from torch import nn

from sortition.core.errors import bad
from sortition.learning.learner import Learner
from sortition.learning.rule import LocalRule


def learner_for(
    model: nn.Module, x: npt.ArrayLike, y: npt.ArrayLike, rule: LocalRule, classes: int, **how: Any
) -> Learner:
    """A learner whose model gives a logit for each of ``classes`` labels; ``how`` are further arguments of Learner.

    Images lie channels-last, which is fastest; a module that cannot read them so (``x.view(…)``) gets them as they are.
    Whole numbers stay so for a module that takes them (``nn.Embedding``); another gets their values as floats.
    """
    learner = Learner(model, x, y, rule, **how)
    fault = first_fault = _fault(learner, classes)
    if fault and learner.examples.image:
        learner = Learner(model, x, y, rule, channels_last=False, **how)
        fault = first_fault = _fault(learner, classes)
    if fault and learner.examples.rows.dtype == torch.int64:
        learner = Learner(model, x, y, rule, channels_last=learner.channels_last, whole=False, **how)
        fault = _fault(learner, classes)
    if fault:
        shape = tuple(learner.examples.shape)
        rule_of_outputs = f"a module that gives {classes} logits for each example, of shape {shape}"
        hint = f"Labels are 0 … {classes - 1}; each is the number of a logit."
        raise bad("model", rule_of_outputs, first_fault, hint)
    return learner


def _fault(learner: Learner, classes: int) -> str:
    """Why the model does not fit the examples; empty where it does."""
    some = min(2, len(learner.y))
    try:
        found: Any = learner.passes.first_outputs(learner.initial, some)
    except Exception as error:  # a module of one's own can raise anything
        return f"{type(error).__name__}: {error}"
    if not isinstance(found, torch.Tensor):
        return f"a {type(found).__name__}"
    if found.ndim != 2 or len(found) != some or found.size(1) < classes:
        return f"a tensor of shape {tuple(found.shape)} of {some} examples"
    if _are_probabilities(found):
        return "probabilities, as after a softmax. Leave it out: the loss takes one itself"
    return ""


def _are_probabilities(outputs: torch.Tensor) -> bool:
    """Whether outputs of several classes went through a softmax already; the loss takes another one of them."""
    sums = outputs.sum(dim=1)
    return outputs.size(1) > 1 and bool((outputs >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-5))


def trains_on_one(learner: Learner) -> bool:
    """Whether the model can train on a batch of one example, of which some normalisations have no variance."""
    model = copy.deepcopy(learner.model).train()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model(learner.examples.take(torch.zeros(1, dtype=torch.int64, device=learner.device)))
    except ValueError:
        return False
    return True
