"""Natural federations of the user's own: client ids, per-client arrays, a data frame, or LEAF's JSON files."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array
from sortition.core.errors import DataError, bad
from sortition.core.inputs import Examples, Inputs, concatenate
from sortition.core.storage.safe_files import read_regular
from sortition.core.streams import stream
from sortition.data.dataset import Dataset
from sortition.data.parquet import read_parquet
from sortition.data.user_data import Example, InputsLike, Targets, as_inputs, as_numpy, as_targets

LARGEST = 4 << 30  # bytes of one LEAF file
LONGEST_TEXT = 1_000  # bytes of a text in a table: an array of texts is as wide as its longest
TEST = 0.2
JsonExample = str | list[object]  # a text, or numbers in nested lists
JsonLabel = str | float


class Frame(Protocol):
    """A polars or pandas data frame."""

    @property
    def columns(self) -> Iterable[Hashable]:
        """The names of the columns."""

    def __getitem__(self, column: Any, /) -> Any:
        """Return one column."""


def by_client(
    x: InputsLike | Examples,
    y: npt.ArrayLike,
    clients: npt.ArrayLike,
    *,
    name: str = "data",
    test: float = TEST,
    seed: int = 0,
) -> Dataset:
    """Make a data set of examples and the client of each (n,), numbers or texts.

    A share ``test`` of every client's examples is held out for testing; a client with one example keeps it for
    training.
    """
    examples = as_inputs(x)
    targets = as_targets(as_numpy(y), f"{name}.y")
    owners = as_numpy(clients)
    n = len(examples)
    if n != len(targets.values) or owners.shape != (n,):
        raise bad(f"{name}.clients", f"{n} ids beside {n} labels", f"{owners.shape} and {targets.values.shape}")
    if not 0 < test < 1:
        raise bad(f"{name}.test", "a share between 0 and 1", test)
    _check_present(owners, f"{name}.clients")
    try:
        is_held_out = _draw_held_out(owners, test, seed)
    except TypeError:  # they have no order
        raise bad(f"{name}.clients", "all numbers or all texts", "ids of several types") from None
    return replace(
        pool_clients(examples, targets, owners, is_held_out, name=name),
        given_rows=(np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)),
        held_out=f"{int(is_held_out.sum()):,} of the {n:,} examples given, drawn at random from every client's",
    )


def _check_present(values: Array, subject: str) -> None:
    """Refuse None, NaN, NaT and pandas' NA, each of which would become a client or a class."""
    if values.dtype.kind in "iubU":
        return
    # NaN and NaT differ from themselves, and NA == NA is NA, which is no truth value
    n_missing = sum(value is None or str(value == value) in ("False", "<NA>") for value in values.ravel())
    if n_missing:
        missing_share = f"{n_missing:,} of {values.size:,} missing"
        raise bad(subject, "given for every example", missing_share, "Drop these rows first.")


