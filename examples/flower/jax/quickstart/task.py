"""The task: 1,797 handwritten digits of 8 × 8 pixels and a multilayer perceptron, in JAX."""

from functools import lru_cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

CLASSES, SIZES = 10, (64, 32, 10)


def initial() -> list[np.ndarray]:
    """The model before the first round: weights and biases, layer by layer."""
    rng = np.random.default_rng(0)
    layers = pairwise(SIZES)
    return [
        part.astype(np.float32) for n, m in layers for part in (rng.normal(size=(m, n)) * np.sqrt(2 / n), np.zeros(m))
    ]


@lru_cache(maxsize=2)
def load_data(partition_id: int, num_partitions: int):
    """(x, y) of one node: the digits sorted by label, dealt out in two pieces per node."""
    data = load_digits()
    pieces = np.array_split(np.argsort(data.target, kind="stable"), 2 * num_partitions)
    own = np.concatenate([pieces[partition_id], pieces[partition_id + num_partitions]])
    return jnp.asarray(data.data[own] / 16, jnp.float32), jnp.asarray(data.target[own])


def logits(params, x):
    """The network."""
    for layer in range(0, len(params), 2):
        x = x @ params[layer].T + params[layer + 1]
        x = jax.nn.relu(x) if layer + 2 < len(params) else x
    return x


@jax.jit
def loss(params, x, y):
    """Mean cross-entropy."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()


gradient = jax.jit(jax.grad(loss))


def train(params, x, y, epochs: int, lr: float, seed: int):
    """Plain SGD; the model, the mean batch loss and the number of steps."""
    rng, losses = np.random.default_rng(seed), []
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(y)), max(len(y) // 32, 1)):
            losses.append(float(loss(params, x[batch], y[batch])))
            params = [p - lr * g for p, g in zip(params, gradient(params, x[batch], y[batch]), strict=True)]
    return params, float(np.mean(losses)), len(losses)
