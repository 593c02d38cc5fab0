"""When a round is over: how many begin it, how many answers close it, and how long anybody is waited for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.rounds import Cohort, with_standby
from sortition.core.validation import is_number, is_whole

DEADLINE = 1800.0  # seconds of a round in a real federation
QUESTIONS = 0.25  # the share of a round's seconds that its questions may take


@dataclass(frozen=True)
class Pace:
    """Rounds: a cohort begins together, and what comes after the round's end is dropped.

    Attributes:
        cohort: updates that a round is meant to use.
        overselect: factor on the cohort; the round closes when ``cohort`` clients have answered.
        deadline: seconds from the first question of a round to its end; infinite: everybody is waited for.
    """

    cohort: int
    overselect: float = 1.0
    deadline: float = math.inf

    def check(self, who: str) -> None:
        """Refuse what is no pace; ``who`` is given it."""
        if not is_whole(self.cohort, 1):
            raise bad(f"{who}.cohort", "a whole number ≥ 1", self.cohort)
        if not (is_number(self.overselect) and math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad(f"{who}.overselect", "finite and ≥ 1", self.overselect)
        if not (is_number(self.deadline) and self.deadline > 0):
            raise bad(f"{who}.deadline", "seconds > 0", self.deadline, "math.inf waits for everybody.")

    @property
    def places(self) -> int:
        """How many clients are chosen, with those that stand by for the late."""
        return with_standby(self.cohort, self.overselect)

    def target(self, cohort: Cohort) -> int:
        """How many answers close the round of this cohort."""
        if self.overselect > 1 and not cohort.full:
            return min(self.cohort, cohort.ids.size)
        return cohort.ids.size

    @property
    def seconds_for_questions(self) -> float:
        """How long all questions of a round may take together."""
        return QUESTIONS * self.deadline


def first_come(ids: Ids, seconds: Floats, target: int, deadline: float) -> npt.NDArray[np.bool_]:
    """A mask (k,) of the answers that count: the first ``target`` by the clock, then by id, before the deadline.

    An answer that never comes has infinite seconds.
    """
    order = np.lexsort((ids, seconds))
    in_time = np.isfinite(seconds[order]) & (seconds[order] <= deadline)
    counts = np.zeros(ids.size, bool)
    counts[order[in_time][:target]] = True
    return counts
