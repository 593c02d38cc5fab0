"""A small federation like the one described: the same sizes, mixtures, availability, cohort and dropouts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sortition.advice.profile import KnownFederation
from sortition.core.arrays import Array
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER, Until
from sortition.core.selector import AnySelector
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.data import Dataset
    from sortition.learning.rule import LocalRule
    from sortition.simulation import Devices, Setup

LARGEST_CLIENT = 200  # examples: larger clients keep their share of weight, not their number
MEAN_CLIENT = 30  # examples
# of the model and its local training
HIDDEN = 32
STEPS = 5
BATCH = 10
RATE = 0.1
MOST_TIMES_THE_ROUNDS = 3  # that a method may play in uniform's time
# of made-up classes
DIMENSION = 32  # numbers of an input
TEST_PER_LABEL = 50  # test examples, and as many for training


def setups(
    federation: KnownFederation, selectors: Mapping[str, AnySelector], rounds: int, seed: int
) -> dict[str, Setup]:
    """Set up the same federation for each method: data, model, availability and batches depend on the seed alone."""
    from sortition.core.inputs import shape_of
    from sortition.learning import build
    from sortition.learning.rule import LocalRule
    from sortition.simulation import FaultDraws, Faults, Setup, World

    rng = stream(seed, "matched federation")
    counts = scaled(federation.counts)
    dataset = examples(counts.shape[1], rng)
    model = build("mlp", shape_of(dataset.x_train), dataset.classes, seed=seed, hidden=[HIDDEN])
    client_rows = holdings(counts, dataset.y_train, rng)
    rule = LocalRule(lr=RATE, steps=STEPS, batch=BATCH)
    devices = None
    if federation.devices is not None:
        model_numbers = sum(parameter.numel() for parameter in model.parameters())
        devices = matched_devices(
            federation, counts.sum(axis=1), rule, model_bytes=BYTES_PER_NUMBER * model_numbers, seed=seed
        )
    world = World(dataset, client_rows, model, rule, seed=seed, devices=devices)
    faults = FaultDraws(Faults(before=federation.dropout), federation.clients, seed)
    availability = federation.present(seed)
    return {
        label: Setup(
            world,
            selector,
            federation.cohort,
            rounds,
            seed=seed,
            availability=availability,
            faults=faults,
            evaluate_every=2,
            pace=federation.pace,
        )
        for label, selector in selectors.items()
    }


def matched_devices(
    federation: KnownFederation, matched_sizes: Array, rule: LocalRule, *, model_bytes: int, seed: int
) -> Devices:
    """Return devices on which small clients with a small model take the seconds that the real ones would take."""
    from sortition.simulation.devices import ClientData, Devices, Fleet

    real = federation.devices or Devices()
    sizes = federation.counts.sum(axis=1)
    fleet = Fleet(real, federation.clients, seed, ClientData(sizes, federation.counts))
    matched_examples = np.array([rule.examples_of(int(size)) for size in matched_sizes])
    speed = fleet.speed * matched_examples / federation.work.examples_of(sizes)
    size_ratio = 1.0
    if federation.work.megabytes is not None:
        size_ratio = model_bytes / (BYTES_PER_MEGABYTE * federation.work.megabytes)
    rows = []
    for client in range(federation.clients):
        row = {"client": client, "examples_per_second": float(speed[client])}
        for name in ("bandwidth_down", "bandwidth_up"):
            bandwidth = float(getattr(fleet, name)[client])
            if math.isfinite(bandwidth):
                row[name] = bandwidth * size_ratio
        rows.append(row)
    return Devices(table=rows, jitter=real.jitter, dropout=real.dropout, busy=real.busy)


def until_same_time(setup: Setup, seconds: float) -> Setup:
    """Return a set-up that ends after so many simulated seconds, and after three times its rounds at the latest."""
    return replace(setup, horizon=MOST_TIMES_THE_ROUNDS * setup.most_rounds, until=Until(seconds=seconds))


def scaled(counts: Array) -> Array:
    """Return label counts of the same shares and relative sizes, about 30 examples a client; nobody is empty."""
    sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    factor = np.minimum(MEAN_CLIENT / sizes.mean(), LARGEST_CLIENT / sizes)
    scaled_counts = np.rint(counts * factor).astype(np.int64)
    is_empty = scaled_counts.sum(axis=1) == 0
    scaled_counts[is_empty, counts[is_empty].argmax(axis=1)] = 1
    return np.asarray(scaled_counts)


def examples(labels: int, rng: np.random.Generator) -> Dataset:
    """Return handwritten digits for up to ten labels; Gaussian classes beyond."""
    from sortition.data import Dataset, load

    if labels <= 10:
        digits = load("digits").scaled()
        in_train = digits.y_train < labels
        in_test = digits.y_test < labels
        return Dataset(
            name="digits",
            x_train=digits.x_train[in_train],
            y_train=digits.y_train[in_train],
            x_test=digits.x_test[in_test],
            y_test=digits.y_test[in_test],
            classes=max(labels, 2),
            digest="none",
        )
    centres = rng.normal(size=(labels, DIMENSION)).astype(np.float32)
    y = np.repeat(np.arange(labels), 2 * TEST_PER_LABEL)
    x = (centres[y] + rng.normal(size=(y.size, DIMENSION))).astype(np.float32)
    return Dataset(
        name="made up",
        x_train=x[::2],
        y_train=y[::2],
        x_test=x[1::2],
        y_test=y[1::2],
        classes=labels,
        digest="none",
    )


def test_examples(federation: KnownFederation) -> int:
    """Return how many examples the models of a matched federation are tested on."""
    dataset = examples(federation.counts.shape[1], stream(0, "matched federation"))
    return len(dataset.y_test)


def holdings(counts: Array, y: Array, rng: np.random.Generator) -> list[Array]:
    """Draw the rows of each client: so many examples of each label, with replacement."""
    rows_by_label = [np.flatnonzero(y == label) for label in range(counts.shape[1])]
    client_rows = []
    for label_counts in counts:
        rows = [rng.choice(rows_by_label[label], int(count)) for label, count in enumerate(label_counts) if count]
        client_rows.append(np.concatenate(rows or [np.empty(0, np.int64)]))
    return client_rows
