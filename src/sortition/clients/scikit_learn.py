"""A scikit-learn estimator and its examples as a LocalClient: log loss or squared error, gradients of linear models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from sortition.clients.received_model import Context, Received
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.streams import stream

BATCH = 64  # rows of a mini-batch


class Estimator(Protocol):
    """What every estimator of scikit-learn can do."""

    def predict(self, x: Array, /) -> Array:
        """Return a label or a number for each example."""
        ...


class Classifier(Estimator, Protocol):
    """An estimator that gives probabilities of labels."""

    classes_: Array

    def predict_proba(self, x: Array, /) -> Array:
        """Return the probability of each label (n, C)."""
        ...


class LinearModel(Estimator, Protocol):
    """An estimator with one row of coefficients an output."""

    coef_: Array
    intercept_: Array


Load = Callable[[Context], tuple[Any, npt.ArrayLike, npt.ArrayLike]]  # from a node's context to (estimator, x, y)
Assign = Callable[[Any, list[Array]], object]  # puts the received arrays into the estimator that load gave


def scikit_learn(
    load: Load, assign: Assign | None = None, *, labels: Sequence[object] | None = None, seed: int = 0
) -> ScikitLearn:
    """Make clients of a scikit-learn estimator.

    Args:
        load: from a node's context to (estimator, x, y).
        assign: puts the received arrays, in their order, into the estimator; default: ``coef_`` and ``intercept_``.
        labels: all labels of the federation, in order; default: the estimator's ``classes_``.
        seed: of mini-batches, keyed by round and client.
    """
    if not callable(load):
        raise bad("scikit_learn(load)", "a function from a context to (estimator, x, y)", load)
    return ScikitLearn(load, assign or _assign_linear, labels, seed)


def _assign_linear(estimator: LinearModel, arrays: list[Array]) -> None:
    """Put the received arrays into a linear model."""
    estimator.coef_ = arrays[0]
    if len(arrays) > 1:
        estimator.intercept_ = arrays[1]


class ScikitLearn:
    """Makes clients; see :func:`scikit_learn`."""

    trains = False
    lacks = ("resources",)

    def __init__(self, load: Load, assign: Assign, labels: Sequence[object] | None, seed: int) -> None:
        self.load = load
        self.assign = assign
        self.labels = labels
        self.seed = seed

    def __call__(self, received: Received) -> ScikitLearnClient:
        """Make the client that received this model."""
        return ScikitLearnClient(self, received)

    def known_labels(self, estimator: Estimator) -> Array:
        """Return all labels of the federation."""
        if self.labels is not None:
            return np.asarray(self.labels)
        labels = getattr(estimator, "classes_", None)
        if labels is None:
            raise InputError(
                "scikit_learn(load, labels) must be given all labels of the federation where the estimator that load "
                "gives has no classes_."
            )
        return np.asarray(labels)

    def facts(self, context: Context) -> Mapping[str, npt.ArrayLike]:
        """Return size and, where labels are known, label counts of the node's data."""
        estimator, _, y = self.load(context)
        labels = np.asarray(y)
        facts: dict[str, npt.ArrayLike] = {"sizes": len(labels)}
        if self.labels is not None or hasattr(estimator, "classes_"):
            facts["label_counts"] = _count(labels, self.known_labels(estimator))
        return facts


def _count(y: Array, labels: Array) -> Array:
    """Return how many of ``y`` are each of these labels (C,)."""
    return np.array([np.count_nonzero(y == label) for label in labels])


def _classifies(estimator: Estimator) -> TypeGuard[Classifier]:
    """Tell whether an estimator gives probabilities of labels."""
    return hasattr(type(estimator), "predict_proba")


def _is_linear(estimator: Estimator) -> TypeGuard[LinearModel]:
    """Tell whether an estimator has coefficients."""
    return hasattr(estimator, "coef_")


class ScikitLearnClient:
    """Those parts of core's ``LocalClient`` that an estimator has; the app trains."""

    def __init__(self, maker: ScikitLearn, received: Received) -> None:
        self.maker = maker
        self.received = received
        estimator, x, y = maker.load(received.context)
        self.estimator: Estimator = estimator
        self.x = np.asarray(x)
        self.y = np.asarray(y)
        maker.assign(estimator, list(received.model.values()))
        if _classifies(self.estimator):
            self.estimator.classes_ = maker.known_labels(self.estimator)

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        return _count(self.y, self.maker.known_labels(self.estimator))

    def loss(self) -> float:
        """Return F_k(w) on all local data."""
        return self._loss(self.x, self.y)

    def batch_loss(self) -> float:
        """Return the loss on one mini-batch, drawn by (seed, t, client)."""
        rng = stream(self.maker.seed, "loss-batch", self.received.t, self.received.client)
        batch = rng.choice(len(self.y), min(BATCH, len(self.y)), replace=False)
        return self._loss(self.x[batch], self.y[batch])

    def accuracy(self) -> float:
        """Return the share of the local labels that the received model gives."""
        if not _classifies(self.estimator):
            raise bad("accuracy", "asked of a classifier", type(self.estimator).__name__)
        return float(np.mean(self.estimator.predict(self.x) == self.y))

    def _loss(self, x: Array, y: Array) -> float:
        """Return the log loss of a classifier, the mean squared error of any other estimator."""
        from sklearn.metrics import log_loss, mean_squared_error

        if _classifies(self.estimator):
            return float(log_loss(y, self.estimator.predict_proba(x), labels=self.estimator.classes_))
        return float(mean_squared_error(y, self.estimator.predict(x)))

    def gradient(self) -> Array:
        """Return ∇F_k(w) (P,) of a linear model: of the log loss of its softmax or sigmoid, or of the squared error."""
        if not _is_linear(self.estimator):
            raise bad("gradient", "asked of a linear model, with coef_", type(self.estimator).__name__)
        n = len(self.y)
        n_rows = len(self.estimator.coef_)
        if _classifies(self.estimator):
            is_label = (self.y[:, None] == np.asarray(self.estimator.classes_)).astype(np.float64)
            error = self.estimator.predict_proba(self.x) - is_label
            if n_rows == 1:  # one row of coefficients stands for two labels
                error = error[:, 1:]
        else:
            error = 2 * (np.asarray(self.estimator.predict(self.x)) - self.y).reshape(n, -1)
        parts = [(error.T @ self.x / n).reshape(-1), error.mean(axis=0)]
        return np.concatenate(parts[: len(self.received.model)])
