"""What the results of a track say, and how sure it is: ranks, tests, effects, profiles, sensitivity.

Cells are the blocks; seeds are averaged within them. The rules are in docs/leaderboard-rules.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from sortition.core.arrays import Floats
from sortition.core.streams import stream
from sortition.leaderboard import run_rows
from sortition.leaderboard.entrants import BASELINE
from sortition.leaderboard.figures import target_of
from sortition.leaderboard.tracks import MAIN_TRACKS, TrackCell, TrackSuite
from sortition.results.ranking import Ranking, performance_profiles, rank_methods
from sortition.results.statistics import LEVEL

FIGURES = ("area", "end")
SECONDS = "seconds"  # to target
CAP_HOURS = 3.0  # that the runs of one row may take in both main tracks, default and tuned
RESAMPLES = 2000
PROFILE_POINTS = np.round(np.geomspace(1.0, 4.0, 61), 4)
BySeed = dict[int, float]
Values = dict[str, dict[str, BySeed]]  # cell → row → seed → figure


@dataclass(frozen=True)
class CorrectedTest:
    """One of several tests that are corrected together.

    Attributes:
        against: the other method.
        p: of Wilcoxon's signed-rank test over cells.
        adjusted: p by Holm's procedure over all tests of its kind.
    """

    against: str
    p: float
    adjusted: float

    @property
    def separated(self) -> bool:
        """Whether the difference is shown at 5 %, all tests of the kind together."""
        return self.adjusted < LEVEL


@dataclass(frozen=True)
class RowStanding:
    """One row of a track's table.

    Attributes:
        row: its label.
        information: its information class.
        ranks: by figure, the mean rank over cells; 1 is best.
        gain: mean gain of area over the baseline, families weighed equally; a share of accuracy.
        low: lower end of its 95 % interval.
        high: upper end of its 95 % interval.
        end_gain: the same mean of the end.
        better: cells in which its area is larger than the baseline's.
        worse: cells in which it is smaller.
        worst_cell: where it gains least.
        worst_gain: how much it gains there.
        by_family: mean gain of area by family.
        reached: runs that reached the target, and how many there are; None where time is not judged.
        failures: failed runs.
        baseline_test: against the baseline; None for the baseline itself.
        leader_test: against the best other row.
        configuration: the method and its parameters, as text.
        hours: that its runs in these cells took.
        megabytes: mean traffic of a run.
        milliseconds: mean time of a selection.
    """

    row: str
    information: str
    ranks: dict[str, float]
    gain: float
    low: float
    high: float
    end_gain: float
    better: int
    worse: int
    worst_cell: str
    worst_gain: float
    by_family: dict[str, float]
    reached: tuple[int, int] | None
    failures: int
    baseline_test: CorrectedTest | None
    leader_test: CorrectedTest | None
    configuration: str
    hours: float
    megabytes: float
    milliseconds: float


@dataclass(frozen=True)
class Sensitivity:
    """What is left of the first place without one data set.

    Attributes:
        left_out: the data set that is left out.
        cells: how many cells are left.
        leader: who is first by mean rank of area.
        leader_of_all: whether that is who is first with all data sets.
        gain: the leader's family-weighted gain.
        separated_from_baseline: whether it is shown to differ from the baseline.
        separated_from: how many of the other rows it is shown to differ from.
        n_others: how many other rows there are.
    """

    left_out: str
    cells: int
    leader: str
    leader_of_all: bool
    gain: float
    separated_from_baseline: bool
    separated_from: int
    n_others: int


@dataclass(frozen=True)
class TrackBoard:
    """The standings over some cells of one track.

    Attributes:
        suite: the suite.
        cells: cells of one track.
        rows: runs of one configuration per row, in the form of ``run_rows.SCHEMA``.
        seeds: how many seeds a cell must have at most; None for all that the suite has.
        over_cap: rows that took more hours than the rules allow, and are not ranked.
    """

    suite: TrackSuite
    cells: Sequence[TrackCell]
    rows: pl.DataFrame
    seeds: int | None = None
    over_cap: Sequence[str] = ()

    @cached_property
    def runs(self) -> pl.DataFrame:
        """The rows of these cells in this version of the suite."""
        names = [cell.name for cell in self.cells]
        return self.rows.filter((pl.col("suite") == self.suite.version) & pl.col("cell").is_in(names))

    @property
    def is_timed(self) -> bool:
        """Whether the track is judged by time."""
        return bool(self.cells) and self.cells[0].is_timed

    def _seeds_of(self, cell: TrackCell) -> list[int]:
        return list(self.suite.seeds_of(cell))[: self.seeds]

    @cached_property
    def missing(self) -> dict[str, int]:
        """How many runs each row lacks."""
        stored = set(self.runs.select("row", "cell", "seed").iter_rows())
        rows = [BASELINE, *sorted(set(self.runs["row"]) - {BASELINE})]
        return {
            row: sum((row, cell.name, seed) not in stored for cell in self.cells for seed in self._seeds_of(cell))
            for row in rows
        }

    @cached_property
    def complete(self) -> list[str]:
        """The rows that are compared: they have all runs, and so has the baseline."""
        if self.missing.get(BASELINE, 1):
            return []
        return [row for row, n_missing in self.missing.items() if not n_missing and row not in self.over_cap]

    @cached_property
    def unfinished(self) -> dict[str, int]:
        """How many runs each row lacks that is not compared."""
        return {
            row: n_missing
            for row, n_missing in self.missing.items()
            if row not in self.complete and row not in self.over_cap
        }

    @property
    def runs_of_a_row(self) -> int:
        """How many runs a complete row has."""
        return sum(len(self._seeds_of(cell)) for cell in self.cells)

    @cached_property
    def capped(self) -> dict[str, int]:
        """How many runs of each row ended with the most rounds allowed, before the time budget; empty by rounds."""
        if not self.is_timed:
            return {}
        budgets = {cell.name: cell.seconds for cell in self.cells}
        caps = {cell.name: int(self.suite.setting(cell)["rounds"]) for cell in self.cells}
        counts = dict.fromkeys(self.complete, 0)
        done = self.runs.filter(pl.col("row").is_in(self.complete) & (pl.col("status") == run_rows.DONE))
        for row, cell, rounds, clock in done.select("row", "cell", "rounds", "clock").iter_rows():
            counts[row] += rounds >= caps[cell] and clock < (budgets[cell] or 0)
        return counts

    @cached_property
    def targets(self) -> dict[str, float]:
        """The target accuracy of each cell that is judged by time."""
        targets = {}
        if self.is_timed:
            for cell in self.cells:
                rows = self.runs.filter((pl.col("cell") == cell.name) & (pl.col("row") == BASELINE))
                curves = [run_rows.row_curve(self.suite, cell, row) for row in rows.iter_rows(named=True)]
                if curves:
                    targets[cell.name] = target_of(curves)
        return targets

    @cached_property
    def figures(self) -> dict[str, Values]:
        """Figure → cell → row → seed → value; a failed run has area and end 0 and never reaches the target."""
        names = (*FIGURES, SECONDS) if self.is_timed else FIGURES
        figures: dict[str, Values] = {name: {} for name in names}
        cell_by_name = {cell.name: cell for cell in self.cells}
        for run in self.runs.filter(pl.col("row").is_in(self.complete)).iter_rows(named=True):
            cell = cell_by_name[run["cell"]]
            if run["seed"] not in self._seeds_of(cell):
                continue
            curve = run_rows.row_curve(self.suite, cell, run)
            values = {"area": 0.0, "end": 0.0, SECONDS: math.inf}
            if run["status"] == run_rows.DONE and curve.is_sound:
                values = {"area": curve.area(), "end": curve.end()}
                if self.is_timed:
                    values[SECONDS] = curve.reached(self.targets[cell.name])
            for name in names:
                by_row = figures[name].setdefault(cell.name, {})
                by_row.setdefault(run["row"], {})[run["seed"]] = values[name]
        return figures

    def means(self, figure: str) -> dict[str, dict[str, float]]:
        """Return cell → row → mean over seeds; of seconds to target the median, infinite where most never reach it."""
        middle = np.median if figure == SECONDS else np.mean
        return {
            cell: {row: float(middle(list(by_row[row].values()))) for row in self.complete}
            for cell, by_row in self.figures[figure].items()
        }

    def ranking(self, figure: str = "area") -> Ranking:
        """Return mean ranks over cells, with the critical difference and Friedman's test."""
        return rank_methods(self.means(figure), higher=figure != SECONDS)

    @cached_property
    def leader(self) -> str:
        """The row with the best mean rank of area."""
        return next(iter(self.ranking().ranks), "")

    def differences(self, row: str, other: str, figure: str = "area") -> dict[str, float]:
        """Return by cell how much a row exceeds another."""
        return {cell: by_row[row] - by_row[other] for cell, by_row in self.means(figure).items()}

    def weighted_gain(self, row: str, figure: str = "area") -> float:
        """Return the mean gain over the baseline, families weighed equally."""
        return float(np.mean(list(self.family_gains(row, figure).values())))

    def family_gains(self, row: str, figure: str = "area") -> dict[str, float]:
        """Return the mean gain over the baseline by family."""
        gains = self.differences(row, BASELINE, figure)
        by_family: dict[str, list[float]] = {}
        for cell in self.cells:
            by_family.setdefault(cell.family, []).append(gains[cell.name])
        return {family: float(np.mean(values)) for family, values in by_family.items()}

    @cached_property
    def _resampled_gains(self) -> dict[str, Floats]:
        """Row → (RESAMPLES,) family-weighted gains; cells are drawn within families, and seeds within cells."""
        rng = stream(0, "leaderboard bootstrap")
        area = self.figures["area"]
        drawn_seeds = {}
        for cell in self.cells:
            n_seeds = len(self._seeds_of(cell))
            drawn_seeds[cell.name] = rng.integers(n_seeds, size=(RESAMPLES, n_seeds))
        families: dict[str, list[str]] = {}
        for cell in self.cells:
            families.setdefault(cell.family, []).append(cell.name)
        drawn_cells = {
            family: rng.integers(len(names), size=(RESAMPLES, len(names))) for family, names in families.items()
        }
        gains = {}
        for row in self.complete:
            family_means = []
            for family, names in families.items():
                gain_by_cell = np.stack(
                    [self._resampled_cell(area[name], row, drawn_seeds[name]) for name in names], axis=1
                )
                resampled_gains = np.take_along_axis(gain_by_cell, drawn_cells[family], axis=1)
                family_means.append(resampled_gains.mean(axis=1))
            gains[row] = np.mean(family_means, axis=0)
        return gains

    def _resampled_cell(self, by_row: Mapping[str, BySeed], row: str, drawn_seeds: np.ndarray) -> Floats:
        """Return (RESAMPLES,) gains over the baseline in one cell."""
        seeds = sorted(by_row[BASELINE])
        difference = np.array([by_row[row][seed] - by_row[BASELINE][seed] for seed in seeds])
        return np.asarray(difference[drawn_seeds].mean(axis=1), np.float64)

    @cached_property
    def baseline_tests(self) -> dict[str, CorrectedTest]:
        """Every row against the baseline."""
        return self._tests([row for row in self.complete if row != BASELINE], BASELINE)

    @cached_property
    def leader_tests(self) -> dict[str, CorrectedTest]:
        """Every row against the leader; the leader against the one that comes second."""
        tests = self._tests([row for row in self.complete if row != self.leader], self.leader)
        second = next((row for row in self.ranking().ranks if row != self.leader), None)
        if second is not None:
            tests[self.leader] = replace(tests[second], against=second)
        return tests

    def tests_against(self, control: str, rows: Sequence[str]) -> dict[str, CorrectedTest]:
        """Test rows against one control, with Holm's correction over these tests."""
        return self._tests(rows, control)

    def _tests(self, rows: Sequence[str], other: str) -> dict[str, CorrectedTest]:
        p_values = [signed_rank_p(list(self.differences(row, other).values())) for row in rows]
        return {
            row: CorrectedTest(against=other, p=p, adjusted=adjusted)
            for row, p, adjusted in zip(rows, p_values, holm_adjusted(p_values), strict=True)
        }

    def standings(self) -> list[RowStanding]:
        """Return the table's rows, the best mean rank of area first."""
        ranks = {figure: self.ranking(figure).ranks for figure in self.figures}
        return [self._standing(row, ranks) for row in ranks["area"]]

    def _standing(self, row: str, ranks: Mapping[str, Mapping[str, float]]) -> RowStanding:
        """Return the standing of one row: its ranks, gains, tests, failures and costs."""
        runs = self.runs.filter(pl.col("row") == row)
        gains = self.differences(row, BASELINE)
        worst_cell = min(gains, key=lambda cell: gains[cell])
        low, high = np.quantile(self._resampled_gains[row], [LEVEL / 2, 1 - LEVEL / 2])
        reached = None
        if self.is_timed:
            seconds = [value for by_row in self.figures[SECONDS].values() for value in by_row[row].values()]
            reached = (sum(math.isfinite(value) for value in seconds), len(seconds))
        return RowStanding(
            row=row,
            information=str(runs["information"][0]),
            ranks={figure: by_row[row] for figure, by_row in ranks.items()},
            gain=self.weighted_gain(row),
            low=float(low),
            high=float(high),
            end_gain=self.weighted_gain(row, "end"),
            better=sum(gain > 0 for gain in gains.values()),
            worse=sum(gain < 0 for gain in gains.values()),
            worst_cell=worst_cell,
            worst_gain=gains[worst_cell],
            by_family=self.family_gains(row),
            reached=reached,
            failures=int((runs["status"] == run_rows.FAILED).sum()),
            baseline_test=self.baseline_tests.get(row),
            leader_test=self.leader_tests.get(row),
            configuration=str(runs["configuration"][0]),
            hours=float(runs["seconds"].sum() or 0.0) / 3600,
            megabytes=_mean_of(runs["megabytes"]),
            milliseconds=_mean_of(runs["milliseconds"]),
        )

    def error_profiles(self) -> dict[str, Floats]:
        """Return row → share of cells in which its error area 1 − area is within each factor of the least."""
        means = self.means("area")
        costs = {row: np.array([1 - by_row[row] for by_row in means.values()]) for row in self.complete}
        return performance_profiles(costs, PROFILE_POINTS)

    def time_profiles(self) -> dict[str, Floats]:
        """Return row → share of cells in which its seconds to target are within each factor of the least."""
        means = self.means(SECONDS)
        costs = {row: np.array([by_row[row] for by_row in means.values()]) for row in self.complete}
        return performance_profiles(costs, PROFILE_POINTS)

    def sensitivity(self) -> list[Sensitivity]:
        """Return who is first, and how surely, without each data set in turn."""
        return [
            self._sensitivity_without(name) for name in dict.fromkeys(self.suite.data_of(cell) for cell in self.cells)
        ]

    def _sensitivity_without(self, data: str) -> Sensitivity:
        """Return who is first, and how surely, without the cells of one data set."""
        cells = [cell for cell in self.cells if self.suite.data_of(cell) != data]
        board = replace(self, cells=cells, rows=self.runs.filter(pl.col("row").is_in(self.complete)))
        if not cells:
            return Sensitivity(
                left_out=data,
                cells=0,
                leader="",
                leader_of_all=False,
                gain=math.nan,
                separated_from_baseline=False,
                separated_from=0,
                n_others=0,
            )
        other_rows = [row for row in board.complete if row != board.leader]
        baseline_test = board.baseline_tests.get(board.leader)
        return Sensitivity(
            left_out=data,
            cells=len(cells),
            leader=board.leader,
            leader_of_all=board.leader == self.leader,
            gain=board.weighted_gain(board.leader),
            separated_from_baseline=baseline_test is not None and baseline_test.separated,
            separated_from=sum(board.leader_tests[row].separated for row in other_rows),
            n_others=len(other_rows),
        )


def rows_over_cap(results: pl.DataFrame) -> list[str]:
    """Return the rows whose runs took more hours in both main tracks than the rules allow; never the baseline."""
    in_main_tracks = results.filter(pl.col("track").is_in(MAIN_TRACKS) & (pl.col("row") != BASELINE))
    sums = in_main_tracks.group_by("row").agg(pl.sum("seconds"))
    return sorted(row for row, seconds in sums.iter_rows() if seconds / 3600 > CAP_HOURS)


def _mean_of(column: pl.Series) -> float:
    value = column.mean()
    return float(value) if isinstance(value, int | float) else math.nan


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return p of Wilcoxon's signed-rank test that differences are symmetric about 0; 1 where all are 0."""
    from scipy.stats import wilcoxon

    values = np.asarray(differences)
    if not values.any():
        return 1.0
    return float(wilcoxon(values).pvalue)


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down procedure: those below the level are rejected at it."""
    n_tests = len(p_values)
    adjusted = [1.0] * n_tests
    largest = 0.0
    for step, position in enumerate(sorted(range(n_tests), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (n_tests - step) * p_values[position]))
        adjusted[position] = largest
    return adjusted
