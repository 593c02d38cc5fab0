"""Makes a learner for any model and tries it on two examples: what does not fit is refused before training."""

from __future__ import annotations

import copy
import math
import warnings
from functools import partial
from typing import TypedDict, Unpack

import numpy.typing as npt
import torch
from torch import Tensor, nn

from sortition.core.errors import InputError, bad
from sortition.core.inputs import Inputs
from sortition.data.dataset import ORDER_OF_CHANNELS, are_channels_doubtful
from sortition.learning import vector
from sortition.learning.examples import Examples
from sortition.learning.learner import Learner
from sortition.learning.objective import ModelInputs, Objective, call_model
from sortition.learning.rule import LocalRule
from sortition.learning.task import NO_LABELS

TRIED = 2  # examples on which a model is tried


class LearnerOptions(TypedDict, total=False):
    """Further arguments of :class:`~sortition.learning.learner.Learner`."""

    device: str
    engine: str
    precision: str
    white: int
    objective: Objective | None


def learner_for(
    model: nn.Module,
    x: npt.ArrayLike | Inputs,
    y: npt.ArrayLike,
    rule: LocalRule,
    classes: int,
    **options: Unpack[LearnerOptions],
) -> Learner:
    """Make a learner whose model gives a logit for each of ``classes`` labels, or what the objective's loss takes.

    Images lie channels-last, which is fastest; a module that cannot read them so (``x.view(…)``) gets them as they are.
    Whole numbers stay so for a module that takes them (``nn.Embedding``); another gets their values as floats.
    """
    make = partial(Learner, model, x, y, rule, **options)
    learner = make()
    fault = first_fault = _model_fault(learner, classes)
    if fault and learner.examples.is_image:
        learner = make(channels_last=False)
        fault = first_fault = _model_fault(learner, classes)
    first_tried = learner  # the error says what was given when its fault arose
    if fault and learner.examples.is_whole:
        learner = make(channels_last=learner.channels_last, takes_whole_numbers=False)
        fault = _model_fault(learner, classes)
    if fault:
        raise _misfit(first_tried, classes, first_fault)
    if learner.objective is not None:
        check_objective(learner, learner.objective)
    return learner


def _misfit(learner: Learner, classes: int, fault: str) -> InputError:
    """Make the error for a model that does not fit the examples."""
    per_example = f"for each example, {learner.examples.description}"
    if learner.passes.is_by_label:
        hint = f"Labels are 0 … {classes - 1}; each is the number of a logit."
        if isinstance(learner.examples, Examples) and are_channels_doubtful(learner.examples.shape):
            hint = f"Are its channels where they belong? {ORDER_OF_CHANNELS[0].upper()}{ORDER_OF_CHANNELS[1:]}."
        return bad("model", f"a module that gives {classes} logits {per_example}", fault, hint)
    targets = f"{_dtype(learner.y)} of shape {tuple(learner.y.shape[1:])}"
    return bad("model", f"a module that gives a tensor {per_example}", fault, f"Its targets are {targets}.")


def _model_fault(learner: Learner, classes: int) -> str:
    """Say why the model does not fit the examples; empty where it does."""
    n_examples = min(TRIED, len(learner.y))
    try:
        outputs = learner.passes.first_outputs(learner.initial, n_examples)
    except Exception as error:  # a user's module can raise anything
        return f"{type(error).__name__}: {error}"
    if not isinstance(outputs, torch.Tensor):
        return f"a {type(outputs).__name__} without logits"
    shape = f"a tensor of shape {tuple(outputs.shape)} of {n_examples} examples"
    if not learner.passes.is_by_label:
        return "" if outputs.ndim and len(outputs) == n_examples else shape
    if outputs.ndim != 2 or len(outputs) != n_examples or outputs.size(1) < classes:
        return shape
    if _are_probabilities(outputs):
        return "probabilities, as after a softmax. Leave the softmax out: the loss contains one"
    return ""


def _are_probabilities(outputs: torch.Tensor) -> bool:
    """Tell whether outputs of several classes went through a softmax already."""
    if outputs.size(1) <= 1 or not bool((outputs >= 0).all()):
        return False
    sums = outputs.sum(dim=1)
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-5))


# -- the loss and the metric of a task --------------------------------------------------------------------------------


def check_objective(learner: Learner, objective: Objective) -> None:
    """Try loss and metric on two examples; refuse what cannot be trained or judged by."""
    index = torch.arange(min(TRIED, len(learner.y)), device=learner.device)
    model = learner.model
    vector.load_into(model, learner.layout, torch.tensor(learner.initial, device=learner.device))
    model.eval()  # a batch of two shall give what each of them gives alone
    x = learner.examples.take(index)
    targets = learner.y[index]
    if not learner.passes.is_by_label:
        outputs = _check_loss(objective, model, x, targets, learner)
        objective.try_vmap(outputs, targets)
    else:
        outputs = learner.passes.judge(learner.initial, index.cpu().numpy()).outputs
    if not objective.judges_by_loss:
        _check_metric(objective, outputs.detach().cpu(), targets.cpu())
    if objective.rule.metric == "accuracy" and outputs.shape == targets.shape:
        _check_multi_label(objective, learner.y)


