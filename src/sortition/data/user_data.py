"""The user's own data: an npz file, a folder of npy files, or arrays and tensors from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import DataError, bad
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream
from sortition.data.dataset import Dataset

NAMES = ("x_train", "y_train", "x_test", "y_test")


def from_file(path: Path, *, test: float = 0.2, seed: int = 0) -> Dataset:
    """``x_train y_train x_test y_test``, or ``x y`` which is then split; arrays in one npz or one npy file each."""
    try:
        arrays = {file.stem: read_npy(file) for file in sorted(path.glob("*.npy"))} if path.is_dir() else read_npz(path)
    except FOREIGN as error:
        raise DataError(f"{path} cannot be read as arrays: {error}.") from error
    if all(name in arrays for name in NAMES):
        return from_arrays(*(arrays[name] for name in NAMES), name=path.stem)
    if "x" in arrays and "y" in arrays:
        return from_arrays(arrays["x"], arrays["y"], name=path.stem, test=test, seed=seed)
    raise DataError(f"{path} must hold {', '.join(NAMES)}, or x and y; got {', '.join(sorted(arrays)) or 'nothing'}.")


def from_arrays(
    x: Any, y: Any, x_test: Any = None, y_test: Any = None, *, name: str = "own", test: float = 0.2, seed: int = 0
) -> Dataset:
    """Arrays or torch tensors; without a test set a share ``test`` of the examples is drawn for it by the seed."""
    given_rows: tuple[Ids, Ids] | None = None
    held_out = ""
    x, y = as_numpy(x), as_labels(as_numpy(y), f"{name}.y")
    if len(x) != len(y):
        raise bad(f"{name}.y", f"{len(x)} labels, one per example", len(y))
    if x_test is None:
        if not 0 < test < 1:
            raise bad(f"{name}.test", "a share between 0 and 1", test)
        order = stream(seed, "own data").permutation(len(x))
        test_rows, train_rows = np.split(order, [max(1, round(test * len(x)))])
        given_rows = (train_rows, test_rows)
        held_out = f"{len(test_rows):,} of the {len(x):,} examples given, drawn at random"
        x, x_test, y, y_test = x[train_rows], x[test_rows], y[train_rows], y[test_rows]
    x_test, y_test = as_numpy(x_test), as_labels(as_numpy(y_test), f"{name}.y_test")
    classes = int(max(np.max(y, initial=0), np.max(y_test, initial=0))) + 1
    return Dataset(name, x, y, x_test, y_test, classes, given_rows=given_rows, held_out=held_out)


def from_pairs(arrays: Sequence[Any], *, name: str = "own", test: float = 0.2, seed: int = 0) -> Dataset:
    """``(x, y)``, ``((x, y), (x_test, y_test))``, ``(x, y, x_test, y_test)`` or two torch Datasets."""
    flat = [item for pair in arrays for item in _flat(pair)]
    if len(flat) not in (2, 4):
        rule = "(x, y), (x_train, y_train, x_test, y_test) or two Datasets"
        raise bad("data", rule, f"{len(flat)} arrays", "Lists of examples or labels must be arrays: np.array(y).")
    return from_arrays(*flat, name=name, test=test, seed=seed)


def _flat(part: Any) -> Sequence[Any]:
    """One array, a pair of them, or the examples and labels of a Dataset."""
    if isinstance(part, tuple | list):
        return part
    return from_items(part) if hasattr(part, "__getitem__") and not hasattr(part, "shape") else (part,)


def from_items(source: Any) -> tuple[Array, Array]:
    """The examples (x, y) of a torch Dataset, or of anything with a length whose items are (x, y)."""
    if hasattr(source, "columns"):
        raise bad("data", "arrays, or sortition.data.from_frame(frame, client=…, label=…)", type(source).__name__)
    try:
        pairs = [source[at] for at in range(len(source))]
        x, y = np.stack([as_numpy(x) for x, _ in pairs]), np.array([as_numpy(y) for _, y in pairs])
        return x, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y  # some give each label as an array of one
    except (TypeError, ValueError, KeyError) as error:
        rule = "a name, arrays, a Dataset of (x, y) or {client: (x, y)}"
        raise bad("data", rule, type(source).__name__, f"{error}") from None


def as_numpy(given: Any) -> Array:
    """A numpy array from an array or a torch tensor on any device."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    return np.asarray(given)


def as_labels(y: Array, who: str) -> Ids:
    """Whole labels; whole numbers kept as floats are accepted."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise bad(who, "whole numbers, one label per example", f"{y.dtype} of shape {y.shape}")
    return y.astype(np.int64)
