"""Splits data over clients exactly as the papers do: ``split("shards", labels, 100, rng, per_client=2)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.registry import Family
from sortition.data.dataset import Dataset
from sortition.data.partitions import _user_split
from sortition.data.partitions._partition import Partition
from sortition.data.partitions._rule import PartitionRule
from sortition.data.partitions._user_split import IndexArrays

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
    """List the names of all partitions."""
    return FAMILY.discover()


def rule(name: str, **params: Any) -> PartitionRule:
    """Return a rule with validated parameters."""
    return FAMILY.make(name, params)


def check(name: str, **params: Any) -> None:
    """Refuse a wrong name or parameter of a partition before any data are at hand."""
    if _user_split.is_user_split(name):
        _user_split.check(name, params)
    else:
        rule(name, **params)


def split(name: str, labels: npt.ArrayLike, clients: int, rng: np.random.Generator, /, **params: Any) -> Partition:
    """Split examples with these ``labels`` (n,) over ``clients``; none is lost and none is given twice.

    ``name`` is a rule, the file of a saved partition, or the import path of a function ``(labels, clients, rng)`` that
    returns index arrays. A client that a rule leaves empty gets one example from the largest, as the notes then say.
    """
    label_array = np.asarray(labels)
    if label_array.ndim != 1 or label_array.size == 0 or label_array.dtype.kind not in "iu":
        raise bad("partition.labels", "a non-empty list of whole numbers", label_array)
    if isinstance(clients, bool) or not isinstance(clients, int | np.integer) or clients < 1:
        raise bad("partition.clients", "a whole number ≥ 1", clients)
    if clients > label_array.size:
        raise bad("partition.clients", f"at most {label_array.size}, one example each", clients)
    if _user_split.is_user_split(name):
        return _user_split.split(name, label_array, int(clients), rng, options=params, given_rows=None)
    partition_rule = rule(name, **params)
    dense_labels = np.unique(label_array, return_inverse=True)[1].astype(np.int64)  # without unused labels
    notes: list[str] = []
    owners = partition_rule.owners(dense_labels, int(clients), rng, notes)
    _fill_empty(owners, int(clients), notes)
    return Partition.of_owners(owners, int(clients), tuple(notes))


def split_dataset(name: str, dataset: Dataset, clients: int, rng: np.random.Generator, /, **params: Any) -> Partition:
    """Split the training examples of a data set.

    A rule gets their labels. A user's function gets all labels, or targets that are no labels, in the order in which
    the examples were given and returns rows of them; those that are held out for testing are then left out.
    """
    is_user_split = _user_split.is_user_split(name)
    if not is_user_split and not dataset.classes:
        return _split_without_labels(name, dataset, clients, rng, **params)
    if not is_user_split or (dataset.given_rows is None and dataset.classes):
        return split(name, dataset.y_train, clients, rng, **params)
    labels = dataset.given_labels
    return _user_split.split(name, labels, clients, rng, options=params, given_rows=dataset.given_rows)


def _split_without_labels(
    name: str, dataset: Dataset, clients: int, rng: np.random.Generator, /, **params: Any
) -> Partition:
    """Split examples whose targets are no labels; refuse a rule that goes by labels."""
    if rule(name, **params).by_label:
        hint = "Use 'iid', the rows of each client, a function of your own, or data that come with clients."
        raise bad(f"partition {name!r}", "given labels (classification only)", dataset.describe_targets(), hint)
    return split(name, np.zeros(len(dataset.y_train), np.int64), clients, rng, **params)


def _fill_empty(owners: Ids, clients: int, notes: list[str]) -> None:
    """Give each empty client the first example of the client that holds most, in place."""
    sizes = np.bincount(owners, minlength=clients)
    empty = np.flatnonzero(sizes == 0)
    if not empty.size:
        return
    notes.append(f"{empty.size} of {clients} clients were left empty and got one example from the largest.")
    # the largest client gives first: order all spare examples by how large their client is when they leave it
    order = np.argsort(owners, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank_in_client = np.arange(owners.size) - np.repeat(starts, sizes)  # 0 … n_k − 1
    size_when_leaving = np.repeat(sizes, sizes) - rank_in_client
    is_spare = rank_in_client < np.repeat(np.maximum(sizes - 1, 0), sizes)
    moved = np.argsort(np.where(is_spare, -size_when_leaving, 1), kind="stable")[: empty.size]
    owners[order[moved]] = empty
