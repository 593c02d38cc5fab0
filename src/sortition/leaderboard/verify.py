"""Are stored results of suite 2 what they say? Every row is checked, and a random tenth of the runs is played again."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from sortition.core.errors import InputError
from sortition.core.streams import stream
from sortition.leaderboard import queue, run_rows
from sortition.leaderboard.entrants import BASELINE, Configurations, Entrant, parse_entrant
from sortition.leaderboard.run_rows import Row
from sortition.leaderboard.tracks import TrackCell, TrackSuite

SHARE = 0.1  # of the runs that are played again
TOLERANCE = 1e-6  # of an accuracy; choices must be the same
SAME_FOR_ALL = ("data", "partition")  # of one cell and seed


@dataclass
class Report:
    """What a verification found.

    Attributes:
        rows: how many rows were checked.
        rerun: (cell, label, seed) of the runs that were played again.
        problems: what does not hold, in sentences.
        notes: what a reader should look at, without being wrong.
        differences: how many of the problems are that a run came out otherwise when it was played again.
    """

    rows: int = 0
    rerun: list[tuple[str, str, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: int = 0

    @property
    def has_passed(self) -> bool:
        """Whether nothing is wrong, and something was played again."""
        return not self.problems and bool(self.rerun)

    @property
    def may_be_rounding(self) -> bool:
        """Whether nothing else is wrong than that runs came out otherwise, as they do on another processor."""
        return 0 < self.differences == len(self.problems)


def verify(
    suite: TrackSuite,
    folder: Path,
    configurations: Configurations,
    *,
    cells: Sequence[TrackCell],
    labels: Sequence[str] | None = None,
    share: float = SHARE,
    seed: int = 0,
    say: Callable[[str], object] = lambda line: None,
) -> Report:
    """Check the stored rows of these cells, and play a random share of them again; ``labels`` limits whose."""
    report = Report()
    rows: list[Row] = []
    for cell in cells:
        stored = run_rows.read_rows(run_rows.cell_file(folder, cell)).rows(named=True)
        if labels is not None:
            stored = [row for row in stored if row["row"] in (BASELINE, *labels)]
        report.problems += find_faults(suite, cell, stored, configurations)
        rows += [row for row in stored if labels is None or row["row"] in labels]
    report.rows = len(rows)
    report.notes += find_same_choices(rows)
    if not report.problems and rows:
        sample = draw_rows(rows, share, seed)
        report.rerun = [(row["cell"], row["label"], row["seed"]) for row in sample]
        differences = rerun(suite, sample, say=say)
        report.problems += differences
        report.differences = len(differences)
    return report


def draw_rows(rows: Sequence[Row], share: float, seed: int) -> list[Row]:
    """Draw a share of the rows, at least one, by the verifier's seed."""
    n_drawn = max(1, math.ceil(share * len(rows)))
    positions = stream(seed, "leaderboard verification").permutation(len(rows))[:n_drawn]
    return [rows[position] for position in sorted(positions)]


# -- checks of the file -----------------------------------------------------------------------------------------------


def find_faults(suite: TrackSuite, cell: TrackCell, rows: Sequence[Row], configurations: Configurations) -> list[str]:
    """Return what is wrong with the rows of one cell, without playing anything."""
    problems = []
    candidate_by_label = _candidates_by_label(configurations)
    shared: dict[int, Row] = {row["seed"]: row for row in rows if row["label"] == BASELINE}
    for row in rows:
        run_name = f"{cell.name}, {row['label']}, seed {row['seed']}"
        sentences = _row_faults(suite, cell, row, candidates=candidate_by_label, baseline=shared.get(row["seed"]))
        problems += [f"{run_name}: {sentence}" for sentence in sentences]
    return problems + _find_copies(cell, rows)


def _candidates_by_label(configurations: Configurations) -> dict[str, Entrant]:
    return {
        candidate.label: candidate
        for default in configurations.defaults()
        for candidate in configurations.candidates(default)
    }


