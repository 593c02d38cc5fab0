"""A small federation like the one described: the same sizes, mixtures, availability, cohort and dropouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.advice.profile import Known
from sortition.core.arrays import Array
from sortition.core.selector import Selector
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.data import Dataset
    from sortition.simulation import Setup

LARGEST = 200  # examples of a client: larger ones keep their share of weight, not their number
MEAN = 30
HIDDEN, STEPS, BATCH, RATE = 32, 5, 10, 0.1
DIMENSION, TEST = 32, 50  # of made-up classes: inputs, and test examples of each


def setups(source: Known, selectors: dict[str, Selector[Any]], rounds: int, seed: int) -> dict[str, Setup]:
    """The same federation for each method: who holds what, model, availability and batches depend on the seed alone."""
    from sortition.learning import build
    from sortition.learning.rule import LocalRule
    from sortition.simulation import FaultDraws, Faults, Setup, World

    rng = stream(seed, "matched federation")
    counts = scaled(source.counts)
    dataset = examples(counts.shape[1], rng)
    model = build("mlp", dataset.x_train.shape[1:], dataset.classes, seed=seed, hidden=[HIDDEN])
    world = World(
        dataset, holdings(counts, dataset.y_train, rng), model, LocalRule(lr=RATE, steps=STEPS, batch=BATCH), seed=seed
    )
    faults = FaultDraws(Faults(before=source.dropout), source.clients, seed)
    shared: dict[str, Any] = {"availability": source.present(seed), "evaluate_every": 2, "seed": seed, "faults": faults}
    return {label: Setup(world, one, source.cohort, rounds, **shared) for label, one in selectors.items()}


def scaled(counts: Array) -> Array:
    """Label counts with the same shares and relative sizes, about ``MEAN`` examples a client; nobody is empty."""
    sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    factor = np.minimum(MEAN / sizes.mean(), LARGEST / sizes)
    made = np.rint(counts * factor).astype(np.int64)
    empty = made.sum(axis=1) == 0
    made[empty, counts[empty].argmax(axis=1)] = 1
    return np.asarray(made)


def examples(labels: int, rng: np.random.Generator) -> Dataset:
    """Handwritten digits for up to ten labels; Gaussian classes beyond."""
    from sortition.data import Dataset, load

    if labels <= 10:
        digits = load("digits").scaled()
        train, test = digits.y_train < labels, digits.y_test < labels
        arrays = digits.x_train[train], digits.y_train[train], digits.x_test[test], digits.y_test[test]
        return Dataset("digits", *arrays, max(labels, 2), digest="none")
    centres = rng.normal(size=(labels, DIMENSION)).astype(np.float32)
    y = np.repeat(np.arange(labels), 2 * TEST)
    x = (centres[y] + rng.normal(size=(y.size, DIMENSION))).astype(np.float32)
    return Dataset("made up", x[::2], y[::2], x[1::2], y[1::2], labels, digest="none")


def test_examples(source: Known) -> int:
    """How many examples the models of a matched federation are tested on."""
    return len(examples(source.counts.shape[1], stream(0, "matched federation")).y_test)


def holdings(counts: Array, y: Array, rng: np.random.Generator) -> list[Array]:
    """(N,) index arrays: so many examples of each label, drawn with replacement."""
    of = [np.flatnonzero(y == label) for label in range(counts.shape[1])]
    return [
        np.concatenate([rng.choice(of[label], int(n)) for label, n in enumerate(row) if n] or [of[0][:0]])
        for row in counts
    ]
