"""Methods in other than their default form: tuned on the tuning half, or all weighed by one rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sortition.leaderboard.entries import ALTERNATIVES, BASELINE, is_plain_label, weighed_label
from sortition.leaderboard.ranks_and_gains import Values, keep_common_seeds, values_by_cell
from sortition.leaderboard.suite import Suite


def plain_rows(rows: pl.DataFrame, also: Sequence[str] = ()) -> pl.DataFrame:
    """Return the runs of methods with their defaults, and of the labels in ``also``."""
    labels = [label for label in rows["method"].unique().to_list() if is_plain_label(label) or label in also]
    return rows.filter(pl.col("method").is_in(labels))


def weighed_rows(rows: pl.DataFrame, rule: str) -> pl.DataFrame:
    """Return the runs in which cohorts were weighed by a common rule, under the methods' plain names."""
    suffix = weighed_label("", rule)
    rows_of_rule = rows.filter(pl.col("method").str.ends_with(suffix))
    return rows_of_rule.with_columns(pl.col("method").str.strip_suffix(suffix))


def candidate_labels() -> dict[str, list[str]]:
    """Return the labels of each method's default and alternatives, by method."""
    labels_by_method: dict[str, list[str]] = {}
    for label in ALTERNATIVES:
        method = label.partition(",")[0]
        labels_by_method.setdefault(method, [method]).append(label)
    return labels_by_method


def choose_tuned_labels(suite: Suite, rows: pl.DataFrame) -> dict[str, str]:
    """Return each method's candidate with the largest mean AUC on the tuning half.

    A method is left out while one of its candidates has not run in every cell of that half.
    """
    cells = [cell.name for cell in suite.cells("tuning")]
    is_of_tuning = (pl.col("suite") == suite.version) & pl.col("cell").is_in(cells)
    values = values_by_cell(rows.filter(is_of_tuning), "auc")
    best_by_method = {}
    for method, labels in candidate_labels().items():
        values_of_candidates = keep_common_seeds(values, labels)
        if len(values_of_candidates) == len(cells):
            means = {label: _mean_over_cells(values_of_candidates, label) for label in labels}
            best_by_method[method] = max(labels, key=lambda label: means[label])
    return best_by_method


def _mean_over_cells(values: Values, label: str) -> float:
    return float(np.mean([np.mean(list(by_method[label].values())) for by_method in values.values()]))


def tuned_rows(suite: Suite, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of the methods as they were tuned, and of those that have nothing to tune."""
    best = choose_tuned_labels(suite, rows).values()
    without_alternatives = [
        name for name in plain_rows(rows)["method"].unique().to_list() if name not in candidate_labels()
    ]
    return rows.filter(pl.col("method").is_in([BASELINE, *without_alternatives, *best]))
