"""Partitions that are not rules of this package: a user's function, and a partition that was saved to a file."""

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


def split(name: str, labels: Ids, clients: int, rng: np.random.Generator, options: dict[str, Any]) -> Partition:
    """The saved partition, or what the user's function makes of the labels."""
    check(name, options)
    found = Partition.load(Path(name).expanduser()) if name.endswith(FILE) else imported(name, "partition.name")
    made = found if isinstance(found, Partition) else _called(found, labels, clients, rng, options)
    if len(made) != clients:
        raise bad("partition.clients", f"{len(made)}, as the partition has", clients)
    last = max((int(one.max()) for one in made.indices if one.size), default=-1)
    if last >= labels.size:
        raise bad("partition.indices", f"below {labels.size}, the number of training examples", last)
    if empty := int((made.sizes == 0).sum()):
        raise bad("partition", "such that every client has an example", f"{empty} empty clients")
    new = [note for note in unheld(int(made.sizes.sum()), labels.size) if note not in made.notes]  # saved ones have it
    return replace(made, notes=(*made.notes, *new)) if new else made


def _called(make: Split, labels: Ids, clients: int, rng: np.random.Generator, options: dict[str, Any]) -> Partition:
    made = make(labels, clients, rng, **options)
    try:
        return Partition(tuple(np.sort(as_whole("partition.indices", one)) for one in made))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise bad("partition", "index arrays, one per client", type(made).__name__, f"{error}") from None