def _draw_held_out(owners: Array, share: float, seed: int) -> Array:
    """Draw which examples are held out for testing, (n,) bool: ⌊share · n_k⌋ of each client's."""
    ids, sizes = np.unique(owners, return_inverse=True, return_counts=True)[1:]
    order = np.lexsort((stream(seed, "own data").random(owners.size), ids))
    rank_in_client = np.arange(owners.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_held_out = np.zeros(owners.size, bool)
    is_held_out[order] = rank_in_client < np.repeat(np.floor(share * sizes), sizes)
    return is_held_out


def pool_clients(x: Examples, targets: Targets, owners: Array, is_held_out: Array, *, name: str) -> Dataset:
    """Make a data set whose clients have the order of their ids and whose test examples are those of all clients."""
    if not is_held_out.any():
        raise bad(f"{name}", "such that some client has examples for testing", "none")
    train_rows = np.flatnonzero(~is_held_out)
    ids = np.unique(owners[train_rows], return_inverse=True)[1]
    order = np.argsort(ids, kind="stable")
    return Dataset(
        name=name,
        x_train=x[train_rows],
        y_train=targets.values[train_rows],
        x_test=x[is_held_out],
        y_test=targets.values[is_held_out],
        classes=targets.classes,
        float_labels=targets.float_labels,
        clients=tuple(np.split(order, np.cumsum(np.bincount(ids))[:-1])),
    )


def from_clients(
    examples: Mapping[object, Example], *, name: str = "data", test: float = TEST, seed: int = 0
) -> Dataset:
    """Make a data set of the arrays of every client, ``{client: (x, y)}``."""
    try:
        pairs = [(as_inputs(x), as_numpy(y)) for x, y in examples.values()]
        have_all_labels = all(len(x) == len(y) for x, y in pairs)
    except (TypeError, ValueError) as error:  # no pair, rows of different lengths, or a single number
        raise bad(name, "a table client → (x, y) of arrays", f"{error}") from None
    if not pairs or not have_all_labels:
        raise bad(f"{name}", "a table client → (x, y), as many labels as examples", f"{len(pairs)} clients")
    non_empty = [(x, y) for x, y in pairs if len(y)]  # a list without examples has no shape
    _check_one_shape_and_type([x for x, _ in non_empty], f"{name}.x")
    owners = np.repeat(np.arange(len(non_empty)), [len(y) for _, y in non_empty])
    all_x = concatenate([x for x, _ in non_empty or pairs])
    all_y = np.concatenate([y for _, y in non_empty or pairs])
    return by_client(all_x, all_y, owners, name=name, test=test, seed=seed)


def _check_one_shape_and_type(examples: Sequence[Examples], subject: str) -> None:
    """Refuse examples of several shapes, and bytes beside other numbers: bytes may be images, other numbers not."""
    arrays = [x for x in examples if not isinstance(x, Inputs)]
    shapes = {x.shape[1:] for x in arrays}
    if len(shapes) > 1:
        raise bad(subject, "of one shape for all clients", f"examples of shapes {sorted(shapes)}")
    types = {str(x.dtype) for x in arrays}
    if len(types) > 1 and "uint8" in types:
        raise bad(subject, "of one type for all clients", f"examples of {', '.join(sorted(types))}")


def from_frame(
    frame: Frame,
    *,
    client: str,
    label: str,
    name: str = "data",
    test: float = TEST,
    seed: int = 0,
) -> Dataset:
    """Make a data set of a polars or pandas frame: columns of clients and of labels; all other columns are features.

    Features are whole numbers where all of these columns are; otherwise they are floats. Labels that are texts are
    numbered in alphabetical order.
    """
    columns = {str(column): column for column in frame.columns}  # pandas' names may be numbers
    for column_name in (client, label):
        if column_name not in columns:
            raise bad(f"{name}: column", f"one of {', '.join(columns)}", column_name)
    features = [column for key, column in columns.items() if key not in (client, label)]
    try:
        x = _stack_columns([np.asarray(frame[column]) for column in features])
    except (TypeError, ValueError) as error:
        raise bad(f"{name}: features", "numbers", f"{error}", "Encode texts first.") from None
    labels = np.asarray(frame[columns[label]])
    owners = np.asarray(frame[columns[client]])
    _check_present(labels, f"{name}: {label}")
    _check_present(owners, f"{name}: {client}")
    if labels.dtype.kind not in "iuf":
        try:
            labels = np.unique(labels.astype(str), return_inverse=True)[1]
        except (TypeError, ValueError) as error:
            raise bad(f"{name}: labels", "numbers or texts", f"{error}") from None
    if owners.dtype.kind not in "iu":
        owners = owners.astype(str)
    return by_client(x, labels, owners, name=name, test=test, seed=seed)


def _stack_columns(columns: Sequence[Array]) -> Array:
    """Return features (n, d): whole numbers where all columns are, floats otherwise."""
    are_whole = all(column.dtype.kind in "iu" for column in columns)
    dtype = np.int64 if are_whole else np.float32
    return np.stack([column.astype(dtype) for column in columns], axis=1)


def from_table(path: Path, *, client: str, label: str, test: float = TEST, seed: int = 0) -> Dataset:
    """Read a CSV or Parquet file with a column of clients and a column of labels; see :func:`from_frame`."""
    try:
        import polars as pl
    except ImportError as error:
        raise DataError("Reading a table needs polars: pip install 'sortition[lab]'.") from error
    try:
        if path.exists() and not path.is_file():  # a pipe never begins, a device never ends
            raise OSError("it is not a file")
        if path.suffix.lower() == ".parquet":
            frame = read_parquet(path)
        else:
            frame = pl.read_csv(path, glob=False, infer_schema_length=None)
        _check_texts(frame.select(pl.col(pl.String).str.len_bytes().max()).to_dicts())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}.") from None
    return from_frame(frame, client=client, label=label, name=path.stem, test=test, seed=seed)


