"""Who is ranked over which cells, and what is not finished: the figures behind the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low

import polars as pl

from sortition.leaderboard.entries import BASELINE, REFERENCES
from sortition.leaderboard.ranking import Standing, Values, paired, standings, values_of
from sortition.leaderboard.suite import Cell, Suite
from sortition.results.statistics import FEWEST_SEEDS


@dataclass(frozen=True)
class Board:
    """The standings over some cells of a suite.

    Ranked are the methods that have, in every cell, at least as many seeds as half of all methods have; everybody else
    is unfinished and said to be so.
    """

    suite: Suite
    cells: Sequence[Cell]
    rows: pl.DataFrame

    @cached_property
    def runs(self) -> pl.DataFrame:
        """The rows of these cells, in the suite as it is."""
        names = [cell.name for cell in self.cells]
        return self.rows.filter((pl.col("suite") == self.suite.version) & pl.col("cell").is_in(names))

    @cached_property
    def seeds(self) -> dict[str, int]:
        """Method → the fewest seeds that it has in any cell."""
        counts = (
            self.runs.group_by("method", "cell").len().group_by("method").agg(pl.len().alias("cells"), pl.min("len"))
        )
        whole = len(self.cells)
        return {method: least if cells == whole else 0 for method, cells, least in sorted(counts.iter_rows())}

    @cached_property
    def ranked(self) -> list[str]:
        """The methods that are compared, the baseline first; none while the baseline is unfinished."""
        candidates = {name: count for name, count in self.seeds.items() if name not in REFERENCES}
        enough = max(FEWEST_SEEDS, median_low(candidates.values())) if candidates else FEWEST_SEEDS
        if candidates.get(BASELINE, 0) < enough:
            return []
        return [BASELINE, *(name for name, count in candidates.items() if count >= enough and name != BASELINE)]

    @cached_property
    def unfinished(self) -> dict[str, int]:
        """Methods that are not ranked → how many runs they have here."""
        counts = dict(self.runs.group_by("method").len().iter_rows())
        return {name: int(counts[name]) for name in sorted(counts) if name not in (*self.ranked, *REFERENCES)}

    def values(self, figure: str) -> Values:
        """The ranked methods' figures on the seeds that all of them have."""
        return paired(values_of(self.runs, figure), self.ranked) if self.ranked else {}

    def standings(self, figure: str) -> list[Standing]:
        """The ranked methods by a figure, the best first."""
        values = self.values(figure)
        return standings(values, self.ranked) if values else []

    @property
    def common_seeds(self) -> int:
        """How many seeds the comparison rests on, in the cell that has fewest."""
        return min((len(held[BASELINE]) for held in self.values("auc").values()), default=0)