def _row_faults(
    suite: TrackSuite, cell: TrackCell, row: Row, candidates: Mapping[str, Entrant], baseline: Row | None
) -> Iterable[str]:
    """Yield what is wrong with one row."""
    if row["suite"] != suite.version:
        yield f"it is of the suite {row['suite']}, not {suite.version}."
        return
    if (row["cell"], row["track"]) != (cell.name, cell.track):
        yield f"it is of the cell {row['cell']} of the track {row['track']}."
        return
    if row["seed"] not in suite.seeds_of(cell):
        yield f"the cell has the seeds 0 … {len(suite.seeds_of(cell)) - 1}."
        return
    try:
        entrant = find_entrant(row, candidates)
        config = suite.study(cell, [entrant.entry], [row["seed"]]).runs[0]
    except InputError as error:
        yield str(error)
        return
    if row["federation"] != run_rows.federation_digest(suite, cell):
        yield "the federation is not that of the cell."
    if row["information"] != entrant.information:
        yield f"its information class is {entrant.information}, not {row['information']}."
    if row["status"] == run_rows.FAILED:
        return
    if row["status"] != run_rows.DONE:
        yield f"its status is {row['status']!r}."
        return
    if baseline is None:
        yield f"there is no run of {BASELINE} with its seed."
    elif any(row[key] != baseline[key] for key in SAME_FOR_ALL):
        yield f"its data or partition are not those of {BASELINE} with the same seed."
    yield from _curve_faults(cell, row, config.rounds or 0, config.evaluate_every)


def find_entrant(row: Row, candidates: Mapping[str, Entrant]) -> Entrant:
    """Return the entrant of a row; refuse one that the suite's files do not know, or state differently."""
    entrant = _stated_entrant(row)
    stated = candidates.get(row["label"])
    if stated is not None and (stated.configuration, stated.row) != (entrant.configuration, entrant.row):
        raise InputError(f"{row['label']} is {stated.configuration} in the suite; got {entrant.configuration}.")
    if stated is None and ":" not in entrant.name:
        raise InputError(
            f"the label must be one of the suite's, or the method a class of its own; got {entrant.name!r}."
        )
    return entrant


def _stated_entrant(row: Row) -> Entrant:
    return parse_entrant(row["label"], row["configuration"], row["row"])


def _curve_faults(cell: TrackCell, row: Row, rounds: int, evaluate_every: int) -> Iterable[str]:
    """Yield what is wrong with the curve of a finished run."""
    played = row["rounds"] or 0
    evaluated = row["evaluated"] or []
    expected = [t for t in range(1, played + 1) if t % evaluate_every == 0 or t == played]
    lengths = {len(row[key] or []) for key in ("evaluated", "clocks", "accuracies")}
    if list(evaluated) != expected or len(lengths) != 1:
        yield f"the curve must have the {len(expected)} evaluations of {played} rounds; got {len(evaluated)}."
        return
    if not _is_plausible(row):
        yield "clocks must not fall, and accuracies must be shares."
    if not _has_ended(cell, row, rounds):
        yield f"it ended after {played} rounds at {row['clock']} seconds, before its budget or after it."


def _is_plausible(row: Row) -> bool:
    """Tell whether clocks never run back and all accuracies are between 0 and 1."""
    clocks = np.asarray(row["clocks"], np.float64)
    accuracies = np.asarray(row["accuracies"], np.float64)
    finite = accuracies[~np.isnan(accuracies)]
    clock_runs_on = (np.diff(clocks) >= 0).all()
    are_shares = ((finite >= 0) & (finite <= 1)).all()
    return bool(clock_runs_on and are_shares)


def _has_ended(cell: TrackCell, row: Row, rounds: int) -> bool:
    """Tell whether a run has played all its rounds, or has reached its time budget."""
    if row["rounds"] == rounds:
        return True
    is_short = row["rounds"] < rounds
    return cell.seconds is not None and is_short and row["clock"] is not None and row["clock"] >= cell.seconds


def _find_copies(cell: TrackCell, rows: Sequence[Row]) -> list[str]:
    """Return which seeds of a method have the same choices and the same curve."""
    seeds_by_history: dict[tuple[str, str, tuple[float, ...]], list[int]] = defaultdict(list)
    for row in rows:
        if row["status"] == run_rows.DONE:
            history = (row["label"], row["choices"], tuple(row["accuracies"] or ()))
            seeds_by_history[history].append(row["seed"])
    return [
        f"{cell.name}, {history[0]}: the seeds {', '.join(map(str, sorted(seeds)))} have one and the same history."
        for history, seeds in seeds_by_history.items()
        if len(seeds) > 1
    ]


