"""Several runs in one process, in lock-step: each stops before it trains, and the training of all is done at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from sortition.studies.workers.scheduler import Attempt, Job, OnEvent, attempt

if TYPE_CHECKING:
    from sortition.simulation.round_cache import PendingTrainings
    from sortition.studies.runs.run_task import OneRun, Play


def attempt_all(jobs: Mapping[int, Job], on_event: OnEvent, stopping: Callable[[], bool]) -> None:
    """Call the jobs of a group and report how each went; several of them are runs in lock-step."""
    if len(jobs) > 1:
        _in_lockstep(jobs, on_event, stopping)
        return
    for index, job in jobs.items():
        attempt(index, job, on_event, stopping)


def _in_lockstep(jobs: Mapping[int, Job], on_event: OnEvent, stopping: Callable[[], bool]) -> None:
    from sortition.simulation.simulation import train_all
    from sortition.studies.runs.run_task import in_one_thread

    with in_one_thread():
        active_runs = [
            _StartedRun(index, cast("OneRun", run), on_event, stopping)  # only runs have a key in common
            for index, run in jobs.items()
        ]
        while active_runs:
            active_runs = [run for run in active_runs if run.advance()]
            with suppress(Exception):  # each run then trains by itself, and reports what is wrong
                train_all([run.training for run in active_runs])


class _StartedRun:
    """Holds a run that is being played, and the training that it waits for."""

    training: PendingTrainings

    def __init__(self, index: int, run: OneRun, on_event: OnEvent, stopping: Callable[[], bool]) -> None:
        self.attempt = Attempt(index, on_event)
        self.steps: Play = run.steps(self.attempt.on_round, stopping)

    def advance(self) -> bool:
        """Play up to the next training, and return False if the run has ended."""
        with self.attempt.failing():
            try:
                self.training = next(self.steps)
                return True
            except StopIteration as ending:
                self.attempt.ended(ending.value)
        return False
