"""Natural federations of the user's own: client ids, per-client arrays, a data frame, or LEAF's JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import DataError, bad
from sortition.core.storage.safe_files import read_regular
from sortition.core.streams import stream
from sortition.data.dataset import Dataset
from sortition.data.user_data import as_labels, as_numpy

LARGEST = 4 << 30  # bytes of one LEAF file
MOST = 1_000_000_000  # rows of a Parquet file, which can announce any number in a kilobyte
TEST = 0.2


def by_client(x: Any, y: Any, clients: Any, *, name: str = "own", test: float = TEST, seed: int = 0) -> Dataset:
    """Examples with the client of each (n,): numbers or texts. A share ``test`` of every client's is held for testing.

    A client with one example keeps it for training.
    """
    x, y, owners = as_numpy(x), as_labels(as_numpy(y), f"{name}.y"), as_numpy(clients)
    if len(x) != len(y) or owners.shape != y.shape:
        raise bad(f"{name}.clients", f"{len(x)} ids beside {len(x)} labels", f"{owners.shape} and {y.shape}")
    if not 0 < test < 1:
        raise bad(f"{name}.test", "a share between 0 and 1", test)
    _check_present(owners, f"{name}.clients")
    try:
        held = _held_out(owners, test, seed)
    except TypeError:  # they have no order
        raise bad(f"{name}.clients", "all numbers or all texts", "ids of several types") from None
    given_rows = np.flatnonzero(~held), np.flatnonzero(held)
    held_out = f"{int(held.sum()):,} of the {len(y):,} examples given, drawn at random from every client's"
    return replace(pooled(x, y, owners, held, name=name), given_rows=given_rows, held_out=held_out)


def _check_present(values: Array, who: str) -> None:
    """Refuse None, NaN, NaT and pandas' NA, which would become a client or a class of their own."""
    if values.dtype.kind in "iubU":
        return
    # NaN and NaT differ from themselves, and NA == NA is NA, which is no truth value
    missing = sum(value is None or str(value == value) in ("False", "<NA>") for value in values.ravel())
    if missing:
        raise bad(who, "given for every example", f"{missing:,} of {values.size:,} missing", "Drop these rows first.")


