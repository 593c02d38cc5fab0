"""Cross-entropy of the batches of a stack, classes before rows (k, C, B): over few classes softmax is fastest so."""

from __future__ import annotations

import torch
from torch import Tensor


def first(rows: Tensor, k: int) -> Tensor:
    """The first k rows; the tensor itself where these are all."""
    return rows if k == rows.size(0) else rows[:k]


class BatchLosses:
    """Of S steps of k clients: labels (S, k, B), and weights (S, k, B) with 1/|batch| on real rows."""

    def __init__(self, labels: Tensor, weights: Tensor) -> None:
        self.weights = weights.unsqueeze(2)
        self._losses = torch.zeros_like(self.weights)  # of single examples, 0 for steps that a client does not take
        self._steps = list(
            zip(
                labels.unsqueeze(2).unbind(),
                self.weights.unbind(),
                (-self.weights).unbind(),
                self._losses.unbind(),
                strict=True,
            )
        )

    def gradient(self, s: int, logits: Tensor) -> Tensor:
        """Gradient (k', C, B) of Σ_b weight_b · loss_b in step s of the first k' clients, of logits of that shape."""
        y, weight, minus, losses = (first(one, logits.size(0)) for one in self._steps[s])
        logs = torch.log_softmax(logits, 1)
        torch.gather(logs, 1, y, out=losses)
        return logs.exp_().mul_(weight).scatter_add_(1, y, minus)

    def sums(self) -> Tensor:
        """Σ_s of the mean losses of a client's batches (k,); one step after the other, so that padding adds nothing."""
        return (self._losses * self.weights).sum((2, 3)).cumsum(0)[-1].neg_()

    def squares(self) -> Tensor:
        """Mean squared loss of the examples of each batch (k, S)."""
        return (self._losses.square() * self.weights).sum((2, 3)).t()
