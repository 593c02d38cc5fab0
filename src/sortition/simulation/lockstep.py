"""Several runs in lock-step: each stops before it trains, and the training of all is done at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sortition.learning.together import train_together
from sortition.simulation.round_cache import Training


def train_all(trainings: Sequence[Training]) -> None:
    """Train for several runs; each has its share of the seconds, by examples."""
    begun = time.perf_counter()
    waiting = [one for one in trainings if one.ids.size]
    cohorts = [one.drawn() for one in waiting]
    train_together(cohorts)
    work = [int(cohort.trained.examples.sum()) for cohort in cohorts]
    seconds = time.perf_counter() - begun
    for training, cohort, examples in zip(waiting, cohorts, work, strict=True):
        training.keep(cohort.trained)
        training.seconds = seconds * examples / sum(work)
