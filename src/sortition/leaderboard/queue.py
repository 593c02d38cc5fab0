"""Runs what is missing of suite 2: cell by cell, the cheapest first, one run at a time, in a way that can be stopped.

Finished runs are moved from their folders into the Parquet file of their cell after every seed, so that a stop loses at
most the runs of one seed that had begun, and those go on from their checkpoints.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from sortition.core.errors import InputError, SortitionError
from sortition.core.round_record import RoundRecord
from sortition.leaderboard import run_rows
from sortition.leaderboard.entrants import Entrant
from sortition.leaderboard.run_rows import Row, RowValues
from sortition.leaderboard.run_seconds import estimated_seconds
from sortition.leaderboard.tracks import TrackCell, TrackSuite
from sortition.results.run_folder import Run
from sortition.studies import lockstep
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan
from sortition.studies.runs import runner
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.progress import Progress

WORK = "work"  # folder of unfinished runs, beside the results


@dataclass(frozen=True)
class Job:
    """Methods that have runs to play in one cell.

    Attributes:
        cell: the cell.
        missing_entrants: by seed, the entrants without a result.
    """

    cell: TrackCell
    missing_entrants: dict[int, list[Entrant]]

    @property
    def n_runs(self) -> int:
        """How many runs there are."""
        return sum(len(entrants) for entrants in self.missing_entrants.values())

    def seconds(self, suite: TrackSuite) -> float:
        """Return the estimated CPU seconds of all of them."""
        entrants = [entrant for entrants in self.missing_entrants.values() for entrant in entrants]
        return sum(estimated_seconds(suite, self.cell, entrant.row) for entrant in entrants)


@dataclass
class QueueOutcome:
    """What became of a queue.

    Attributes:
        played: runs that are finished now.
        failed: runs that failed now: (cell, label, seed) → why.
        interrupted: whether it was stopped.
        time_is_up: whether it ended before all runs were played, since its hours were over.
    """

    played: int = 0
    failed: dict[tuple[str, str, int], str] = field(default_factory=dict)
    interrupted: bool = False
    time_is_up: bool = False

    @property
    def has_stopped(self) -> bool:
        """Whether runs are left that would have been played."""
        return self.interrupted or self.time_is_up


class CpuLimit(Callback):
    """Ends a run that takes more than so many processor seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started = 0.0

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Begin to count."""
        self._started = time.process_time()

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Raise where the limit is exceeded."""
        seconds_so_far = time.process_time() - self._started
        if seconds_so_far > self.seconds:
            raise SortitionError(f"{run.method.label} took more than {self.seconds:g} processor seconds.")


def find_missing_jobs(
    suite: TrackSuite,
    cells: Iterable[TrackCell],
    entrants: Sequence[Entrant],
    folder: Path,
    *,
    seeds: int | None = None,
    retry: bool = False,
) -> list[Job]:
    """Return what is missing, the cheapest cell first; ``seeds`` limits how many, ``retry`` plays failed runs again."""
    jobs = []
    for cell in cells:
        rows = run_rows.read_cells(suite, folder, [cell])
        if retry:
            rows = rows.filter(pl.col("status") == run_rows.DONE)
        stored = set(rows.select("label", "seed").iter_rows())
        missing_entrants: dict[int, list[Entrant]] = {}
        for seed in list(suite.seeds_of(cell))[:seeds]:
            entrants_to_play = [entrant for entrant in entrants if (entrant.label, seed) not in stored]
            if entrants_to_play:
                missing_entrants[seed] = entrants_to_play
        if missing_entrants:
            jobs.append(Job(cell, missing_entrants))
    return sorted(jobs, key=lambda job: estimated_seconds(suite, job.cell, "uniform"))


def play_jobs(
    suite: TrackSuite,
    jobs: Sequence[Job],
    folder: Path,
    *,
    stop_at: float = math.inf,
    progress: Callable[[], Progress | None] = lambda: None,
    say: Callable[[str], object] = lambda line: None,
) -> QueueOutcome:
    """Play the jobs in order and keep their results in ``folder``.

    No seed of a cell is begun when ``time.monotonic()`` has passed ``stop_at``.
    """
    outcome = QueueOutcome()
    for number, job in enumerate(jobs, start=1):
        say(f"{number} of {len(jobs)}: {job.cell.name}, {job.n_runs} runs")
        for seed, entrants in job.missing_entrants.items():
            if time.monotonic() > stop_at:
                outcome.time_is_up = True
                return outcome
            _play_seed(suite, job.cell, entrants, seed, folder=folder, outcome=outcome, progress=progress())
            if outcome.interrupted:
                return outcome
    return outcome


def _play_seed(
    suite: TrackSuite,
    cell: TrackCell,
    entrants: Sequence[Entrant],
    seed: int,
    *,
    folder: Path,
    outcome: QueueOutcome,
    progress: Progress | None,
) -> None:
    """Play the runs of one cell and seed, and move their results into the cell's file."""
    work = folder / WORK / suite.version
    plan = suite.study(cell, [entrant.entry for entrant in entrants], [seed])
    abouts = {entrant.label: run_rows.planned_row(suite, cell, entrant, seed) for entrant in entrants}
    failed = _find_refused_methods(plan)
    playable = plan.only(run for run in plan.runs if run.method.label not in failed)
    if playable.runs:
        execution = _execute(suite, playable, work, progress)
        outcome.interrupted = execution.interrupted
        failed |= {Path(path).parent.name: reason for path, reason in execution.failed.items()}
    rows = [run_rows.failed_row(abouts[label], reason) for label, reason in failed.items()]
    rows += _finished_rows(playable, work, abouts, failed)
    run_rows.add_rows(run_rows.cell_file(folder, cell), rows)
    outcome.played += len(rows) - len(failed)
    outcome.failed |= {(cell.name, label, seed): reason for label, reason in failed.items()}
    _remove_run_folders(work / cell.name, rows, everything=not outcome.interrupted)


def _finished_rows(plan: StudyPlan, work: Path, abouts: Mapping[str, Row], failed: Collection[str]) -> list[RowValues]:
    """Return the rows of the runs of a plan that are finished."""
    rows = []
    for config in plan.runs:
        run = Run(runner.place(work, config))
        if config.method.label not in failed and run.done:
            rows.append(run_rows.finished_row(abouts[config.method.label], run))
    return rows


def _remove_run_folders(folder: Path, rows: Iterable[Row], *, everything: bool) -> None:
    """Remove the folders of runs whose rows are kept, or of all runs of a cell."""
    if everything:
        shutil.rmtree(folder, ignore_errors=True)
    for row in rows:
        shutil.rmtree(folder / str(row["label"]) / f"seed-{row['seed']}", ignore_errors=True)


def _execute(suite: TrackSuite, plan: StudyPlan, work: Path, progress: Progress | None) -> runner.Execution:
    """Play a plan; runs that are not in lock-step, which take seconds only, have a limit of processor time."""
    callbacks: tuple[Callback, ...] = ()
    if lockstep.group_key(plan.runs[0]) is None:
        callbacks = (CpuLimit(suite.longest_run),)
    return runner.execute(plan, work, jobs=1, resume=True, progress=progress, callbacks=callbacks)


def _find_refused_methods(plan: StudyPlan) -> dict[str, str]:
    """Return the methods that cannot work in a cell, with the reason."""
    refused = {}
    for run in plan.runs:
        try:
            runner.check_runs([run])
        except InputError as error:
            refused[run.method.label] = str(error)
    return refused
