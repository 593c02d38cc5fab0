"""Signals: what a selector may ask a client, as named pure functions of a :class:`LocalClient`.

What a signal depends on is its price: ``of="model"`` costs a pass over the local data with the received model,
``of="training"`` is free from those who train anyway and a local training from anybody else, ``of="device"`` needs
neither model nor data, ``of="pairs"`` is a protocol between the asked clients, and ``of="server"`` the server computes
itself from the updates that arrived, in a report. Signals are open: a paper with a new one defines it in its own file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sortition.core.arrays import Array
from sortition.core.client import LocalClient
from sortition.core.errors import bad
from sortition.core.secure_product import secure_products
from sortition.core.server import CohortModels
from sortition.core.streams import stream
from sortition.core.validation import as_builtin, is_whole

Payload = Mapping[str, Array]
_SKETCH = re.compile(r"(?P<vector>.+)-sketch(?P<dim>[0-9]+)(-(?P<seed>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How long the vectors are that belong to a model; None where that is not known.

    Attributes:
        parameters: P, all parameters.
        classes: C, the rows of the output layer.
        head: the output layer's weight and bias together, C · d + C.
        outputs: what the model returns of one input; of a model that travels in part, not the rows of its last layer.
    """

    parameters: int | None = None
    classes: int | None = None
    head: int | None = None
    outputs: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            length = getattr(self, item.name)
            if length is not None and not is_whole(length, 1):
                raise bad(f"ModelSize.{item.name}", "a whole number ≥ 1 or None", length)
            object.__setattr__(self, item.name, as_builtin(length))


@dataclass(frozen=True, eq=False)
class Signal:
    """A named pure function of a client.

    Attributes:
        name: unique; travels over the wire and names the column of a report.
        of: what it depends on: the received ``model``, the local ``training``, the ``device``, ``pairs`` of clients, or
            updates and data that the ``server`` has.
        compute: ``(client, payload) -> row``; of pairs ``(clients, payload) -> (n, n)`` products, of the server
            ``(cohort models, payload) -> rows``.
        scalar: one number a client, else a vector.
        nonnegative: a negative value is a fault of the client.
        payload: arrays sent down with the question, given by the federation's owner, and metered.
        summary: what the server learns, in words: the line of the privacy label.
        exact: reveals an individual update, so secure aggregation is impossible.
        width: a vector's length: a number, or the field of :class:`ModelSize` that it is; None: as most clients send.
        backward: whether it takes a backward pass over the data, too, as a gradient does: an example costs as much as
            one of training, where a forward pass costs a third.
    """

    name: str
    of: Literal["model", "training", "device", "pairs", "server"]
    compute: Callable[[Any, Payload], Any] = field(repr=False)
    scalar: bool = True
    nonnegative: bool = False
    payload: Payload = field(default_factory=dict, repr=False)
    summary: str = ""
    exact: bool = False
    width: Literal["parameters", "classes", "head", "outputs"] | int | None = None
    backward: bool = False

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "_-" for c in self.name):
            raise bad("Signal.name", "letters, digits, '-' and '_'", self.name)
        if self.of not in ("model", "training", "device", "pairs", "server"):
            raise bad(f"Signal({self.name}).of", "'model', 'training', 'device', 'pairs' or 'server'", self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signal) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def row(self, client: LocalClient) -> Array:
        """This client's answer."""
        return np.asarray(self.compute(client, self.payload), dtype=np.float64)

    def table(self, clients: Sequence[LocalClient]) -> Array:
        """The answers of several clients, one row each; of pairs, row i holds the products with all of them."""
        if self.of == "pairs":
            return np.asarray(self.compute(clients, self.payload), dtype=np.float64)
        return np.stack([self.row(client) for client in clients]) if clients else np.empty(0)

    def of_cohort(self, models: CohortModels) -> Array:
        """The server's own answer, a row for each client whose update arrived."""
        return np.asarray(self.compute(models, self.payload), dtype=np.float64)

    def length(self, model: ModelSize | None) -> int | None:
        """How many numbers a client's row has, where that is known."""
        if self.width is None or isinstance(self.width, int):
            return self.width
        found: int | None = None if model is None else getattr(model, self.width)
        return found

    @property
    def floats_down(self) -> int:
        """Numbers sent to each asked client beside the model."""
        return int(sum(np.size(array) for array in self.payload.values()))

    def sketch(self, dim: int, seed: int = 0) -> Signal:
        """The same vector, projected on the client to ``dim`` numbers by a shared seed.

        A count sketch (Charikar et al. 2002): inner products are unbiased with relative variance ≤ 2/dim.
        """
        if not is_whole(dim, 1):
            raise bad(f"{self.name}.sketch(dim)", "a whole number ≥ 1", dim)
        if self.scalar or self.of == "pairs":
            raise bad(f"{self.name}.sketch", "of a vector signal", f"the {self.of} signal {self.name!r}")
        inner = self.compute
        dim = int(dim)

        def project(client: LocalClient, payload: Payload) -> Array:
            return fold(np.asarray(inner(client, payload), dtype=np.float64), dim, seed)

        return replace(
            self,
            name=f"{self.name}-sketch{dim}" + (f"-{seed}" if seed else ""),
            compute=project,
            width=dim,
            summary=f"{self.summary}, projected to {dim} numbers",
        )


@lru_cache(maxsize=8)
def buckets_and_signs(length: int, dim: int, seed: int) -> tuple[Array, Array]:
    """Where :func:`fold` adds each coordinate, and with what sign."""
    rng = stream(seed, "sketch", length, dim)
    return rng.integers(dim, size=length), rng.choice(np.array([-1.0, 1.0]), size=length)


