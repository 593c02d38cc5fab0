"""How good a model is: on the test set, and for each client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats
from sortition.learning.evaluation import Passes
from sortition.learning.vector import Vector
from sortition.simulation.holdings import Holdings, means


@dataclass(frozen=True)
class Evaluator:
    """Passes over the test examples and over the clients' own.

    Attributes:
        test: passes over the test set.
        own: passes over all clients' examples.
        parts: which of these each client is evaluated on.
    """

    test: Passes
    own: Passes
    parts: Holdings

    def score(self, params: Vector) -> dict[str, float]:
        """Loss and accuracy on the test set."""
        losses, hits = self.test.losses(params)
        return {"loss": float(losses.mean(dtype=np.float64)), "accuracy": float(hits.mean())}

    def client_accuracies(self, params: Vector) -> Floats:
        """(N,) accuracy of each client on its hold-out, or on its training part where it has none."""
        hits = self.own.losses(params)[1]
        index, sizes = self.parts.gather(np.arange(len(self.parts)))
        return means(hits[index].astype(np.float32), sizes)
