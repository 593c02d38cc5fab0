"""Clients of one kind: those whose feature rows are equal or, where there are too many different rows, near."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.streams import stream

SAMPLE = 40  # rows per kind that the centres are found on
FEW = 2_000  # rows that are sorted rather than hashed
CHUNK = 65_536  # rows assigned at a time
DECIMALS = 9  # rows that agree to so many decimals are equal


@dataclass(frozen=True)
class Kinds:
    """Which kind each row is of (n,), and the row (C,) that stands for each kind; ``equal`` if all its rows are so."""

    of: Ids
    heads: Ids
    equal: bool


def kinds(rows: Floats, most: int, coarse: int, rng: np.random.Generator) -> Kinds:
    """Equal rows, if there are at most ``most`` different ones; else ``coarse`` groups around rows among them."""
    if len(rows) > CHUNK and distinct(rows[:CHUNK])[0].size > most:  # the first of very many rows tell
        return _grouped(rows, coarse, rng)
    first, of = distinct(rows)
    return Kinds(of, first, True) if first.size <= most else _grouped(rows, coarse, rng)


def distinct(rows: Floats) -> tuple[Ids, Ids]:
    """The first of each group of equal rows, and each row's group; of many rows by hashing, since sorting is slow."""
    n, width = rows.shape
    whole = np.round(rows, DECIMALS) + 0.0  # −0 becomes 0
    if n <= FEW:
        _, first, of = np.unique(whole, axis=0, return_index=True, return_inverse=True)
        return first, of.reshape(-1)
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
    """K-means on a sample; the sampled row nearest to a centre heads a group, and each row joins its nearest head."""
    seed = int(rng.integers(2**31))
    sample = rng.choice(len(rows), min(len(rows), SAMPLE * coarse), replace=False)
    found = KMeans(min(coarse, sample.size), n_init=1, max_iter=10, random_state=seed).fit(rows[sample])
    heads = sample[np.unique(nearest(found.cluster_centers_, rows[sample]))]
    return Kinds(nearest(rows, rows[heads]), heads, False)


def nearest(rows: Floats, among: Floats) -> Ids:
    """For each row the position of the nearest of the others."""
    parts = np.array_split(rows, -(-len(rows) // CHUNK))
    others = among.astype(np.float32)
    return np.concatenate([pairwise_distances_argmin(part.astype(np.float32), others) for part in parts])