def _check_loss(objective: Objective, model: nn.Module, x: ModelInputs, targets: Tensor, learner: Learner) -> Tensor:
    """Return the outputs of a few examples, after a trial of the loss on them."""
    requirement = "a function (outputs, targets) that returns one number, differentiable, finite and ≥ 0"
    if objective.is_computed_by_model:
        requirement = "of a model that takes labels=… and returns an object with .loss and .logits"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Using a target size")
            loss, outputs = objective.batch_loss(model, x, targets)
            fault = _loss_fault(loss, model)
            if not fault and objective.has_user_loss:
                fault = _broadcast_fault(objective, loss, outputs, targets)
    except Exception as error:  # a user's function can raise anything
        fault = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if fault:
        raise bad(f"task.loss {objective.loss_name!r}", requirement, fault, _what_a_loss_gets(learner))
    return outputs


def _what_a_loss_gets(learner: Learner) -> str:
    """Say of which types and shapes inputs, outputs and targets are, for two examples."""
    try:
        outputs = learner.passes.first_outputs(learner.initial, min(TRIED, len(learner.y)))
    except Exception:  # then it is the model that failed
        outputs = None
    words = [f"The model gets {learner.examples.description}"]
    n_examples = min(TRIED, len(learner.y))
    if isinstance(outputs, Tensor):
        words.append(f"gives {_dtype(outputs)} of shape {tuple(outputs.shape)} for {n_examples} examples")
    target_shape = (n_examples, *learner.y.shape[1:])
    return f"{' and '.join(words)}; their targets are {_dtype(learner.y)} of shape {target_shape}."


def _loss_fault(loss: object, model: nn.Module) -> str:
    """Say why a value cannot be the loss of a batch of this model; return an empty text where it can."""
    if not isinstance(loss, Tensor):
        return f"a {type(loss).__name__}, not a tensor"
    if loss.numel() != 1:
        return f"a tensor of shape {tuple(loss.shape)}"
    value = float(loss.detach())
    if not math.isfinite(value) or value < 0:
        return f"{value}"
    if not loss.requires_grad:
        return "a loss that is not differentiable: it does not depend on the model's outputs by operations of torch"
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, retain_graph=True)
    if all(gradient is None for gradient in gradients):
        return "a loss that does not depend on the model's parameters"
    return ""


def _broadcast_fault(objective: Objective, loss: Tensor, outputs: Tensor, targets: Tensor) -> str:
    """Say where outputs (B, 1) and targets (B,) were spread over each other, so that every output met every target."""
    if outputs.shape == targets.shape or outputs.numel() != targets.numel() or len(targets) < TRIED:
        return ""
    mean_of_examples = objective.example_losses(outputs.detach(), targets).mean()
    if torch.allclose(loss.detach().float(), mean_of_examples, rtol=1e-4, atol=1e-6):
        return ""
    return (
        f"outputs of shape {tuple(outputs.shape)} spread over targets of shape {tuple(targets.shape)}: "
        "every output meets every target"
    )


def _check_metric(objective: Objective, outputs: Tensor, targets: Tensor) -> None:
    """Refuse a metric that gives no number for a few examples."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two examples some metrics are not defined
            objective.metric(outputs, targets)
    except InputError:
        raise
    except Exception as error:  # a user's function can raise anything
        gets = f"It gets {_dtype(outputs)} of shape {tuple(outputs.shape)} and {_dtype(targets)} targets of shape "
        raise bad(
            f"task.metric {objective.rule.metric_name!r}",
            "a function (outputs, targets) that returns one number",
            f"{type(error).__name__}: {' '.join(str(error).split())}",
            f"{gets}{tuple(targets.shape)}.",
        ) from None


def _check_multi_label(objective: Objective, targets: Tensor) -> None:
    """Refuse accuracy where targets have the shape of outputs and are not 0 or 1, as in a regression.

    The loss ``bce`` also takes probabilities, which accuracy rounds to labels.
    """
    is_label = (targets == 0) | (targets == 1)
    if objective.rule.loss == "bce" or bool(is_label.all()):
        return
    other_target = float(targets[~is_label][0])
    hint = "Try metric = 'rmse', 'mae' or 'r2'."
    raise InputError(f"{NO_LABELS}; got targets such as {other_target:g}, not 0 and 1. {hint}")


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def trains_on_one(learner: Learner) -> bool:
    """Tell whether the model can train on a batch of one example, of which some normalisations have no variance."""
    model = copy.deepcopy(learner.model).train()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            call_model(model, learner.examples.take(torch.zeros(1, dtype=torch.int64, device=learner.device)))
    except ValueError:
        return False
    return True
