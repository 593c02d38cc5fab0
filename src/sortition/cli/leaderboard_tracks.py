"""``sortition leaderboard --suite 2``: run, tune, verify and show the tracks of suite 2."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sortition.cli.shared_options import console, line_printer

if TYPE_CHECKING:
    from sortition.leaderboard.entrants import Configurations, Entrant
    from sortition.leaderboard.queue import QueueOutcome
    from sortition.leaderboard.tracks import TrackCell, TrackSuite
    from sortition.results.table import Table

OUT = Path("runs") / "leaderboard-2"
QUICK_SEEDS = 2
NICENESS = 10


@dataclass(frozen=True)
class TrackOptions:
    """What the command line asks of suite 2.

    Attributes:
        suite: "2", or the file of a suite of the same form.
        configurations: a file of entries and alternatives that are added to the suite's; None for these alone.
        methods: only these rows, and methods of one's own; empty for all.
        tracks: only these; empty for all.
        half: only this half.
        out: the folder of results.
        quick: whether only small cells and two seeds are run.
        seeds: fewer seeds.
        tune: whether configurations are tried, and the tuned table is run.
        retry: whether failed runs are played again.
        quiet: whether only the end is said.
        stop_at: of ``time.monotonic()``, when no more runs are begun.
    """

    suite: str
    configurations: Path | None
    methods: Sequence[str]
    tracks: Sequence[str]
    half: str | None
    out: Path
    quick: bool
    seeds: int | None
    tune: bool
    retry: bool
    quiet: bool
    stop_at: float = math.inf

    def load(self) -> tuple[TrackSuite, Configurations]:
        """Load the suite and its configurations."""
        from sortition.leaderboard import entrants, tracks

        suite = tracks.load_tracks(tracks.SUITE_FILE if self.suite == "2" else Path(self.suite))
        configurations = entrants.load_configurations()
        if self.configurations is not None:
            configurations = configurations.merge(entrants.load_configurations(self.configurations))
        return suite, configurations

    def track_names(self, suite: TrackSuite) -> list[str]:
        """Return the tracks that are meant, in the suite's order."""
        for track in self.tracks:
            suite.cells(track)  # refuses an unknown one
        return [
            track for track in dict.fromkeys(cell.track for cell in suite.cell) if track in (self.tracks or (track,))
        ]

    def defaults(self, configurations: Configurations) -> list[Entrant]:
        """Return the default rows that are meant, the baseline first."""
        from sortition.leaderboard.entrants import chosen_entrants

        if self.methods:
            return chosen_entrants(configurations, self.methods)
        return configurations.defaults()


def run_tracks(options: TrackOptions) -> None:
    """Run what is missing, and show the standings."""
    suite, configurations = options.load()
    defaults = options.defaults(configurations)
    os.nice(NICENESS)
    seeds = options.seeds
    if options.quick and not seeds:
        seeds = QUICK_SEEDS
    half = options.half
    if options.tune:
        half = "held-out"  # the tables' half; of the other one, tuning runs the cells that decide
    for track in options.track_names(suite):
        cells = suite.cells(track, half, quick=options.quick)
        outcome = _play_missing(suite, cells, defaults, options, seeds=seeds)
        if options.tune and not outcome.has_stopped:
            outcome = _tune(suite, track, configurations, defaults, options)
        if outcome.has_stopped:
            typer.echo(f"stopped; the same command goes on: {options.out}")
            raise typer.Exit(130 if outcome.interrupted else 0)
    show_tracks(options)


def _play_missing(
    suite: TrackSuite,
    cells: Sequence[TrackCell],
    entrants: Sequence[Entrant],
    options: TrackOptions,
    *,
    seeds: int | None,
) -> QueueOutcome:
    """Play the runs that these entrants lack in these cells, and print which failed."""
    from sortition.leaderboard.queue import find_missing_jobs, play_jobs
    from sortition.studies.runs.progress import showing

    jobs = find_missing_jobs(suite, cells, entrants, options.out, seeds=seeds, retry=options.retry)
    outcome = play_jobs(
        suite,
        jobs,
        options.out,
        stop_at=options.stop_at,
        progress=lambda: showing(console(), quiet=options.quiet),
        say=line_printer(quiet=options.quiet),
    )
    for (cell, label, seed), reason in outcome.failed.items():
        last_line = (reason.strip().splitlines() or ["unknown"])[-1]
        typer.echo(f"failed, and counts as the worst: {cell}, {label}, seed {seed}: {last_line}", err=True)
    return outcome