def fold(vector: Array, dim: int, seed: int = 0) -> Array:
    """Count sketch of a vector of any length: each coordinate is added, with a random sign, to a random bucket."""
    buckets, signs = buckets_and_signs(vector.size, dim, seed)
    return np.bincount(buckets, weights=vector * signs, minlength=dim)


def probe(mean: Array, scale: Array, samples: int = 128, seed: int = 0) -> Signal:
    """FedGS eq. 12: mean logits of the locally trained model on Gaussian noise with the given moments.

    ``mean`` and ``scale`` have the shape of one input and come from a validation set of the server.
    """
    mean, scale = np.asarray(mean, np.float64), np.asarray(scale, np.float64)
    if mean.shape != scale.shape:
        raise bad("probe.scale", f"of the mean's shape {mean.shape}", f"shape {scale.shape}")

    def mean_output(client: LocalClient, payload: Payload) -> Array:
        shape = (samples, *payload["mean"].shape)
        noise = payload["mean"] + payload["scale"] * stream(seed, "probe").standard_normal(shape)
        return np.asarray(client.train().outputs(noise).mean(axis=0))

    payload = MappingProxyType({"mean": mean, "scale": scale})
    return Signal(
        "probe", "training", mean_output, False, payload=payload, summary="mean response to noise", width="outputs"
    )


def _rms_loss(part: str, client: LocalClient, _: Payload) -> float:
    return client.train().rms_loss(part)


def _products(clients: Sequence[LocalClient], _: Payload) -> Array:
    return secure_products([client.label_counts for client in clients])


LOSS = Signal("loss", "model", lambda c, _: c.loss(), nonnegative=True, summary="mean loss of the current model")
BATCH_LOSS = Signal(
    "batch-loss", "model", lambda c, _: c.batch_loss(), nonnegative=True, summary="loss of one mini-batch"
)
ACCURACY = Signal(
    "accuracy", "model", lambda c, _: c.accuracy(), nonnegative=True, summary="accuracy of the current model"
)
GRADIENT = Signal(
    "gradient",
    "model",
    lambda c, _: c.gradient(),
    False,
    summary="full gradient",
    exact=True,
    width="parameters",
    backward=True,
)
UPDATE = Signal(
    "update", "training", lambda c, _: c.train().update, False, summary="model update", exact=True, width="parameters"
)
STEP_GRADIENT = Signal(
    "step-gradient",
    "training",
    lambda c, _: c.train().update / (-c.train().learning_rate * max(c.train().steps, 1)),
    False,
    summary="model update per local step",
    exact=True,
    width="parameters",
)
BIAS_UPDATE = Signal(
    "bias-update",
    "training",
    lambda c, _: c.train().output_bias,
    False,
    summary="output-layer bias change",
    exact=True,
    width="classes",
)
HEAD_UPDATE = Signal(
    "head-update",
    "training",
    lambda c, _: np.concatenate([np.ravel(c.train().output_weight), np.ravel(c.train().output_bias)]),
    False,
    summary="output-layer change",
    exact=True,
    width="head",
)
TRAINING_LOSS = Signal(
    "training-loss", "training", lambda c, _: c.train().loss, nonnegative=True, summary="mean loss while training"
)
DISPERSION = Signal(
    "dispersion",
    "training",
    lambda c, _: c.train().dispersion,
    nonnegative=True,
    summary="spread of stochastic gradients",
)
UPDATE_NORM = Signal(
    "update-norm",
    "training",
    lambda c, _: np.linalg.norm(np.asarray(c.train().update, np.float64)),
    nonnegative=True,
    summary="length of the model update",
)
RMS_LOSSES = {
    part: Signal(
        "rms-loss" if part == "all" else f"rms-loss-{part}",
        "training",
        partial(_rms_loss, part),
        nonnegative=True,
        summary=f"root mean square of sample losses in {which}",
    )
    for part, which in (
        ("all", "all mini-batches"),
        ("first", "the mini-batches of the first epoch"),
        ("last", "the last mini-batch"),
    )
}
DURATION = Signal("duration", "training", lambda c, _: c.train().duration, nonnegative=True, summary="time to answer")
RESOURCES = Signal(
    "resources",
    "device",
    lambda c, _: c.resources(),
    False,
    nonnegative=True,
    summary="expected seconds of a training and of sending the model",
    width=2,
)
PRODUCTS = Signal("products", "pairs", _products, False, summary="inner products of label counts between clients")

# what a client answers without being given more; a probe's moments come with the question
SIGNALS = (
    LOSS,
    BATCH_LOSS,
    ACCURACY,
    GRADIENT,
    UPDATE,
    STEP_GRADIENT,
    BIAS_UPDATE,
    HEAD_UPDATE,
    TRAINING_LOSS,
    DISPERSION,
    UPDATE_NORM,
    *RMS_LOSSES.values(),
    DURATION,
    RESOURCES,
    probe(np.zeros(1), np.ones(1)),
)


def sketched(name: str) -> tuple[str, int | None, int]:
    """(signal, dim, seed) of a sketch's name; dim is None for any other signal."""
    found = _SKETCH.fullmatch(name)
    if found is None:
        return name, None, 0
    return found["vector"], int(found["dim"]), int(found["seed"] or 0)


def find_signal(name: str, known: Mapping[str, Signal]) -> Signal | None:
    """The signal of this name among ``known``, folded where a sketch is meant; None if there is none."""
    if name in known:
        return known[name]
    vector, dim, seed = sketched(name)
    return known[vector].sketch(dim, seed) if dim is not None and vector in known else None
