"""The deadline of a round: its default, one that follows the clients' durations, and which answers came in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.validation import is_number, refuse_unknown_keys

DEADLINE = 1800.0  # seconds of a round in a real federation
QUESTIONS = 0.25  # the share of a round's seconds that its questions may take
SEEN = 1000  # trainings over which the quantile of a deadline is taken


@refuse_unknown_keys
@dataclass(frozen=True)
class Quantile:
    """A deadline that follows the clients.

    Attributes:
        quantile: share of the trainings so far that took no longer; one without an answer took for ever.
    """

    quantile: float

    def __post_init__(self) -> None:
        if not (is_number(self.quantile) and 0 < self.quantile <= 1):
            raise bad("pace.deadline.quantile", "a share in (0, 1]", self.quantile)
        object.__setattr__(self, "quantile", float(self.quantile))

    def seconds(self, durations: Sequence[float]) -> float:
        """Return the deadline after trainings of these durations; infinite ones never ended."""
        ranked = sorted(durations)
        return float(ranked[math.ceil(round(self.quantile * len(ranked), 9)) - 1])


def first_come(ids: Ids, seconds: Floats, target: int, deadline: float) -> npt.NDArray[np.bool_]:
    """Return a mask (k,) of the answers that count: the first ``target`` by the clock, then by id.

    They must come before the deadline. An answer that never comes has infinite seconds.
    """
    order = np.lexsort((ids, seconds))
    in_time = np.isfinite(seconds[order]) & (seconds[order] <= deadline)
    counts = np.zeros(ids.size, bool)
    counts[order[in_time][:target]] = True
    return counts