def _tune(
    suite: TrackSuite,
    track: str,
    configurations: Configurations,
    defaults: Sequence[Entrant],
    options: TrackOptions,
) -> QueueOutcome:
    """Run all configurations on the tuning cells, then the chosen ones on the cells that are held out."""
    from sortition.leaderboard.run_rows import read_cells
    from sortition.leaderboard.tuning import SEEDS, tuned_entrants, tuning_cells

    cells = tuning_cells(suite, track)
    candidates = [candidate for default in defaults for candidate in configurations.candidates(default)]
    outcome = _play_missing(suite, cells, candidates, options, seeds=SEEDS)
    if outcome.has_stopped or not cells:
        return outcome
    tuned = tuned_entrants(suite, track, configurations, defaults, read_cells(suite, options.out, cells))
    for row, entrant in tuned.items():
        if not entrant.is_default and not options.quiet:
            typer.echo(f"{track}: {row} is tuned to {entrant.label}")
    return _play_missing(suite, suite.cells(track, "held-out"), list(tuned.values()), options, seeds=options.seeds)


def show_tracks(options: TrackOptions) -> None:
    """Print the standings of every track that has runs, by default and tuned."""
    from sortition.leaderboard.run_rows import read_cells
    from sortition.leaderboard.track_boards import boards_by_title
    from sortition.leaderboard.track_tables import standings_table

    suite, configurations = options.load()
    results = read_cells(suite, options.out, suite.cell)
    for track in options.track_names(suite):
        for title, board in boards_by_title(suite, track, configurations, results, quick=options.quick).items():
            if board.complete and not options.quiet:
                console().print(standings_table(board, f"{track}, {title}"))
            for row in options.methods:
                typer.echo(_place_sentence(track, title, row.rpartition(":")[2], board.complete, board.unfinished))
            if not board.complete and board.runs.height and not options.quiet:
                typer.echo(f"{track}, {title}: {board.runs.height} runs, none of the rows is finished.")


def _place_sentence(track: str, title: str, row: str, complete: Sequence[str], unfinished: dict[str, int]) -> str:
    """Say whether a row is ranked, lacks runs or has none."""
    if row in complete:
        return f"{track}, {title}: {row} is ranked among {len(complete)}."
    if row in unfinished:
        return f"{track}, {title}: {row} lacks {unfinished[row]} runs, and is not ranked."
    return f"{track}, {title}: {row} has no runs."


def verify_tracks(options: TrackOptions, *, share: float, seed: int) -> None:
    """Check stored results, and play a random share again; exit with 1 if something is wrong."""
    from sortition.leaderboard.verify import verify

    suite, configurations = options.load()
    cells = [cell for track in options.track_names(suite) for cell in suite.cells(track, options.half)]
    labels = [method.rpartition(":")[2] for method in options.methods] or None
    report = verify(
        suite,
        options.out,
        configurations,
        cells=cells,
        labels=labels,
        share=share,
        seed=seed,
        say=line_printer(quiet=options.quiet),
    )
    for note in report.notes:
        typer.echo(f"note: {note}")
    for problem in report.problems:
        typer.echo(f"wrong: {problem}", err=True)
    verdict = "verified" if report.has_passed else "NOT verified"
    typer.echo(
        f"{verdict}: {suite.version}, {report.rows} rows checked, {len(report.rerun)} runs played again "
        f"(seed {seed}), {len(report.problems)} problems."
    )
    if not report.has_passed:
        if report.may_be_rounding:
            typer.echo(
                "hint: if they were run on another kind of processor, honest runs differ a little, to both sides "
                "(docs/leaderboard-rules.md, Verification)."
            )
        raise typer.Exit(1)


def estimate_tracks(options: TrackOptions) -> None:
    """Print the processor hours that the missing runs of every track are expected to take."""
    suite, configurations = options.load()
    console().print(estimate_table(suite, configurations, options))


def estimate_table(suite: TrackSuite, configurations: Configurations, options: TrackOptions) -> Table:
    """Return expected processor hours by track: default runs, tuning, and tuned runs if every row were tuned."""
    from sortition.leaderboard.queue import find_missing_jobs
    from sortition.leaderboard.tuning import SEEDS, tuning_cells
    from sortition.results.table import Table

    defaults = options.defaults(configurations)
    alternatives = [candidate for default in defaults for candidate in configurations.candidates(default)[1:]]
    tuned_at_most = [
        configurations.candidates(default)[1] for default in defaults if configurations.candidates(default)[1:]
    ]
    table = Table("", ["track", "cells", "default: runs", "hours", "tuning: runs", "hours", "tuned: runs", "hours"])
    for track in options.track_names(suite):
        cells = suite.cells(track)
        held_out = suite.cells(track, "held-out") if tuning_cells(suite, track) else []
        parts = [
            find_missing_jobs(suite, cells, defaults, options.out),
            find_missing_jobs(suite, tuning_cells(suite, track), alternatives, options.out, seeds=SEEDS),
            find_missing_jobs(suite, held_out, tuned_at_most, options.out),
        ]
        row = [track, str(len(cells))]
        for jobs in parts:
            row += [str(sum(job.n_runs for job in jobs)), f"{sum(job.seconds(suite) for job in jobs) / 3600:.2f}"]
        table.rows.append(row)
    return table
