"""A data set as a task takes it: labels, or targets as numbers; and how many outputs a model then has."""

from __future__ import annotations

from math import prod

import numpy as np

from sortition.core.errors import bad
from sortition.data.dataset import Dataset
from sortition.learning.task import COMPUTED_BY_MODEL, CROSS_ENTROPY, TaskRule

LABELS_ONLY = "labels, whole numbers 0, 1, … of shape (n,), where no loss is given (classification only)"
OTHER_LOSSES = (
    "Give loss='mse' for numbers, loss='bce' for multi-label targets of 0 and 1, or a function (outputs, targets)."
)


def data_for(data: Dataset, task: TaskRule | None) -> Dataset:
    """Return the data set with the targets that a task learns from; refuse targets that it cannot learn from."""
    if task is None:
        if not data.classes:
            raise bad(f"{data.name}.y", LABELS_ONLY, _with_range(data), OTHER_LOSSES)
        return data
    if task.loss == CROSS_ENTROPY:
        if not data.classes and data.y_train.dtype.kind == "f":
            requirement = "labels, whole numbers, where the loss is 'cross-entropy' (classification only)"
            raise bad(f"{data.name}.y", requirement, _with_range(data), OTHER_LOSSES)
        return data
    is_real = data.y_train.dtype.kind == "f"
    if (task.wants_numbers and not is_real) or data.float_labels:
        return data.as_numbers()
    return data


def outputs_for(data: Dataset, task: TaskRule | None) -> int:
    """Return how many outputs an example has that a model by name gives: one a label, or one a number of a target."""
    if data.classes:
        return data.classes
    if task is not None and task.loss in (CROSS_ENTROPY, COMPUTED_BY_MODEL) and data.y_train.dtype.kind == "i":
        return int(max(data.y_train.max(), data.y_test.max())) + 1
    return max(1, prod(data.y_train.shape[1:]))


def is_multi_label(data: Dataset) -> bool:
    """Say whether the targets are 0/1 entries of several labels (n, L)."""
    return not data.classes and data.y_train.ndim == 2 and set(np.unique(data.y_train)) <= {0, 1}


def _with_range(data: Dataset) -> str:
    y = data.y_train
    return f"{data.describe_targets()} from {y.min():g} to {y.max():g}"
