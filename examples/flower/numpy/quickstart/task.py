"""The task, in numpy alone: softmax regression on 1,797 handwritten digits of 8 × 8 pixels."""

import time
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from sklearn.datasets import load_digits

from sortition.core import stream

CLASSES, PIXELS, BATCH, RATE, SEED = 10, 64, 32, 0.2, 0


def initial() -> dict[str, np.ndarray]:
    """The model before the first round."""
    return {"weight": np.zeros((CLASSES, PIXELS), np.float32), "bias": np.zeros(CLASSES, np.float32)}


@lru_cache(maxsize=2)
def load_data(partition_id: int, num_partitions: int):
    """(x, y) of one node: the digits sorted by label, dealt out in two pieces per node."""
    data = load_digits()
    pieces = np.array_split(np.argsort(data.target, kind="stable"), 2 * num_partitions)
    own = np.concatenate([pieces[partition_id], pieces[partition_id + num_partitions]])
    return (data.data[own] / 16).astype(np.float32), data.target[own]


def local(context):
    """The data of the node that a context belongs to."""
    return load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


def facts(context):
    """Facts of the data; only what the selector declares is sent."""
    _, y = local(context)
    return {"sizes": len(y), "label_counts": np.bincount(y, minlength=CLASSES)}


def pass_over(vector, x, y):
    """Mean cross-entropy and its gradient, of a model as one vector: the weights row by row, then the bias."""
    weight, bias = vector[:-CLASSES].reshape(CLASSES, PIXELS), vector[-CLASSES:]
    logits = x @ weight.T + bias
    logits -= logits.max(axis=1, keepdims=True)
    chance = np.exp(logits)
    chance /= chance.sum(axis=1, keepdims=True)
    true = np.arange(len(y)), y
    loss = -np.log(chance[true]).mean()
    chance[true] -= 1
    return float(loss), np.concatenate([(chance.T @ x).reshape(-1), chance.sum(axis=0)]) / len(y)


@dataclass
class Result:
    """What training left: the LocalResult that signals read."""

    start: np.ndarray
    end: np.ndarray
    loss: float
    gradients: np.ndarray
    duration: float
    learning_rate: float = RATE

    @property
    def steps(self):
        return len(self.gradients)

    @property
    def update(self):
        return self.end - self.start

    @property
    def output_bias(self):
        return self.update[-CLASSES:]

    @property
    def output_weight(self):
        return self.update[:-CLASSES].reshape(CLASSES, PIXELS)

    @property
    def dispersion(self):
        spread = self.gradients - self.gradients.mean(axis=0)
        return float(np.sqrt((spread**2).sum() / max(self.steps - 1, 1)))

    def outputs(self, inputs):
        return (
            inputs.reshape(len(inputs), PIXELS) @ self.end[:-CLASSES].reshape(CLASSES, PIXELS).T + self.end[-CLASSES:]
        )


class Softmax:
    """The LocalClient that signals read: one node that has received a model."""

    def __init__(self, received):
        self.vector, self.received = received.vector, received
        self.x, self.y = local(received.context)

    @property
    def label_counts(self):
        return np.bincount(self.y, minlength=CLASSES)

    def loss(self):
        return pass_over(self.vector, self.x, self.y)[0]

    def gradient(self):
        return pass_over(self.vector, self.x, self.y)[1]

    def batch_loss(self):
        batch = self._rng("loss-batch").choice(len(self.y), min(BATCH, len(self.y)), replace=False)
        return pass_over(self.vector, self.x[batch], self.y[batch])[0]

    def train(self):
        return self._trained

    @cached_property
    def _trained(self):
        """One epoch of SGD in an order that belongs to (seed, round, client)."""
        begun, model, losses, gradients = time.monotonic(), self.vector.copy(), [], []
        order = self._rng(self.received.purpose).permutation(len(self.y))
        for batch in np.array_split(order, -(-len(order) // BATCH)):
            loss, gradient = pass_over(model, self.x[batch], self.y[batch])
            model -= np.float32(RATE) * gradient
            losses.append(loss)
            gradients.append(gradient)
        return Result(self.vector, model, float(np.mean(losses)), np.stack(gradients), time.monotonic() - begun)

    def _rng(self, purpose):
        return stream(SEED, purpose, self.received.t, self.received.client)
