"""A part of a data set, drawn once and alike for all seeds, for studies on small machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.core.validation import is_whole, refuse_unknown_keys
from sortition.data.dataset import Dataset


@refuse_unknown_keys
@dataclass(frozen=True)
class Subset:
    """How many examples of a data set are used; None for all.

    Attributes:
        train: training examples; not for data that come with clients.
        test: test examples.
    """

    train: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 1):
                raise bad(f"Subset.{name}", "a whole number ≥ 1", value)

    def of(self, dataset: Dataset) -> Dataset:
        """Return the data set with only so many examples; which ones depends on their number alone."""
        changes: dict[str, Any] = {}
        if self.train is not None:
            if dataset.clients is not None:
                hint = "Draw some of its clients: data.clients with partition = 'natural'."
                raise bad("data.subset.train", "left out for data that come with clients", self.train, hint)
            rows = _draw_rows(len(dataset.y_train), self.train, "train")
            changes |= {"x_train": dataset.x_train[rows], "y_train": dataset.y_train[rows]}
        if self.test is not None:
            rows = _draw_rows(len(dataset.y_test), self.test, "test")
            changes |= {"x_test": dataset.x_test[rows], "y_test": dataset.y_test[rows]}
        return replace(dataset, **changes, given_rows=None, digest="")


def _draw_rows(n_examples: int, n_drawn: int, part: str) -> Ids:
    if n_drawn > n_examples:
        raise bad(f"data.subset.{part}", f"at most {n_examples:,}", n_drawn)
    rows = stream(0, f"subset {part}").permutation(n_examples)[:n_drawn]
    return np.sort(rows)
