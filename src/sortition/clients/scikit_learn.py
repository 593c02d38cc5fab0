"""A scikit-learn estimator and its examples as a LocalClient: log loss or squared error, gradients of linear models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sortition.clients.received import Received
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.streams import stream

BATCH = 64
Load = Callable[[Any], tuple[Any, Any, Any]]  # from a node's context to (estimator, x, y)
Assign = Callable[[Any, list[Array]], Any]  # puts the received arrays into the estimator


def scikit_learn(
    load: Load, assign: Assign | None = None, *, labels: Sequence[Any] | None = None, seed: int = 0
) -> ScikitLearn:
    """Clients of a scikit-learn estimator.

    Args:
        load: from a node's context to (estimator, x, y).
        assign: puts the received arrays, in their order, into the estimator; default: ``coef_`` and ``intercept_``.
        labels: all labels of the federation, in order; default: the estimator's ``classes_``.
        seed: of mini-batches, keyed by round and client.
    """
    if not callable(load):
        raise bad("scikit_learn(load)", "a function from a context to (estimator, x, y)", load)
    return ScikitLearn(load, assign or _assign_linear, labels, seed)


def _assign_linear(estimator: Any, arrays: list[Array]) -> None:
    estimator.coef_ = arrays[0]
    if len(arrays) > 1:
        estimator.intercept_ = arrays[1]


class ScikitLearn:
    """Makes clients; see :func:`scikit_learn`."""

    trains = False
    lacks = ("resources",)

    def __init__(self, load: Load, assign: Assign, labels: Sequence[Any] | None, seed: int) -> None:
        self.load, self.assign, self.labels, self.seed = load, assign, labels, seed

    def __call__(self, received: Received) -> ScikitLearnClient:
        """The client that received this model."""
        return ScikitLearnClient(self, received)

    def known_labels(self, estimator: Any) -> Array:
        """All labels of the federation."""
        found = self.labels if self.labels is not None else getattr(estimator, "classes_", None)
        if found is None:
            raise InputError(
                "scikit_learn(load, labels) must be given all labels of the federation where the estimator that load "
                "gives has no classes_."
            )
        return np.asarray(found)

    def facts(self, context: Any) -> Mapping[str, Any]:
        """Size and, where labels are known, label counts of the node's data."""
        estimator, _, y = self.load(context)
        facts: dict[str, Any] = {"sizes": len(y)}
        if self.labels is not None or hasattr(estimator, "classes_"):
            labels = self.known_labels(estimator)
            facts["label_counts"] = np.array([np.count_nonzero(np.asarray(y) == label) for label in labels])
        return facts


class ScikitLearnClient:
    """Those parts of core's ``LocalClient`` that an estimator has; the app trains."""

    def __init__(self, maker: ScikitLearn, received: Received) -> None:
        self.maker, self.received = maker, received
        self.estimator, x, y = maker.load(received.context)
        self.x, self.y = np.asarray(x), np.asarray(y)
        maker.assign(self.estimator, list(received.model.values()))
        if self._classifies:
            self.estimator.classes_ = maker.known_labels(self.estimator)

    @property
    def _classifies(self) -> bool:
        return hasattr(type(self.estimator), "predict_proba")

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        return np.array([np.count_nonzero(self.y == label) for label in self.maker.known_labels(self.estimator)])

    def loss(self) -> float:
        """F_k(w) on all local data."""
        return self._loss(self.x, self.y)

    def batch_loss(self) -> float:
        """The same on one mini-batch, drawn by (seed, t, client)."""
        rng = stream(self.maker.seed, "loss-batch", self.received.t, self.received.client)
        batch = rng.choice(len(self.y), min(BATCH, len(self.y)), replace=False)
        return self._loss(self.x[batch], self.y[batch])

    def accuracy(self) -> float:
        """Share of the local labels that the received model gives."""
        if not self._classifies:
            raise bad("accuracy", "asked of a classifier", type(self.estimator).__name__)
        return float(np.mean(self.estimator.predict(self.x) == self.y))

    def _loss(self, x: Array, y: Array) -> float:
        from sklearn.metrics import log_loss, mean_squared_error

        if not self._classifies:
            return float(mean_squared_error(y, self.estimator.predict(x)))
        return float(log_loss(y, self.estimator.predict_proba(x), labels=self.estimator.classes_))

    def gradient(self) -> Array:
        """∇F_k(w) (P,) of a linear model: of the log loss of its softmax or sigmoid, or of the squared error."""
        estimator, n = self.estimator, len(self.y)
        if not hasattr(estimator, "coef_"):
            raise bad("gradient", "asked of a linear model, with coef_", type(estimator).__name__)
        if self._classifies:
            hits = (self.y[:, None] == np.asarray(estimator.classes_)).astype(np.float64)
            error = estimator.predict_proba(self.x) - hits
            error = error[:, 1:] if len(estimator.coef_) == 1 else error  # one row stands for two labels
        else:
            error = 2 * (np.asarray(estimator.predict(self.x)) - self.y).reshape(n, -1)
        parts = [(error.T @ self.x / n).reshape(-1), error.mean(axis=0)]
        return np.concatenate(parts[: len(self.received.model)])