def _check_texts(longest: Sequence[Mapping[str, int | None]]) -> None:
    """Refuse a table with a text that is too long; ``longest`` has the bytes of the longest one by column."""
    for column, n_bytes in (longest or [{}])[0].items():
        if n_bytes is not None and n_bytes > LONGEST_TEXT:
            raise ValueError(f"its column {column[:99]!r} has a text of {n_bytes:,} bytes, more than {LONGEST_TEXT:,}")


def from_leaf(path: Path) -> Dataset:
    """Read a folder of LEAF's JSON files: ``train/*.json`` and ``test/*.json`` with users and user_data.

    Each file is ``{"users": […], "user_data": {user: {"x": […], "y": […]}}}``. Texts become character codes, with the
    next character as the label.
    """
    train = _read_leaf(path / "train")
    test = _read_leaf(path / "test")
    if not any(train.values()):
        raise DataError(f"{path / 'train'} must hold LEAF's JSON files with users and examples; got none.")
    rows = [(user, example, label, False) for user, pairs in train.items() for example, label in pairs]
    rows += [(user, example, label, True) for user, pairs in test.items() if user in train for example, label in pairs]
    users, examples, labels, is_held_out = zip(*rows, strict=True)
    try:
        x = _leaf_examples(examples)
        y = _leaf_labels(labels)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"{path} must hold examples of one shape, with a label each; got {error}.") from None
    return pool_clients(x, as_targets(y, f"{path.name}.y"), np.array(users), np.array(is_held_out), name=path.name)


def _leaf_examples(examples: Sequence[JsonExample]) -> Array:
    """Return examples as an array, texts as character codes."""
    x = np.array([_character_codes(example) if isinstance(example, str) else example for example in examples])
    if x.dtype.kind in "iu":
        return x
    return x.astype(np.float32)


def _leaf_labels(labels: Sequence[JsonLabel]) -> Array:
    """Return labels as an array, texts as the code of their last character."""
    return np.array([_character_codes(label)[-1] if isinstance(label, str) else label for label in labels])


def _read_leaf(folder: Path) -> dict[str, list[tuple[JsonExample, JsonLabel]]]:
    """Read the (x, y) pairs of every user from the JSON files of a folder."""
    pairs_by_user: dict[str, list[tuple[JsonExample, JsonLabel]]] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            user_data = json.loads(read_regular(file, LARGEST))["user_data"]
            for user, data in user_data.items():
                pairs_by_user.setdefault(str(user), []).extend(zip(data["x"], data["y"], strict=True))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{file} must be LEAF's JSON (users, user_data with x and y); got {error}.") from None
    return pairs_by_user


def _character_codes(text: str) -> list[int]:
    """Return characters as numbers below 128; others are 0."""
    codes = [ord(character) for character in text]
    return [code if code < 128 else 0 for code in codes]
