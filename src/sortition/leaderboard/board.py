"""The figures behind the leaderboard: which methods are ranked over which cells, and which are not finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low

import polars as pl

from sortition.leaderboard.entries import BASELINE, REFERENCES
from sortition.leaderboard.ranks_and_gains import Standing, Values, compute_standings, keep_common_seeds, values_by_cell
from sortition.leaderboard.suite import Cell, Suite
from sortition.results.statistics import FEWEST_SEEDS


@dataclass(frozen=True)
class Board:
    """The standings over some cells of a suite.

    A method is ranked if it has, in every cell, at least as many seeds as half of all methods have. The other methods
    are listed as unfinished.

    Attributes:
        suite: the suite that the cells belong to.
        cells: the cells over which methods are compared.
        rows: runs, a row each, in the form of ``results.SCHEMA``; runs of other cells and suites are ignored.
    """

    suite: Suite
    cells: Sequence[Cell]
    rows: pl.DataFrame

    @cached_property
    def runs(self) -> pl.DataFrame:
        """The rows of these cells that were run in this version of the suite."""
        names = [cell.name for cell in self.cells]
        return self.rows.filter((pl.col("suite") == self.suite.version) & pl.col("cell").is_in(names))

    @cached_property
    def seeds(self) -> dict[str, int]:
        """The fewest seeds that a method has in any cell, by method; 0 where it lacks a cell."""
        seeds_by_cell = self.runs.group_by("method", "cell").len()
        counts = seeds_by_cell.group_by("method").agg(pl.len().alias("cells"), pl.min("len"))
        return {
            method: fewest_seeds if n_cells == len(self.cells) else 0
            for method, n_cells, fewest_seeds in sorted(counts.iter_rows())
        }

    @cached_property
    def ranked(self) -> list[str]:
        """The methods that are compared, the baseline first; none while the baseline is unfinished."""
        seeds = {method: count for method, count in self.seeds.items() if method not in REFERENCES}
        enough = FEWEST_SEEDS
        if seeds:
            enough = max(FEWEST_SEEDS, median_low(seeds.values()))
        if seeds.get(BASELINE, 0) < enough:
            return []
        return [BASELINE, *(method for method, count in seeds.items() if count >= enough and method != BASELINE)]

    @cached_property
    def unfinished(self) -> dict[str, int]:
        """The number of finished runs of each method that is not ranked."""
        counts = dict(self.runs.group_by("method").len().iter_rows())
        return {method: int(counts[method]) for method in sorted(counts) if method not in (*self.ranked, *REFERENCES)}

    def values(self, figure: str) -> Values:
        """Return the ranked methods' figures on the seeds that all of them have."""
        if not self.ranked:
            return {}
        return keep_common_seeds(values_by_cell(self.runs, figure), self.ranked)

    def standings(self, figure: str) -> list[Standing]:
        """Return the ranked methods by a figure, the best first."""
        values = self.values(figure)
        if not values:
            return []
        return compute_standings(values, self.ranked)

    @property
    def common_seeds(self) -> int:
        """The number of seeds that the comparison rests on, in the cell that has fewest."""
        return min((len(by_method[BASELINE]) for by_method in self.values("auc").values()), default=0)
