"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8×8 pixels, for tests and for the demo."""

from __future__ import annotations

import numpy as np

from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.data.dataset import Dataset


def digits(*, test: float = 0.2, seed: int = 0) -> Dataset:
    """Pixels 0 … 16 as uint8; a share ``test`` of each label is held out, drawn with ``seed``."""
    from sklearn.datasets import load_digits

    if not 0 < test < 1:
        raise bad("digits.test", "a share between 0 and 1", test)
    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    order = stream(seed, "digits").permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # place within its label
    held = rank < np.rint(test * counts)[labels[order]]
    train, rest = np.sort(order[~held]), np.sort(order[held])
    return Dataset("digits", images[train], labels[train], images[rest], labels[rest], 10, white=16)
