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
from sortition.core.cohort_models import CohortModels
from sortition.core.errors import bad
from sortition.core.local_client import LocalClient
from sortition.core.secure_product import secure_products
from sortition.core.streams import stream
from sortition.core.validation import as_builtin, is_whole

Payload = Mapping[str, Array]
# (client, payload) -> row; of pairs (clients, payload) -> products; of the server (cohort models, payload) -> rows
Compute = Callable[[Any, Payload], Any]
_SKETCH = re.compile(r"(?P<vector>.+)-sketch(?P<dim>[0-9]+)(-(?P<seed>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The dimensions of the vectors that belong to a model; None where one is not known.

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
            dimension = getattr(self, item.name)
            if dimension is not None and not is_whole(dimension, 1):
                raise bad(f"ModelSize.{item.name}", "a whole number ≥ 1 or None", dimension)
            object.__setattr__(self, item.name, as_builtin(dimension))


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
        width: a vector's dimension: a number, or a field of :class:`ModelSize`; None: as most clients send.
        backward: whether it takes a backward pass over the data, too, as a gradient does: an example costs as much as
            one of training, where a forward pass costs a third.
    """

    name: str
    of: Literal["model", "training", "device", "pairs", "server"]
    compute: Compute = field(repr=False)
    scalar: bool = True
    nonnegative: bool = False
    payload: Payload = field(default_factory=dict, repr=False)
    summary: str = ""
    exact: bool = False
    width: Literal["parameters", "classes", "head", "outputs"] | int | None = None
    backward: bool = False

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-" for letter in self.name):
            raise bad("Signal.name", "letters, digits, '-' and '_'", self.name)
        if self.of not in ("model", "training", "device", "pairs", "server"):
            raise bad(f"Signal({self.name}).of", "'model', 'training', 'device', 'pairs' or 'server'", self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signal) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def row(self, client: LocalClient) -> Array:
        """Compute the answer of one client."""
        return np.asarray(self.compute(client, self.payload), dtype=np.float64)

    def table(self, clients: Sequence[LocalClient]) -> Array:
        """Compute the answers of several clients, one row each; of pairs, row i holds the products with all of them."""
        if self.of == "pairs":
            return np.asarray(self.compute(clients, self.payload), dtype=np.float64)
        if not clients:
            return np.empty(0)
        return np.stack([self.row(client) for client in clients])

    def of_cohort(self, models: CohortModels) -> Array:
        """Compute the server's own answer, a row for each client whose update arrived."""
        return np.asarray(self.compute(models, self.payload), dtype=np.float64)

    def dimension(self, model: ModelSize | None) -> int | None:
        """Return the dimension of a client's row, the number of its entries; None where that is not known."""
        if self.width is None or isinstance(self.width, int):
            return self.width
        if model is None:
            return None
        dimension: int | None = getattr(model, self.width)
        return dimension

    @property
    def floats_down(self) -> int:
        """How many numbers are sent to each asked client beside the model."""
        return int(sum(np.size(array) for array in self.payload.values()))

    def sketch(self, dim: int, seed: int = 0) -> Signal:
        """Return the signal of the same vector, projected on the client to ``dim`` numbers by a shared seed.

        A count sketch (Charikar et al. 2002): inner products are unbiased with relative variance ≤ 2/dim.
        """
        if not is_whole(dim, 1):
            raise bad(f"{self.name}.sketch(dim)", "a whole number ≥ 1", dim)
        if self.scalar or self.of == "pairs":
            raise bad(f"{self.name}.sketch", "of a vector signal", f"the {self.of} signal {self.name!r}")
        dim = int(dim)
        compute_vector = self.compute

        def project(client: LocalClient, payload: Payload) -> Array:
            return fold(np.asarray(compute_vector(client, payload), dtype=np.float64), dim, seed)

        name = f"{self.name}-sketch{dim}"
        if seed:
            name += f"-{seed}"
        return replace(
            self,
            name=name,
            compute=project,
            width=dim,
            summary=f"{self.summary}, projected to {dim} numbers",
        )


@lru_cache(maxsize=8)
def buckets_and_signs(n_entries: int, dim: int, seed: int) -> tuple[Array, Array]:
    """Draw the bucket to which :func:`fold` adds each coordinate, and its sign."""
    rng = stream(seed, "sketch", n_entries, dim)
    return rng.integers(dim, size=n_entries), rng.choice(np.array([-1.0, 1.0]), size=n_entries)


def fold(vector: Array, dim: int, seed: int = 0) -> Array:
    """Return the count sketch of a vector: each coordinate is added, with a random sign, to a random bucket."""
    buckets, signs = buckets_and_signs(vector.size, dim, seed)
    return np.bincount(buckets, weights=vector * signs, minlength=dim)


def make_probe(mean: Array, scale: Array, samples: int = 128, seed: int = 0) -> Signal:
    """Make the signal of FedGS eq. 12: mean logits of the locally trained model on Gaussian noise of given moments.

    ``mean`` and ``scale`` have the shape of one input and come from a validation set of the server.
    """
    mean = np.asarray(mean, np.float64)
    scale = np.asarray(scale, np.float64)
    if mean.shape != scale.shape:
        raise bad("probe.scale", f"of the mean's shape {mean.shape}", f"shape {scale.shape}")

    def mean_output(client: LocalClient, payload: Payload) -> Array:
        shape = (samples, *payload["mean"].shape)
        noise = payload["mean"] + payload["scale"] * stream(seed, "probe").standard_normal(shape)
        return np.asarray(client.train().outputs(noise).mean(axis=0))

    payload = MappingProxyType({"mean": mean, "scale": scale})
    return Signal(
        name="probe",
        of="training",
        compute=mean_output,
        scalar=False,
        payload=payload,
        summary="mean response to noise",
        width="outputs",
    )


def _step_gradient(client: LocalClient, _: Payload) -> Array:
    result = client.train()
    return result.update / (-result.learning_rate * max(result.steps, 1))


def _head_update(client: LocalClient, _: Payload) -> Array:
    result = client.train()
    return np.concatenate([np.ravel(result.output_weight), np.ravel(result.output_bias)])


def _update_norm(client: LocalClient, _: Payload) -> float:
    return float(np.linalg.norm(np.asarray(client.train().update, np.float64)))


def _rms_loss(part: str, client: LocalClient, _: Payload) -> float:
    return client.train().rms_loss(part)


def _products(clients: Sequence[LocalClient], _: Payload) -> Array:
    return secure_products([client.label_counts for client in clients])


LOSS = Signal(
    name="loss",
    of="model",
    compute=lambda client, _: client.loss(),
    nonnegative=True,
    summary="mean loss of the current model",
)
BATCH_LOSS = Signal(
    name="batch-loss",
    of="model",
    compute=lambda client, _: client.batch_loss(),
    nonnegative=True,
    summary="loss of one mini-batch",
)
ACCURACY = Signal(
    name="accuracy",
    of="model",
    compute=lambda client, _: client.accuracy(),
    nonnegative=True,
    summary="accuracy of the current model",
)
GRADIENT = Signal(
    name="gradient",
    of="model",
    compute=lambda client, _: client.gradient(),
    scalar=False,
    summary="full gradient",
    exact=True,
    width="parameters",
    backward=True,
)
UPDATE = Signal(
    name="update",
    of="training",
    compute=lambda client, _: client.train().update,
    scalar=False,
    summary="model update",
    exact=True,
    width="parameters",
)
STEP_GRADIENT = Signal(
    name="step-gradient",
    of="training",
    compute=_step_gradient,
    scalar=False,
    summary="model update per local step",
    exact=True,
    width="parameters",
)
BIAS_UPDATE = Signal(
    name="bias-update",
    of="training",
    compute=lambda client, _: client.train().output_bias,
    scalar=False,
    summary="output-layer bias change",
    exact=True,
    width="classes",
)
HEAD_UPDATE = Signal(
    name="head-update",
    of="training",
    compute=_head_update,
    scalar=False,
    summary="output-layer change",
    exact=True,
    width="head",
)
TRAINING_LOSS = Signal(
    name="training-loss",
    of="training",
    compute=lambda client, _: client.train().loss,
    nonnegative=True,
    summary="mean loss while training",
)
DISPERSION = Signal(
    name="dispersion",
    of="training",
    compute=lambda client, _: client.train().dispersion,
    nonnegative=True,
    summary="spread of stochastic gradients",
)
UPDATE_NORM = Signal(
    name="update-norm",
    of="training",
    compute=_update_norm,
    nonnegative=True,
    summary="norm of the model update",
)
RMS_LOSSES = {
    part: Signal(
        name=name,
        of="training",
        compute=partial(_rms_loss, part),
        nonnegative=True,
        summary=f"root mean square of sample losses in {batches}",
    )
    for part, name, batches in (
        ("all", "rms-loss", "all mini-batches"),
        ("first", "rms-loss-first", "the mini-batches of the first epoch"),
        ("last", "rms-loss-last", "the last mini-batch"),
    )
}
DURATION = Signal(
    name="duration",
    of="training",
    compute=lambda client, _: client.train().duration,
    nonnegative=True,
    summary="time to answer",
)
RESOURCES = Signal(
    name="resources",
    of="device",
    compute=lambda client, _: client.resources(),
    scalar=False,
    nonnegative=True,
    summary="expected seconds of a training and of sending the model",
    width=2,
)
PRODUCTS = Signal(
    name="products",
    of="pairs",
    compute=_products,
    scalar=False,
    summary="inner products of label counts between clients",
)

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
    make_probe(np.zeros(1), np.ones(1)),
)


def parse_sketch_name(name: str) -> tuple[str, int | None, int]:
    """Split a sketch's name into (signal, dim, seed); dim is None for any other signal."""
    match = _SKETCH.fullmatch(name)
    if match is None:
        return name, None, 0
    return match["vector"], int(match["dim"]), int(match["seed"] or 0)


def find_signal(name: str, known: Mapping[str, Signal]) -> Signal | None:
    """Return the signal of this name among ``known``, or the sketch of one; None if there is none."""
    if name in known:
        return known[name]
    vector, dim, seed = parse_sketch_name(name)
    if dim is None or vector not in known:
        return None
    return known[vector].sketch(dim, seed)
