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
    """Pixels 0 … 16 as uint8; a share ``test`` of each label is held out, drawn with ``seed``."""
    if not 0 < test < 1:
        raise bad("digits.test", "a share between 0 and 1", test)
    images, labels = _images()
    order = stream(seed, "digits").permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # place within its label
    held = rank < np.rint(test * counts)[labels[order]]
    train, rest = np.sort(order[~held]), np.sort(order[held])
    return Dataset("digits", images[train], labels[train], images[rest], labels[rest], 10, white=16)


def _images() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """All images (n, 8, 8) and their labels: from scikit-learn's file, since its import takes a second."""
    spec = find_spec("sklearn")
    file = Path(str(spec.origin)).parent / "datasets" / "data" / "digits.csv.gz" if spec else None
    if file is None or not file.is_file():
        return _imported()
    with gzip.open(file, "rt") as lines:
        rows = np.loadtxt(lines, dtype=np.int64, delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8).astype(np.uint8), rows[:, -1].copy()


def _imported() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The same through scikit-learn itself, for releases that keep the file elsewhere."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
