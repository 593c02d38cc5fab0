"""Partitions that are not rules of this package: a user's function or index arrays, and a partition from a file.

A function and index arrays refer to the examples as the user gave them: rows of their ``x``, in their order, also where
some of these are held out for testing. A :class:`Partition` and its file refer to the training examples of a data set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Ids, as_whole_numbers
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import import_named
from sortition.core.validation import check_parameters
from sortition.data.dataset import note_unheld
from sortition.data.partitions._partition import Partition

SplitFunction = Callable[..., Sequence[npt.ArrayLike]]  # (labels, clients, rng, **options) → index arrays, one a client
Options = Mapping[str, object]
FILE_SUFFIX = ".npz"


def is_user_split(name: str) -> bool:
    """Tell whether a name is an import path or a saved partition's file rather than a rule."""
    return ":" in name or name.endswith(FILE_SUFFIX)


def check(name: str, options: Options) -> None:
    """Refuse now what can be refused before any data are read."""
    if name.endswith(FILE_SUFFIX):
        if options:
            raise unknown("key", next(iter(options)), (), f"partition {name}")
        if not Path(name).expanduser().is_file():
            raise bad("partition", "a rule's name or a saved partition's file", name)
        return
    target = import_named(name, "partition.name")
    if isinstance(target, Partition):
        return
    if not callable(target):
        raise bad("partition.name", "a function (labels, clients, rng) → index arrays", type(target).__name__)
    parameters = inspect.signature(target).parameters
    takes_any_option = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in options:
        if key not in parameters and not takes_any_option:
            raise unknown("key", key, list(parameters)[3:], f"partition {name}")
    check_parameters(target, ("labels", "clients", "rng"), "partition", **options)


class IndexArrays:
    """Index arrays that a user gave in place of a function: the rows of each client."""

    def __init__(self, indices: Sequence[npt.ArrayLike]) -> None:
        self.indices = tuple(np.array(rows) for rows in indices)

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.indices)

    def __call__(self, labels: Ids, clients: int, rng: np.random.Generator) -> Sequence[npt.ArrayLike]:
        """Return the arrays, whatever the labels are."""
        return self.indices


def split(
    name: str,
    labels: Ids,
    clients: int,
    rng: np.random.Generator,
    *,
    options: Options,
    given_rows: tuple[Ids, Ids] | None,
) -> Partition:
    """Load the saved partition, or call the user's function; return a partition of the training examples alone.

    Args:
        name: an import path or a file.
        labels: of the training examples, or with ``given_rows`` of all examples in the order in which they were given.
        clients: number of clients.
        rng: for the user's function.
        options: of the user's function.
        given_rows: rows of the training and of the test examples among all examples.
    """
    check(name, options)
    n_training = len(labels) if given_rows is None else given_rows[0].size
    target = _target(name)
    if isinstance(target, Partition):
        partition = target
        _check_fits(partition, clients, n_training, "the number of training examples")
    else:
        partition = _call(target, labels, clients, rng, options=options)
        _check_fits(partition, clients, len(labels), "the number of examples")
        if given_rows is not None:
            partition = _without_test_examples(partition, len(labels), given_rows)
    n_empty = int((partition.sizes == 0).sum())
    if n_empty:
        raise bad("partition", "such that every client has a training example", f"{n_empty} empty clients")
    notes = note_unheld(int(partition.sizes.sum()), n_training)
    new_notes = [note for note in notes if note not in partition.notes]  # a saved partition has the note already
    if not new_notes:
        return partition
    return replace(partition, notes=(*partition.notes, *new_notes))


def _target(name: str) -> Partition | SplitFunction:
    """Return the partition of a file, or the partition or function behind an import path."""
    if name.endswith(FILE_SUFFIX):
        return Partition.load(Path(name).expanduser())
    target: Partition | SplitFunction = import_named(name, "partition.name")
    return target


def _check_fits(partition: Partition, clients: int, examples: int, words: str) -> None:
    """Refuse a partition of another number of clients or examples."""
    if len(partition) != clients:
        raise bad("partition.clients", f"{len(partition)}, as the partition has", clients)
    largest_index = max((int(rows.max()) for rows in partition.indices if rows.size), default=-1)
    if largest_index >= examples:
        raise bad("partition.indices", f"below {examples}, {words}", largest_index)


def _without_test_examples(partition: Partition, examples: int, given_rows: tuple[Ids, Ids]) -> Partition:
    """Turn rows of the given data into indices of training examples, without those that are held out for testing."""
    train_rows, _ = given_rows
    training_index = np.full(examples, -1)
    training_index[train_rows] = np.arange(train_rows.size)
    indices_by_client = [training_index[rows] for rows in partition.indices]
    notes = partition.notes
    n_held_out = sum(int((indices < 0).sum()) for indices in indices_by_client)
    if n_held_out:
        n_rows = int(partition.sizes.sum())
        notes = (*notes, f"{n_held_out:,} of the {n_rows:,} examples in the partition are held out for testing.")
    return Partition(tuple(np.sort(indices[indices >= 0]) for indices in indices_by_client), notes)


def _call(
    function: SplitFunction, labels: Ids, clients: int, rng: np.random.Generator, *, options: Options
) -> Partition:
    """Make a partition of the index arrays that a user's function returns."""
    indices_by_client = function(labels, clients, rng, **options)
    try:
        return Partition(
            tuple(np.sort(as_whole_numbers("partition.indices", indices)) for indices in indices_by_client)
        )
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise bad("partition", "index arrays, one per client", type(indices_by_client).__name__, f"{error}") from None
