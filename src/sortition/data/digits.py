"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8×8 pixels, for tests and for the demo."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.data.dataset import Dataset


def digits(*, test: float = 0.2, seed: int = 0) -> Dataset:
    """Load the digits, pixels 0 … 16 as uint8; a share ``test`` of each label is held out, drawn with ``seed``."""
    if not 0 < test < 1:
        raise bad("digits.test", "a share between 0 and 1", test)
    images, labels = _read_images()
    order = stream(seed, "digits").permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank_in_label = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_held_out = rank_in_label < np.rint(test * counts)[labels[order]]
    train_rows = np.sort(order[~is_held_out])
    test_rows = np.sort(order[is_held_out])
    return Dataset(
        name="digits",
        x_train=images[train_rows],
        y_train=labels[train_rows],
        x_test=images[test_rows],
        y_test=labels[test_rows],
        classes=10,
        white=16,
    )


def _read_images() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read all images (n, 8, 8) and their labels from scikit-learn's file, since its import takes a second."""
    spec = find_spec("sklearn")
    if spec is None:
        return _load_from_sklearn()
    file = Path(str(spec.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():
        return _load_from_sklearn()
    with gzip.open(file, "rt") as lines:
        rows = np.loadtxt(lines, dtype=np.int64, delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8).astype(np.uint8), rows[:, -1].copy()


def _load_from_sklearn() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Load the same through scikit-learn itself, for releases that keep the file elsewhere."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return loaded.images.astype(np.uint8), loaded.target.astype(np.int64)
