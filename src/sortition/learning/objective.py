"""What a task means for tensors: the loss that clients minimise, the loss of each example, and the metric.

A loss of one's own is a function of (outputs, targets) that returns one number, the mean over the examples of a batch.
The loss of a single example is that of a batch of one, computed for many at once where ``torch.func.vmap`` can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from sortition.core.errors import InputError, bad
from sortition.core.import_policy import import_named
from sortition.core.validation import check_parameters
from sortition.learning.task import COMPUTED_BY_MODEL, CROSS_ENTROPY, NO_LABELS, TaskRule

ModelInputs: TypeAlias = "Tensor | tuple[Tensor, ...] | dict[str, Tensor]"
LossFunction = Callable[[Tensor, Tensor], Any]  # (outputs, targets) → a number, or a tensor of one
IGNORED_LABEL = -100  # a label of a sequence that counts for nothing, as in PyTorch


def call_model(model: nn.Module, x: ModelInputs) -> Any:
    """Call a model with one array, with several by position, or with several by name."""
    if isinstance(x, Mapping):
        return model(**x)
    if isinstance(x, tuple):
        return model(*x)
    return model(x)


def outputs_of(model: nn.Module, x: ModelInputs) -> Tensor:
    """Return what a model gives: a tensor, or the ``logits`` of an object or a dict that carries them."""
    outputs = call_model(model, x)
    logits = _tensor_in(outputs, "logits")
    if logits is None:
        return cast(Tensor, outputs)
    return logits


def _tensor_in(outputs: object, name: str) -> Tensor | None:
    """Return a tensor that the outputs of a model carry as an attribute or under a key; None where they do not."""
    if isinstance(outputs, Mapping) and name in outputs:
        tensor = outputs[name]
    else:
        tensor = getattr(outputs, name, None)
    return cast("Tensor | None", tensor)


class Objective:
    """The loss and the metric of a task.

    Attributes:
        rule: the task as the study says it.
    """

    def __init__(self, rule: TaskRule) -> None:
        self.rule = rule
        self._user_loss: LossFunction | None = None
        self._user_metric: LossFunction | None = None
        if ":" in rule.loss:
            self._user_loss = _imported_function(rule.loss, "task.loss")
        if ":" in rule.metric:
            self._user_metric = _imported_function(rule.metric, "task.metric")
        self._uses_vmap = False

    @classmethod
    def of_function(cls, loss: LossFunction) -> Objective:
        """Make an objective of a loss that is at hand, judged by that loss."""
        objective = cls(TaskRule(metric="loss"))
        objective._user_loss = loss
        return objective

    @property
    def is_cross_entropy(self) -> bool:
        """Tell whether the loss is cross-entropy."""
        return self._user_loss is None and self.rule.loss == CROSS_ENTROPY

    def is_by_label(self, targets: Tensor) -> bool:
        """Tell whether the loss is the cross-entropy of one label an example."""
        return self.is_cross_entropy and targets.ndim == 1

    @property
    def judges_by_loss(self) -> bool:
        """Tell whether the metric is the loss itself."""
        return self.rule.metric == "loss"

    # -- losses ------------------------------------------------------------------------------------------------------

    @property
    def has_user_loss(self) -> bool:
        """Tell whether the loss is a user's function."""
        return self._user_loss is not None

    @property
    def loss_name(self) -> str:
        """Return what messages call the loss: its name, or that of the user's function."""
        if self._user_loss is None:
            return self.rule.loss
        return str(getattr(self._user_loss, "__name__", type(self._user_loss).__name__))

    @property
    def is_computed_by_model(self) -> bool:
        """Tell whether the model computes its loss itself."""
        return self._user_loss is None and self.rule.loss == COMPUTED_BY_MODEL

    def batch_loss(self, model: nn.Module, x: ModelInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch, which can be differentiated, and the outputs."""
        if self.is_computed_by_model:
            return _loss_by_model(model, x, targets)
        outputs = outputs_of(model, x)
        loss_of = self._user_loss or BATCH_LOSSES[self.rule.loss]
        return loss_of(outputs, targets), outputs

    @property
    def is_weighable(self) -> bool:
        """Tell whether :meth:`weighted_batch_loss` can compute the loss: it has a name, and is a mean over examples."""
        return self._user_loss is None and not self.is_computed_by_model

    def weighted_batch_loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the mean loss of those rows of a batch whose weight (B,) is 1 / |rows|; that of the others is 0."""
        if self.is_cross_entropy:
            return _weighted_cross_entropy(outputs, targets, weights)
        return (self.example_losses(outputs, targets) * weights).sum()

    def losses_and_outputs(self, model: nn.Module, x: ModelInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each example (B,), and the model's outputs (B, …)."""
        if not self.is_computed_by_model:
            outputs = outputs_of(model, x)
            return self.example_losses(outputs, targets), outputs
        rows = [slice(row, row + 1) for row in range(len(targets))]
        pairs = [_loss_by_model(model, _some_rows(x, row), targets[row]) for row in rows]
        return torch.stack([loss for loss, _ in pairs]).float(), torch.cat([outputs for _, outputs in pairs])

    def example_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example (B,) from its outputs; a model's own loss is not one of these."""
        if self._user_loss is None:
            if self.is_computed_by_model:
                requirement = "other than 'model' where a method asks for the losses of single examples while training"
                raise bad("task.loss", requirement, self.rule.loss)
            return EXAMPLE_LOSSES[self.rule.loss](outputs, targets)
        if self._uses_vmap:
            return self._losses_with_vmap(outputs, targets)
        return self._losses_one_by_one(outputs, targets)

    def try_vmap(self, outputs: Tensor, targets: Tensor) -> None:
        """Find out, on a few examples, whether vmap can compute a user's loss for many examples at once."""
        if self._user_loss is None:
            return
        one_by_one = self._losses_one_by_one(outputs, targets)
        try:
            with_vmap = self._losses_with_vmap(outputs, targets)
        except Exception:  # a user's function may do what vmap cannot: branch on values, call numpy
            self._uses_vmap = False
            return
        self._uses_vmap = with_vmap.shape == one_by_one.shape and bool(torch.allclose(with_vmap, one_by_one))

    def _losses_one_by_one(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = [self._loss_of_one(outputs[row], targets[row]) for row in range(len(targets))]
        return torch.stack([torch.as_tensor(loss).reshape(()) for loss in losses]).float()

    def _losses_with_vmap(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses: Tensor = torch.func.vmap(self._loss_of_one)(outputs, targets)
        return losses.float()

    def _loss_of_one(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch of one."""
        if self._user_loss is None:
            raise bad("task.loss", "a function of one's own", self.rule.loss)
        loss: Tensor = self._user_loss(outputs[None], targets[None])
        return loss

    # -- the metric --------------------------------------------------------------------------------------------------

    def metric(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the metric of a set of examples; not of the metric ``loss``, which is a mean of losses."""
        function = self._user_metric or METRIC_FUNCTIONS[self.rule.metric]
        value = function(outputs, targets)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise bad("task.metric", "a function that returns one number", f"a {type(value).__name__}") from None


def _imported_function(path: str, subject: str) -> LossFunction:
    """Return the user's function behind an import path."""
    function = import_named(path, subject)
    if isinstance(function, type) or not callable(function):
        raise bad(
            subject, "a function (outputs, targets)", f"a {type(function).__name__}", "Give an instance of a class."
        )
    check_parameters(function, ("outputs", "targets"), subject)
    checked: LossFunction = function
    return checked


def _some_rows(x: ModelInputs, rows: slice) -> ModelInputs:
    """Return some examples of a batch."""
    if isinstance(x, Mapping):
        return {name: part[rows] for name, part in x.items()}
    if isinstance(x, tuple):
        return tuple(part[rows] for part in x)
    return x[rows]


def _loss_by_model(model: nn.Module, x: ModelInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss that a model computes itself, given the targets as ``labels``, and its logits."""
    if isinstance(x, Mapping):
        outputs = model(**x, labels=targets)
    elif isinstance(x, tuple):
        outputs = model(*x, labels=targets)
    else:
        outputs = model(x, labels=targets)
    loss = _tensor_in(outputs, "loss")
    logits = _tensor_in(outputs, "logits")
    if loss is None or logits is None:
        raise TypeError(f"a {type(outputs).__name__} without loss or logits")
    return loss, logits


# -- losses by name -------------------------------------------------------------------------------------------------


def aligned_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return outputs in the shape of the targets, such as (B, 1) for (B,); others than as many numbers are refused."""
    if outputs.shape == targets.shape:
        return outputs
    if len(outputs) == len(targets) and outputs.numel() == targets.numel():
        return outputs.reshape(targets.shape)
    raise ValueError(f"outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}")


def _example_means(values: Tensor) -> Tensor:
    """Return the mean (B,) of what belongs to each example (B, …)."""
    return values.reshape(len(values), -1).mean(dim=1)


def _squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return (aligned_outputs(outputs, targets) - targets).square()


def _absolute_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return (aligned_outputs(outputs, targets) - targets).abs()


def _binary_cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    logits = aligned_outputs(outputs, targets)
    return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")


def _token_cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropies (B, …) of labels (B, …) under logits (B, …, C); 0 for labels that are ignored."""
    if outputs.shape[:-1] != targets.shape:
        raise ValueError(f"logits of shape {tuple(outputs.shape)} for labels of shape {tuple(targets.shape)}")
    flat = nn.functional.cross_entropy(
        outputs.reshape(-1, outputs.size(-1)), targets.reshape(-1), reduction="none", ignore_index=IGNORED_LABEL
    )
    return flat.reshape(targets.shape)


def _batch_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over all labels of a batch that count, as PyTorch does."""
    n_labels = (targets != IGNORED_LABEL).sum().clamp_min(1)
    return _token_cross_entropies(outputs, targets).sum() / n_labels


def _weighted_cross_entropy(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over all labels that count of the rows whose weight is not 0."""
    is_real = weights > 0
    counts = (targets != IGNORED_LABEL) & is_real.reshape(-1, *[1] * (targets.ndim - 1))
    losses = torch.where(counts, _token_cross_entropies(outputs, targets), 0.0)
    return losses.sum() / counts.sum().clamp_min(1)


def _example_cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = _token_cross_entropies(outputs, targets).reshape(len(targets), -1)
    n_labels = (targets != IGNORED_LABEL).reshape(len(targets), -1).sum(dim=1).clamp_min(1)
    return losses.sum(dim=1) / n_labels


BATCH_LOSSES: dict[str, LossFunction] = {
    CROSS_ENTROPY: _batch_cross_entropy,
    "bce": lambda outputs, targets: _binary_cross_entropies(outputs, targets).mean(),
    "mse": lambda outputs, targets: _squared_errors(outputs, targets).mean(),
    "mae": lambda outputs, targets: _absolute_errors(outputs, targets).mean(),
}
EXAMPLE_LOSSES: dict[str, LossFunction] = {
    CROSS_ENTROPY: _example_cross_entropies,
    "bce": lambda outputs, targets: _example_means(_binary_cross_entropies(outputs, targets)),
    "mse": lambda outputs, targets: _example_means(_squared_errors(outputs, targets)),
    "mae": lambda outputs, targets: _example_means(_absolute_errors(outputs, targets)),
}


# -- metrics by name ------------------------------------------------------------------------------------------------


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Return the share of labels predicted right.

    There is one label per example, one per token, or each 0/1 entry of multi-label targets (outputs are logits).
    """
    if outputs.shape == targets.shape:
        return float(((outputs > 0) == (targets > 0.5)).float().mean())
    if outputs.shape[:-1] != targets.shape or targets.is_floating_point():
        shapes = f"outputs of shape {tuple(outputs.shape)} for {targets.dtype} targets of shape {tuple(targets.shape)}"
        raise InputError(f"{NO_LABELS}; got {shapes}.")
    counted = targets != IGNORED_LABEL
    return float((outputs.argmax(-1) == targets)[counted].float().mean())


def _f1(outputs: Tensor, targets: Tensor) -> float:
    """Return the micro-averaged F1 of multi-label targets, 2 TP / (2 TP + FP + FN).

    It is 1 where no label is true and none is predicted.
    """
    predicted = aligned_outputs(outputs, targets) > 0
    true = targets > 0.5
    n_hits = int((predicted & true).sum())
    total = int(predicted.sum()) + int(true.sum())
    return 2 * n_hits / total if total else 1.0


def _mse(outputs: Tensor, targets: Tensor) -> float:
    return float(_squared_errors(outputs.double(), targets.double()).mean())


def _mae(outputs: Tensor, targets: Tensor) -> float:
    return float(_absolute_errors(outputs.double(), targets.double()).mean())


def _r2(outputs: Tensor, targets: Tensor) -> float:
    """Return 1 − Σ(y − ŷ)² / Σ(y − ȳ)², the mean of it where a target has several numbers."""
    true_values = targets.double().reshape(len(targets), -1)
    predicted_values = aligned_outputs(outputs, targets).double().reshape(len(targets), -1)
    residual = (true_values - predicted_values).square().sum(dim=0)
    total = (true_values - true_values.mean(dim=0)).square().sum(dim=0)
    is_constant = total == 0
    scores = 1 - residual / total.masked_fill(is_constant, 1.0)
    exact = (residual == 0).double()  # of a constant target: 1 where it is met, otherwise 0
    return float(torch.where(is_constant, exact, scores).mean())


METRIC_FUNCTIONS: dict[str, LossFunction] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "mse": _mse,
    "mae": _mae,
    "rmse": lambda outputs, targets: math.sqrt(_mse(outputs, targets)),
    "r2": _r2,
}
