"""Partitions that are not rules of this package: a user's function or index arrays, and a partition from a file.

A function and index arrays speak of the examples as the user gave them: rows of their ``x``, in their order, also where
some of these are held out for testing. A :class:`Partition` and its file speak of the training examples of a data set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Ids, as_whole
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import imported
from sortition.core.validation import check_takes
from sortition.data.dataset import unheld
from sortition.data.partitions._partition import Partition

Split = Callable[..., Sequence[npt.ArrayLike]]  # (labels, clients, rng, **options) → index arrays, one per client
FILE = ".npz"


def is_given(name: str) -> bool:
    """Whether a name is an import path or a saved partition's file rather than a rule."""
    return ":" in name or name.endswith(FILE)


def check(name: str, options: dict[str, Any]) -> None:
    """Refuse now what can be refused before any data are read."""
    if name.endswith(FILE):
        if options:
            raise unknown("key", next(iter(options)), (), f"partition {name}")
        if not Path(name).expanduser().is_file():
            raise bad("partition", "a rule's name or a saved partition's file", name)
        return
    found = imported(name, "partition.name")
    if isinstance(found, Partition):
        return
    if not callable(found):
        raise bad("partition.name", "a function (labels, clients, rng) → index arrays", type(found).__name__)
    accepted = inspect.signature(found).parameters
    for key in options:
        if key not in accepted and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
            raise unknown("key", key, list(accepted)[3:], f"partition {name}")
    check_takes(found, ("labels", "clients", "rng"), "partition", **options)


class IndexArrays:
    """Index arrays that somebody gave in place of a function: the rows of each client."""

    def __init__(self, indices: Sequence[npt.ArrayLike]) -> None:
        self.indices = tuple(np.array(one) for one in indices)

    def __len__(self) -> int:
        """Number of clients."""
        return len(self.indices)

    def __call__(self, labels: Ids, clients: int, rng: np.random.Generator) -> Sequence[npt.ArrayLike]:
        """The arrays, whatever the labels are."""
        return self.indices


def split(
    name: str,
    labels: Ids,
    clients: int,
    rng: np.random.Generator,
    options: dict[str, Any],
    given_rows: tuple[Ids, Ids] | None,
) -> Partition:
    """The saved partition, or what the user's function makes of the labels; of training examples alone.

    ``labels`` are those of the training examples, or with ``given_rows`` (of training and test examples) those of all
    examples in the order in which they were given.
    """
    check(name, options)
    found = Partition.load(Path(name).expanduser()) if name.endswith(FILE) else imported(name, "partition.name")
    if isinstance(found, Partition):
        partition, training = found, labels.size if given_rows is None else given_rows[0].size
        _check_fits(partition, clients, training, "the number of training examples")
    else:
        partition, training = _called(found, labels, clients, rng, options), labels.size
        _check_fits(partition, clients, labels.size, "the number of examples")
        if given_rows is not None:
            partition, training = _without_test(partition, labels.size, given_rows), given_rows[0].size
    if empty := int((partition.sizes == 0).sum()):
        raise bad("partition", "such that every client has a training example", f"{empty} empty clients")
    notes = [note for note in unheld(int(partition.sizes.sum()), training) if note not in partition.notes]
    return replace(partition, notes=(*partition.notes, *notes)) if notes else partition  # saved ones have the note


def _check_fits(partition: Partition, clients: int, examples: int, words: str) -> None:
    """Refuse a partition of another number of clients or examples."""
    if len(partition) != clients:
        raise bad("partition.clients", f"{len(partition)}, as the partition has", clients)
    last = max((int(one.max()) for one in partition.indices if one.size), default=-1)
    if last >= examples:
        raise bad("partition.indices", f"below {examples}, {words}", last)


def _without_test(partition: Partition, examples: int, given_rows: tuple[Ids, Ids]) -> Partition:
    """Rows of the data as they were given, as indices of training examples; those held out for testing are left out."""
    place = np.full(examples, -1)
    place[given_rows[0]] = np.arange(given_rows[0].size)
    places = [place[rows] for rows in partition.indices]
    taken = sum(int((one < 0).sum()) for one in places)
    note = f"{taken:,} of the {int(partition.sizes.sum()):,} examples in the partition are held out for testing."
    notes = (*partition.notes, note) if taken else partition.notes
    return Partition(tuple(np.sort(one[one >= 0]) for one in places), notes)


def _called(make: Split, labels: Ids, clients: int, rng: np.random.Generator, options: dict[str, Any]) -> Partition:
    made = make(labels, clients, rng, **options)
    try:
        return Partition(tuple(np.sort(as_whole("partition.indices", one)) for one in made))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise bad("partition", "index arrays, one per client", type(made).__name__, f"{error}") from None
