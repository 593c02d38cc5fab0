"""Two further tables: methods tuned on the tuning half, and all methods weighed alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from sortition.leaderboard.entries import ALTERNATIVES, BASELINE, is_plain, weighed
from sortition.leaderboard.ranking import paired, values_of
from sortition.leaderboard.suite import Suite


def plain_rows(rows: pl.DataFrame, also: Sequence[str] = ()) -> pl.DataFrame:
    """The runs of methods with their defaults, and of these labels."""
    labels = [label for label in rows["method"].unique().to_list() if is_plain(label) or label in also]
    return rows.filter(pl.col("method").is_in(labels))


def weighed_rows(rows: pl.DataFrame, rule: str) -> pl.DataFrame:
    """The runs in which cohorts were weighed by a common rule, under the methods' plain names."""
    suffix = weighed("", rule)
    found = rows.filter(pl.col("method").str.ends_with(suffix))
    return found.with_columns(pl.col("method").str.strip_suffix(suffix))


def candidates() -> dict[str, list[str]]:
    """Method → its default and its alternatives."""
    found: dict[str, list[str]] = {}
    for label in ALTERNATIVES:
        name = label.partition(",")[0]
        found.setdefault(name, [name]).append(label)
    return found


def tuned(suite: Suite, rows: pl.DataFrame) -> dict[str, str]:
    """Method → the candidate with the largest mean AUC on the tuning half, where all of them have run there."""
    cells = [cell.name for cell in suite.cells("tuning")]
    values = values_of(rows.filter((pl.col("suite") == suite.version) & pl.col("cell").is_in(cells)), "auc")
    chosen = {}
    for method, labels in candidates().items():
        held = paired(values, labels)
        if len(held) == len(cells):
            chosen[method] = max(labels, key=lambda label: _mean(held, label))
    return chosen


def _mean(held: Mapping[str, Mapping[str, Mapping[int, float]]], label: str) -> float:
    return float(np.mean([np.mean(list(cell[label].values())) for cell in held.values()]))


def tuned_rows(suite: Suite, rows: pl.DataFrame) -> pl.DataFrame:
    """The runs of the methods as they were tuned, and of those that have nothing to tune."""
    chosen = tuned(suite, rows)
    fixed = [name for name in plain_rows(rows)["method"].unique().to_list() if name not in candidates()]
    return rows.filter(pl.col("method").is_in([BASELINE, *fixed, *chosen.values()]))