def _held_out(owners: Array, share: float, seed: int) -> Array:
    """(n,) whether an example is for testing: ⌊share · n_k⌋ of each client's, drawn by the seed."""
    ids, sizes = np.unique(owners, return_inverse=True, return_counts=True)[1:]
    order = np.lexsort((stream(seed, "own data").random(owners.size), ids))
    place = np.arange(owners.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = np.zeros(owners.size, bool)
    held[order] = place < np.repeat(np.floor(share * sizes), sizes)
    return held


def pooled(x: Array, y: Ids, owners: Array, held: Array, *, name: str) -> Dataset:
    """Training examples with their clients in the order of their ids, and the test examples of all of them together."""
    train = np.flatnonzero(~held)
    ids = np.unique(owners[train], return_inverse=True)[1]
    order = np.argsort(ids, kind="stable")
    clients = np.split(order, np.cumsum(np.bincount(ids))[:-1])
    if not held.any():
        raise bad(f"{name}", "such that some client has examples for testing", "none")
    classes = int(y.max(initial=0)) + 1
    return Dataset(name, x[train], y[train], x[held], y[held], classes, clients=tuple(clients))


def from_clients(
    examples: Mapping[Any, Sequence[Any]], *, name: str = "own", test: float = TEST, seed: int = 0
) -> Dataset:
    """``{client: (x, y)}``: the arrays of every client."""
    try:
        pairs = {client: (as_numpy(x), as_numpy(y)) for client, (x, y) in examples.items()}
        alike = all(len(x) == len(y) for x, y in pairs.values())
    except (TypeError, ValueError) as error:  # no pair, rows of different lengths, or a single number
        raise bad(name, "a table client → (x, y) of arrays", f"{error}") from None
    if not pairs or not alike:
        raise bad(f"{name}", "a table client → (x, y), as many labels as examples", f"{len(pairs)} clients")
    held = [pair for pair in pairs.values() if len(pair[1])]  # a list without examples has no shape
    _check_alike([x for x, _ in held], f"{name}.x")
    owners = np.repeat(np.arange(len(held)), [len(y) for _, y in held])
    x, y = (np.concatenate([pair[at] for pair in held or pairs.values()]) for at in (0, 1))
    return by_client(x, y, owners, name=name, test=test, seed=seed)


def _check_alike(examples: Sequence[Array], who: str) -> None:
    """Refuse examples of several shapes, and bytes beside other numbers: the bytes may be images, the others not."""
    shapes = {x.shape[1:] for x in examples}
    if len(shapes) > 1:
        raise bad(who, "of one shape for all clients", f"examples of shapes {sorted(shapes)}")
    types = {str(x.dtype) for x in examples}
    if len(types) > 1 and "uint8" in types:
        raise bad(who, "of one type for all clients", f"examples of {', '.join(sorted(types))}")


def from_frame(frame: Any, *, client: str, label: str, name: str = "own", test: float = TEST, seed: int = 0) -> Dataset:
    """A polars or pandas frame: a column of clients, a column of labels, numeric features in all other columns.

    Features are whole numbers where all of these columns are; otherwise they are floats. Labels that are texts are
    numbered in alphabetical order.
    """
    columns = {str(column): column for column in frame.columns}  # pandas' names may be numbers
    for wanted in (client, label):
        if wanted not in columns:
            raise bad(f"{name}: column", f"one of {', '.join(columns)}", wanted)
    features = [column for key, column in columns.items() if key not in (client, label)]
    try:
        x = _stacked([np.asarray(frame[column]) for column in features])
    except (TypeError, ValueError) as error:
        raise bad(f"{name}: features", "numbers", f"{error}", "Encode texts first.") from None
    given, owners = np.asarray(frame[columns[label]]), np.asarray(frame[columns[client]])
    _check_present(given, f"{name}: {label}")
    _check_present(owners, f"{name}: {client}")
    try:
        y = given if given.dtype.kind in "iuf" else np.unique(given.astype(str), return_inverse=True)[1]
    except (TypeError, ValueError) as error:
        raise bad(f"{name}: labels", "numbers or texts", f"{error}") from None
    owners = owners if owners.dtype.kind in "iu" else owners.astype(str)
    return by_client(x, y, owners, name=name, test=test, seed=seed)


def _stacked(columns: Sequence[Array]) -> Array:
    """(n, d) features: whole numbers where all columns are, floats otherwise."""
    whole = all(column.dtype.kind in "iu" for column in columns)
    return np.stack([column.astype(np.int64 if whole else np.float32) for column in columns], axis=1)


def from_table(path: Path, *, client: str, label: str, test: float = TEST, seed: int = 0) -> Dataset:
    """A CSV or Parquet file with a column of clients and a column of labels; see :func:`from_frame`."""
    try:
        import polars as pl
    except ImportError as error:
        raise DataError("Reading a table needs polars: pip install 'sortition[lab]'.") from error
    parquet = path.suffix.lower() == ".parquet"
    try:
        if path.exists() and not path.is_file():  # a pipe never begins, a device never ends
            raise OSError("it is not a file")
        if parquet and pl.scan_parquet(path, glob=False).select(pl.len()).collect().item() > MOST:
            raise OSError(f"it announces more than {MOST:,} rows")
        frame = (
            pl.read_parquet(path, glob=False) if parquet else pl.read_csv(path, glob=False, infer_schema_length=None)
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}.") from None
    return from_frame(frame, client=client, label=label, name=path.stem, test=test, seed=seed)


def from_leaf(path: Path) -> Dataset:
    """A folder of LEAF's JSON files: ``train/*.json`` and ``test/*.json`` with users and user_data.

    Each file is ``{"users": […], "user_data": {user: {"x": […], "y": […]}}}``. Texts become character codes, with the
    next character as the label.
    """
    train, test = (_leaf(path / part) for part in ("train", "test"))
    if not any(train.values()):
        raise DataError(f"{path / 'train'} must hold LEAF's JSON files with users and examples; got none.")
    rows = [(user, *pair, False) for user, pairs in train.items() for pair in pairs]
    rows += [(user, *pair, True) for user, pairs in test.items() if user in train for pair in pairs]
    users, inputs, labels, held = zip(*rows, strict=True)
    try:
        x, y = _examples(inputs), _labels(labels)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"{path} must hold examples of one shape, with a label each; got {error}.") from None
    return pooled(x, as_labels(y, f"{path.name}.y"), np.array(users), np.array(held), name=path.name)


def _examples(inputs: Sequence[Any]) -> Array:
    x = np.array([_codes(row) if isinstance(row, str) else row for row in inputs])
    return x if x.dtype.kind in "iu" else x.astype(np.float32)


def _labels(labels: Sequence[Any]) -> Array:
    return np.array([_codes(label)[-1] if isinstance(label, str) else label for label in labels])


def _leaf(folder: Path) -> dict[str, list[tuple[Any, Any]]]:
    """The (x, y) pairs of every user in the JSON files of a folder."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            held = json.loads(read_regular(file, LARGEST))["user_data"]
            for user, pairs in held.items():
                found.setdefault(str(user), []).extend(zip(pairs["x"], pairs["y"], strict=True))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{file} must be LEAF's JSON (users, user_data with x and y); got {error}.") from None
    return found


def _codes(text: str) -> list[int]:
    """Characters as numbers below 128; others are 0."""
    return [code if (code := ord(character)) < 128 else 0 for character in text]