def find_same_choices(rows: Sequence[Row]) -> list[str]:
    """Return a note for methods of different rows that chose the same clients in a run: they may be one method."""
    labels_by_history: dict[tuple[str, int, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["status"] == run_rows.DONE:
            labels_by_history[row["cell"], row["seed"], row["choices"]].add(row["label"])
    cells_by_labels: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for (cell, _, _), labels in labels_by_history.items():
        if len(labels) > 1:
            cells_by_labels[tuple(sorted(labels))].add(cell)
    return [
        f"{', '.join(labels)} made the same choices in {len(cells)} cells: {', '.join(sorted(cells)[:3])}"
        f"{', …' if len(cells) > 3 else ''}."
        for labels, cells in sorted(cells_by_labels.items())
    ]


# -- playing again ----------------------------------------------------------------------------------------------------


def rerun(suite: TrackSuite, rows: Sequence[Row], *, say: Callable[[str], object] = lambda line: None) -> list[str]:
    """Play the runs of these rows again, and return where the results differ."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="sortition-verify-") as name:
        folder = Path(name)
        rows_by_cell: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            rows_by_cell[row["cell"]].append(row)
        jobs = []
        for cell_name, cell_rows in rows_by_cell.items():
            entrants_by_seed: dict[int, list[Entrant]] = defaultdict(list)
            for row in cell_rows:
                entrants_by_seed[row["seed"]].append(_stated_entrant(row))
            jobs.append(queue.Job(suite.cell_named(cell_name), dict(entrants_by_seed)))
        queue.play_jobs(suite, jobs, folder, say=say)
        for cell_name, cell_rows in rows_by_cell.items():
            played = run_rows.read_rows(run_rows.cell_file(folder, suite.cell_named(cell_name)))
            for row in cell_rows:
                problems += _find_differences(row, played)
    return problems


def _find_differences(row: Row, played: pl.DataFrame) -> list[str]:
    """Return how a stored run differs from the one that was played again."""
    run_name = f"{row['cell']}, {row['label']}, seed {row['seed']}"
    is_same_run = (pl.col("label") == row["label"]) & (pl.col("seed") == row["seed"])
    repetitions = played.filter(is_same_run).rows(named=True)
    if len(repetitions) != 1:
        return [f"{run_name}: it could not be played again."]
    repeated = repetitions[0]
    if repeated["status"] != row["status"]:
        return [f"{run_name}: it is stored as {row['status']}; played again it is {repeated['status']}."]
    if row["status"] == run_rows.FAILED:
        return []
    problems = []
    if repeated["choices"] != row["choices"]:
        problems.append(f"{run_name}: other clients were chosen.")
    if any(repeated[key] != row[key] for key in SAME_FOR_ALL):
        problems.append(f"{run_name}: data or partition differ.")
    if repeated["evaluated"] != row["evaluated"] or not _is_close(repeated["accuracies"], row["accuracies"]):
        problems.append(f"{run_name}: the curve differs{_by_how_much(repeated, row)}.")
    elif not _is_close(repeated["clocks"], row["clocks"]):
        problems.append(f"{run_name}: the clock differs.")
    return problems


def _by_how_much(repeated: Row, stored: Row) -> str:
    """Say by how much two curves of equal length differ, in points; nothing where they cannot be compared."""
    if repeated["evaluated"] != stored["evaluated"]:
        return ""
    difference = 100 * (np.asarray(stored["accuracies"], np.float64) - np.asarray(repeated["accuracies"], np.float64))
    if not np.isfinite(difference).all():
        return ""
    largest = float(np.abs(difference).max())
    return f", stored less played again by {difference.mean():+z.2f} points on average, by up to {largest:.2f}"


def _is_close(repeated: Sequence[float] | None, stored: Sequence[float] | None) -> bool:
    """Tell whether two stored series have the same length and agree up to rounding."""
    first = np.asarray(repeated or [], np.float64)
    second = np.asarray(stored or [], np.float64)
    if first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
