"""Synthetic(α, β) of Li et al. (Federated Optimization in Heterogeneous Networks, 2020), as FedGS uses it.

=========  ==============================================================================
paper      here
=========  ==============================================================================
u_k, B_k   N(0, α), N(0, β): ``reading`` says whether α, β are standard deviations or variances
W_k, b_k   N(u_k, 1), 60 × 10 and 10: client k's true model, kept as ``features``
v_k        N(B_k, 1), the centre of the client's inputs
x, y       N(v_k, diag(j^−1.2)), argmax(x W_k + b_k)
n_k        ⌊lognormal(4, 2)⌋ + ``extra``, at least 2
=========  ==============================================================================

Deviations: the paper of FedGS omits the + 50 and does not say that α and β are standard deviations; its released code
has both, and they are the defaults here. ``legacy`` draws in the released order from numpy's legacy generator:
seed 97 gives the data of FedGS's Table 2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator, RandomState

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.data.dataset import Dataset

DIMENSION = 60
CLASSES = 10
MOST_CLIENTS = 1_000_000
MOST_EXTRA = 1_000_000
TRAIN_SHARE = 0.75  # the released split: 75 % train, 15 % validation, 10 % test, pooled at the server
TRAIN_AND_VALIDATION_SHARE = 0.90


def synthetic(
    alpha: float = 0.5,
    beta: float = 0.5,
    *,
    clients: int = 30,
    seed: int = 97,
    extra: int = 50,
    reading: Literal["deviation", "variance"] = "deviation",
    legacy: bool = True,
) -> Dataset:
    """Draw the federation of ``clients`` linear-softmax tasks; see the table above."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 <= value < np.inf:
            raise bad(f"synthetic.{name}", "≥ 0", value)
    if not 1 <= clients <= MOST_CLIENTS:
        raise bad("synthetic.clients", f"from 1 to {MOST_CLIENTS:,}", clients)
    if not 0 <= extra <= MOST_EXTRA:
        raise bad("synthetic.extra", f"from 0 to {MOST_EXTRA:,}", extra)
    if reading not in ("deviation", "variance"):
        raise bad("synthetic.reading", "'deviation' or 'variance'", reading)
    if reading == "variance":
        alpha = alpha**0.5
        beta = beta**0.5
    rng: Generator | RandomState = stream(seed, "synthetic")
    if legacy:
        rng = RandomState(seed)  # the released draw order, which only the legacy generator has
    xs, ys, true_models = _draw(rng, alpha=alpha, beta=beta, clients=clients, extra=extra)
    return _assemble(xs, ys, true_models)


def _draw(
    rng: Generator | RandomState, *, alpha: float, beta: float, clients: int, extra: int
) -> tuple[list[Floats], list[Ids], Floats]:
    """Draw inputs and labels per client, and the true models (clients, 610), in the released order of draws."""
    rng.normal(0, 1, (DIMENSION, CLASSES))  # the released code draws a global model first and does not use it
    rng.normal(0, 1, CLASSES)
    u = rng.normal(0, alpha, clients)
    W = np.stack([rng.normal(u[k], 1, (DIMENSION, CLASSES)) for k in range(clients)])
    b = np.stack([rng.normal(u[k], 1, CLASSES) for k in range(clients)])
    B = rng.normal(0, beta, clients)
    v = np.stack([rng.normal(B[k], 1, DIMENSION) for k in range(clients)])
    sizes = np.maximum(rng.lognormal(4, 2, clients).astype(int) + extra, 2)  # one to train on, one to test on
    covariance = np.diag(np.arange(1, DIMENSION + 1) ** -1.2)
    xs = [rng.multivariate_normal(v[k], covariance, sizes[k]) for k in range(clients)]
    ys = [np.argmax(x @ W[k] + b[k], axis=1) for k, x in enumerate(xs)]
    return xs, ys, np.concatenate([W.reshape(clients, -1), b], axis=1)


def _assemble(xs: list[Floats], ys: list[Ids], features: Floats) -> Dataset:
    """Cut each client's examples 75/15/10; train and validation stay with it, test examples are pooled."""
    local_sizes = [int(TRAIN_AND_VALIDATION_SHARE * len(y)) for y in ys]
    train_sizes = [max(1, int(TRAIN_SHARE * len(y))) for y in ys]
    ends = np.cumsum(local_sizes)
    starts = ends - local_sizes
    return Dataset(
        name="synthetic",
        x_train=np.concatenate([x[:n] for x, n in zip(xs, local_sizes, strict=True)]).astype(np.float32),
        y_train=np.concatenate([y[:n] for y, n in zip(ys, local_sizes, strict=True)]),
        x_test=np.concatenate([x[n:] for x, n in zip(xs, local_sizes, strict=True)]).astype(np.float32),
        y_test=np.concatenate([y[n:] for y, n in zip(ys, local_sizes, strict=True)]),
        classes=CLASSES,
        clients=tuple(np.arange(start, start + n) for start, n in zip(starts, train_sizes, strict=True)),
        validation=tuple(np.arange(start + n, end) for start, end, n in zip(starts, ends, train_sizes, strict=True)),
        features=features,
    )
