"""Splitting data over clients exactly as the papers do: ``split("shards", labels, 100, rng, per_client=2)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.registry import Family
from sortition.data.dataset import Dataset
from sortition.data.partitions import _given
from sortition.data.partitions._given import IndexArrays
from sortition.data.partitions._partition import Partition
from sortition.data.partitions._rule import PartitionRule

__all__ = [
    "FAMILY",
    "NATURAL",
    "IndexArrays",
    "Partition",
    "PartitionRule",
    "check",
    "discover",
    "rule",
    "split",
    "split_dataset",
]

NATURAL = "natural"  # the clients that a data set comes with
FAMILY = Family(__name__, "partition", PartitionRule)  # type: ignore[type-abstract]


def discover() -> list[str]:
    """The names of all partitions."""
    return FAMILY.discover()


def rule(name: str, **params: Any) -> PartitionRule:
    """The validated parameters of a partition, before any data are at hand."""
    return FAMILY.make(name, params)


def check(name: str, **params: Any) -> None:
    """Refuse a wrong name or parameter of a partition before any data are at hand."""
    if _given.is_given(name):
        _given.check(name, params)
    else:
        rule(name, **params)


def split(name: str, labels: npt.ArrayLike, clients: int, rng: np.random.Generator, /, **params: Any) -> Partition:
    """Split examples with these ``labels`` (n,) over ``clients``; loses none and gives none twice.

    ``name`` is a rule, the file of a saved partition, or the import path of a function ``(labels, clients, rng)`` that
    gives index arrays. A client that a rule leaves empty gets one example from the largest, as the notes then say.
    """
    given = np.asarray(labels)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise bad("partition.labels", "a non-empty list of whole numbers", given)
    if isinstance(clients, bool) or not isinstance(clients, int | np.integer) or clients < 1:
        raise bad("partition.clients", "a whole number ≥ 1", clients)
    if clients > given.size:
        raise bad("partition.clients", f"at most {given.size}, one example each", clients)
    if _given.is_given(name):
        return _given.split(name, given, int(clients), rng, params, None)
    chosen = rule(name, **params)
    dense = np.unique(given, return_inverse=True)[1].astype(np.int64)  # labels without examples play no part
    notes: list[str] = []
    owners = chosen.owners(dense, int(clients), rng, notes)
    _fill_empty(owners, int(clients), notes)
    return Partition.of_owners(owners, int(clients), tuple(notes))


def split_dataset(name: str, dataset: Dataset, clients: int, rng: np.random.Generator, /, **params: Any) -> Partition:
    """Split the training examples of a data set.

    A rule gets their labels. A function of the user's own gets all labels in the order in which the examples were given
    and gives rows of them; those that are held out for testing are taken away.
    """
    if not _given.is_given(name) or dataset.given_rows is None:
        return split(name, dataset.y_train, clients, rng, **params)
    return _given.split(name, dataset.given_labels, clients, rng, params, dataset.given_rows)


def _fill_empty(owners: Ids, clients: int, notes: list[str]) -> None:
    """In place: each empty client takes the first example of whoever holds most."""
    sizes = np.bincount(owners, minlength=clients)
    empty = np.flatnonzero(sizes == 0)
    if not empty.size:
        return
    notes.append(f"{empty.size} of {clients} clients were left empty and got one example from the largest.")
    spare = np.maximum(sizes - 1, 0)
    # whoever is largest gives first: rank each client's spare examples from the top, take the highest ranks
    order = np.argsort(owners, kind="stable")
    starts = np.cumsum(sizes) - sizes
    place = np.arange(owners.size) - np.repeat(starts, sizes)  # 0 … n_k − 1 within its client
    level = np.repeat(sizes, sizes) - place  # how large the client is when this example leaves
    movable = place < np.repeat(spare, sizes)
    ranked = np.argsort(np.where(movable, -level, 1), kind="stable")[: empty.size]
    owners[order[ranked]] = empty
