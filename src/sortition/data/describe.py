"""How skewed a partition is: sizes, labels per client, distance of each client's mixture from the global one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.inputs import Examples, Inputs
from sortition.data.dataset import Dataset
from sortition.data.partitions import Partition


@dataclass(frozen=True, eq=False)
class Description:
    """The figures of a partition.

    Attributes:
        counts: (N, L) examples of each label at each client.
        labels: (N,) number of labels that a client holds.
        distance: (N,) total variation ½ Σ_l |p_kl − p_l| between a client's label mixture and the global one.
        digest: of the partition.
        notes: on the partition, in sentences.
    """

    counts: Ids
    labels: Ids
    distance: Floats
    digest: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Write the figures in a few lines."""
        sizes = self.counts.sum(axis=1)
        rows = [
            ("clients", f"{len(sizes):,}"),
            ("examples", f"{sizes.sum():,}"),
            ("examples per client", _spread(sizes, "{:,.0f}")),
            ("labels per client", _spread(self.labels, "{:.0f}")),
            ("distance to the global mixture", _spread(self.distance, "{:.3f}")),
            ("digest", self.digest),
            *(("note", note) for note in self.notes),
        ]
        return _align(rows)


def describe(partition: Partition, labels: Ids, classes: int) -> Description:
    """Compute the figures of a partition of examples with these ``labels`` (n,)."""
    if not classes:
        given_targets = f"{labels.dtype} targets of shape {labels.shape[1:]}"
        raise bad(
            "labels", "given where their skew is described (classification only)", given_targets, "See: data show."
        )
    counts = partition.label_counts(labels, classes)
    sizes = counts.sum(axis=1, keepdims=True)
    mixtures = counts / np.maximum(sizes, 1)
    global_mixture = counts.sum(axis=0) / max(int(counts.sum()), 1)
    return Description(
        counts=counts,
        labels=(counts > 0).sum(axis=1),
        distance=np.abs(mixtures - global_mixture).sum(axis=1) / 2,
        digest=partition.digest,
        notes=partition.notes,
    )


def describe_data(dataset: Dataset) -> str:
    """Write what models get of a data set in a few lines: types, shapes and numbers of inputs and targets."""
    prepared = dataset.scaled()
    rows = [
        ("data set", dataset.name),
        ("examples", f"{len(dataset.y_train):,} for training, {len(dataset.y_test):,} for testing"),
        ("given", dataset.describe_inputs()),
        *[(f"a model gets{name}", words) for name, words in _model_inputs(prepared.x_train)],
        ("targets", dataset.describe_targets()),
        ("task", "classification" if dataset.classes else "one with a loss of its own: [task] loss = …"),
    ]
    if dataset.clients is not None:
        rows.append(("clients", f"{len(dataset.clients):,}"))
    if dataset.held_out:
        rows.append(("held out", dataset.held_out))
    rows += [("note", note) for note in dataset.notes]
    return _align(rows)


def _model_inputs(x: Examples) -> list[tuple[str, str]]:
    """List the type and shape of a batch of each input."""
    if not isinstance(x, Inputs):
        return [("", _batch(x))]
    return [(f", {name}", _batch(array)) for name, array in x.arrays.items()]


def _batch(array: Array) -> str:
    shape = ", ".join(["batch", *map(str, array.shape[1:])])
    return f"{array.dtype} of shape ({shape})"


def _align(rows: Sequence[tuple[str, str]]) -> str:
    """Write names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _spread(values: Ids | Floats, number_format: str) -> str:
    low, median, high = (number_format.format(float(value)) for value in np.quantile(values, (0, 0.5, 1)))
    return f"{low} … {high}, median {median}"
