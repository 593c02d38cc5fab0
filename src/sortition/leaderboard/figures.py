"""What a run of suite 2 is judged by: area, end, and when it reached the target; from its evaluated curve alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats
from sortition.results.equal_cost import mean_over, value_at

END_SHARE = 0.1  # of the rounds or of the time, over which the end is the mean
SMOOTH = 3  # evaluations over which a target must be reached
TARGET_TIME = 0.5  # share of the budget at which uniform's accuracy is the target


@dataclass(frozen=True)
class Curve:
    """The test accuracy of one run where it was evaluated.

    Attributes:
        position: (n,) rounds played, or seconds of the clock, at each evaluation; ascending.
        accuracy: (n,) test accuracy there.
        budget: rounds or seconds that the cell gives; evaluations beyond do not count.
        by_time: whether positions are seconds, so that the accuracy is a step function of them.
    """

    position: Floats
    accuracy: Floats
    budget: float
    by_time: bool

    def __post_init__(self) -> None:
        counts = np.asarray(self.position) <= self.budget
        object.__setattr__(self, "position", np.asarray(self.position, np.float64)[counts])
        object.__setattr__(self, "accuracy", np.asarray(self.accuracy, np.float64)[counts])

    @property
    def is_sound(self) -> bool:
        """Whether every accuracy is a finite number; a run that diverged is not sound."""
        return bool(np.isfinite(self.accuracy).all())

    @property
    def _whole_positions(self) -> Floats:
        """The positions from 0 to the budget."""
        return np.array([0.0, *self.position, self.budget])

    @property
    def _whole_accuracies(self) -> Floats:
        """The accuracies there: 0 at the start, and at the budget that of the last evaluation."""
        last = self.accuracy[-1] if self.accuracy.size else 0.0
        return np.array([0.0, *self.accuracy, last])

    def at(self, position: float) -> float:
        """Return the accuracy of the last evaluation up to there; 0 before the first."""
        return value_at(self._whole_positions, self._whole_accuracies, min(position, self.budget)) or 0.0

    def area(self) -> float:
        """Return the mean accuracy: over the evaluations, or over the time from 0 to the budget."""
        if not self.accuracy.size:
            return 0.0
        if not self.by_time:
            return float(self.accuracy.mean())
        return mean_over(self._whole_positions, self._whole_accuracies, 0.0, self.budget) or 0.0

    def end(self) -> float:
        """Return the mean accuracy over the last tenth; the last one where nothing was evaluated in it."""
        if not self.accuracy.size:
            return 0.0
        is_late = self.position > (1 - END_SHARE) * self.budget
        if not is_late.any():
            return float(self.accuracy[-1])
        return float(self.accuracy[is_late].mean())

    def reached(self, target: float) -> float:
        """Return the position at which a mean of three evaluations first was not below a target; infinite if never."""
        for index in range(self.accuracy.size):
            window = self.accuracy[max(0, index - SMOOTH + 1) : index + 1]
            if window.mean() >= target:
                return float(self.position[index])
        return math.inf


def target_of(baseline: Sequence[Curve]) -> float:
    """Return the target of a cell: the median over seeds of what uniform has at half of the budget."""
    return float(np.median([curve.at(TARGET_TIME * curve.budget) for curve in baseline]))
