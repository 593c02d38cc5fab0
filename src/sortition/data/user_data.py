"""The user's own data: an npz file, a folder of npy files, or arrays and tensors from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids
from sortition.core.errors import DataError, bad
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream
from sortition.data.dataset import Dataset

ARRAY_NAMES = ("x_train", "y_train", "x_test", "y_test")
Example = Sequence[npt.ArrayLike]  # (x, y)


class ExampleSource(Protocol):
    """A torch Dataset, or anything else with a length whose items are (x, y)."""

    def __len__(self) -> int:
        """Return the number of examples."""

    def __getitem__(self, index: int, /) -> Example:
        """Return one example and its label."""


ArrayParts = tuple[npt.ArrayLike | Example | ExampleSource, ...] | list[npt.ArrayLike | Example | ExampleSource]


def from_file(path: Path, *, test: float = 0.2, seed: int = 0) -> Dataset:
    """Read the arrays of one npz file, or of a folder of npy files.

    They are ``x_train y_train x_test y_test``, or ``x y``, of which a share ``test`` is then held out.
    """
    try:
        arrays = _read_arrays(path)
    except FOREIGN as error:
        raise DataError(f"{path} cannot be read as arrays: {error}.") from error
    if all(name in arrays for name in ARRAY_NAMES):
        return from_arrays(*(arrays[name] for name in ARRAY_NAMES), name=path.stem)
    if "x" in arrays and "y" in arrays:
        return from_arrays(arrays["x"], arrays["y"], name=path.stem, test=test, seed=seed)
    stored_names = ", ".join(sorted(arrays)) or "nothing"
    raise DataError(f"{path} must hold {', '.join(ARRAY_NAMES)}, or x and y; got {stored_names}.")


def _read_arrays(path: Path) -> dict[str, Array]:
    """Read arrays by name from an npz file, or from the npy files of a folder."""
    if not path.is_dir():
        return read_npz(path)
    return {file.stem: read_npy(file) for file in sorted(path.glob("*.npy"))}


def from_arrays(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_test: npt.ArrayLike | None = None,
    y_test: npt.ArrayLike | None = None,
    *,
    name: str = "own",
    test: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Make a data set of arrays or torch tensors.

    Without a test set a share ``test`` of the examples is drawn for it by the seed.
    """
    examples = as_numpy(x)
    labels = as_labels(as_numpy(y), f"{name}.y")
    if len(examples) != len(labels):
        raise bad(f"{name}.y", f"{len(examples)} labels, one per example", len(labels))
    if x_test is None and y_test is None:
        return _split_at_random(examples, labels, name=name, test=test, seed=seed)
    test_labels = as_labels(as_numpy(y_test), f"{name}.y_test")
    return Dataset(
        name=name,
        x_train=examples,
        y_train=labels,
        x_test=as_numpy(x_test),
        y_test=test_labels,
        classes=int(max(np.max(labels, initial=0), np.max(test_labels, initial=0))) + 1,
    )


def _split_at_random(x: Array, y: Ids, *, name: str, test: float, seed: int) -> Dataset:
    """Hold a share ``test`` of the examples out for testing."""
    if not 0 < test < 1:
        raise bad(f"{name}.test", "a share between 0 and 1", test)
    order = stream(seed, "own data").permutation(len(x))
    test_rows, train_rows = np.split(order, [max(1, round(test * len(x)))])
    return Dataset(
        name=name,
        x_train=x[train_rows],
        y_train=y[train_rows],
        x_test=x[test_rows],
        y_test=y[test_rows],
        classes=int(np.max(y, initial=0)) + 1,
        given_rows=(train_rows, test_rows),
        held_out=f"{len(test_rows):,} of the {len(x):,} examples given, drawn at random",
    )


def from_pairs(parts: ArrayParts, *, name: str = "own", test: float = 0.2, seed: int = 0) -> Dataset:
    """Make a data set of ``(x, y)``, ``((x, y), (x_test, y_test))``, ``(x, y, x_test, y_test)`` or two Datasets."""
    arrays = [array for part in parts for array in _arrays_of(part)]
    if len(arrays) not in (2, 4):
        rule = "(x, y), (x_train, y_train, x_test, y_test) or two Datasets"
        raise bad("data", rule, f"{len(arrays)} arrays", "Lists of examples or labels must be arrays: np.array(y).")
    return from_arrays(*arrays, name=name, test=test, seed=seed)


def _arrays_of(part: npt.ArrayLike | Example | ExampleSource) -> Sequence[npt.ArrayLike]:
    """List the arrays of a part: one array, a pair of them, or the examples and labels of a Dataset."""
    if isinstance(part, tuple | list):
        return part
    if _is_example_source(part):
        return from_items(part)
    return (cast(npt.ArrayLike, part),)


def _is_example_source(part: object) -> TypeGuard[ExampleSource]:
    return hasattr(part, "__getitem__") and not hasattr(part, "shape")


def from_items(source: ExampleSource) -> tuple[Array, Array]:
    """Return the examples (x, y) of a torch Dataset, or of anything with a length whose items are (x, y)."""
    if hasattr(source, "columns"):
        raise bad("data", "arrays, or sortition.data.from_frame(frame, client=…, label=…)", type(source).__name__)
    try:
        pairs = [source[index] for index in range(len(source))]
        examples = np.stack([as_numpy(x) for x, _ in pairs])
        labels = np.array([as_numpy(y) for _, y in pairs])
    except (TypeError, ValueError, KeyError) as error:
        rule = "a name, arrays, a Dataset of (x, y) or {client: (x, y)}"
        raise bad("data", rule, type(source).__name__, f"{error}") from None
    if labels.ndim == 2 and labels.shape[1] == 1:  # each label is an array of one
        labels = labels[:, 0]
    return examples, labels


def as_numpy(values: object) -> Array:
    """Return an array, or a torch tensor on any device, as a numpy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def as_labels(y: Array, who: str) -> Ids:
    """Return labels as whole numbers; whole numbers kept as floats are accepted."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise bad(who, "whole numbers, one label per example", f"{y.dtype} of shape {y.shape}")
    return y.astype(np.int64)
