"""Clients of one kind: those whose feature rows are equal or, where there are too many different rows, near."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.streams import stream

SAMPLE = 40  # rows per kind that the centres are found on
CHUNK = 65_536  # rows assigned at a time
DECIMALS = 9  # rows that agree to so many decimals are equal


@dataclass(frozen=True)
class Kinds:
    """Which kind each row is of (n,), the mean row of each kind (C, d), its members (C,), and the error made.

    The inner product of two mean rows is the mean inner product over the pairs of their members.
    """

    of: Ids
    rows: Floats
    members: Ids
    spread: float  # share of the rows' variance that lies inside kinds; 0 where kinds are equal rows


def kinds(rows: Floats, most: int, coarse: int, rng: np.random.Generator) -> Kinds:
    """Equal rows, if there are at most ``most`` different ones; else ``coarse`` groups found by k-means on a sample."""
    rows = np.asarray(rows, np.float64)
    first, of = distinct(rows)
    if first.size <= most:
        return Kinds(of, rows[first], np.bincount(of, minlength=first.size), 0.0)
    return _grouped(rows, coarse, rng)


def distinct(rows: Floats) -> tuple[Ids, Ids]:
    """The first of each group of equal rows, and each row's group; by hashing, since sorting rows is slow."""
    n, width = rows.shape
    whole = np.round(rows, DECIMALS) + 0.0  # −0 becomes 0
    words: Array = np.ascontiguousarray(whole).view(np.uint64)
    odd: Array = np.asarray(2 * stream(0, "row hash", width).integers(2**62, size=width) + 1, np.uint64)
    key: Array = np.zeros(n, np.uint64)
    for column in range(width):
        mixed = words[:, column] * odd[column]
        key += mixed ^ (mixed >> np.uint64(29))
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(whole[first][of], whole):  # two different rows share a key
        _, first, of = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    return first, of.reshape(-1)


def _grouped(rows: Floats, coarse: int, rng: np.random.Generator) -> Kinds:
    seed = int(rng.integers(2**31))
    sample = rng.choice(len(rows), min(len(rows), SAMPLE * coarse), replace=False)
    found = KMeans(min(coarse, sample.size), n_init=1, max_iter=10, random_state=seed).fit(rows[sample])
    parts = np.array_split(rows, -(-len(rows) // CHUNK))
    _, of = np.unique(np.concatenate([_nearest(part, found.cluster_centers_) for part in parts]), return_inverse=True)
    members = np.bincount(of)
    means = np.stack([np.bincount(of, weights=column) for column in rows.T], axis=1) / members[:, None]
    total = float(((rows - rows.mean(axis=0)) ** 2).sum())
    inside = float((rows**2).sum() - (members[:, None] * means**2).sum())
    return Kinds(of, means, members, max(inside, 0.0) / total if total > 0 else 0.0)


def _nearest(rows: Floats, centres: Floats) -> Array:
    return np.asarray(pairwise_distances_argmin(rows.astype(np.float32), centres.astype(np.float32)))
