"""Clusters of rows by their centres: the rows on which they are fitted, and the nearest centre of each row."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import round_to_tie_grid


def sample_rows(vectors: Array, sample: int, rng: np.random.Generator) -> Array:
    """Return all rows, or where there are more than ``sample``, that many random ones in their order."""
    if len(vectors) <= sample:
        return vectors
    return vectors[np.sort(rng.choice(len(vectors), sample, replace=False))]


def count_distinct(rows: Floats) -> int:
    """Count the rows that differ in their first twelve decimals."""
    return len(np.unique(np.round(rows, 12), axis=0))


def nearest_centre(rows: Array, centres: Array) -> Ids:
    """Return the centre that is nearest to each row, (n,); of equally near ones the first."""
    squared = np.einsum("ij,ij->i", centres, centres) - 2.0 * (rows @ centres.T)  # less ‖row‖², equal for all centres
    scale = float(np.abs(squared).max(initial=0.0))
    return np.asarray(round_to_tie_grid(squared, scale).argmin(axis=1), np.int64)
