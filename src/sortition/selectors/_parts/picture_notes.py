"""What a method saw, as notes that the report draws: a hundred clients at most, in rounds 1, 2, 4, 8, … (paper's t)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.rounds import Round

SHOWN = 100
NEAREST = 3


def due(round: Round) -> bool:
    """Ever rarer: notes are part of every record."""
    return round.index & (round.index + 1) == 0


def spread_positions(n: int) -> Ids:
    """At most ``SHOWN`` of n positions, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, SHOWN)).round().astype(np.int64)) if n else np.empty(0, np.int64)


def grouping_note(round: Round, ids: Ids, group: Array, value: Floats | None = None) -> dict[str, Any]:
    """Clients in groups (clusters, strata), with an estimate each where there is one."""
    if not due(round):
        return {}
    at = spread_positions(ids.size)
    note = {"ids": ids[at].tolist(), "group": group[at].tolist()}
    if value is not None:
        note["value"] = np.round(value[at], 4).tolist()
    return {"grouping": note}


def graph_note(round: Round, ids: Ids, distance: Floats) -> dict[str, Any]:
    """Each client joined with its nearest ones; ``distance`` (n, n) belongs to ``ids`` in order."""
    if not due(round) or ids.size < 2:
        return {}
    apart = distance + np.diag(np.full(ids.size, np.inf))
    nearest = np.argsort(apart, axis=1, kind="stable")[:, : min(NEAREST, ids.size - 1)]
    pairs = np.stack([np.repeat(np.arange(ids.size), nearest.shape[1]), nearest.ravel()], axis=1)
    return {"graph": {"ids": ids.tolist(), "edges": np.unique(np.sort(pairs, axis=1), axis=0).tolist()}}


def coverage_note(round: Round, ids: Ids, distance: Floats, chosen: Ids, by: Ids) -> dict[str, Any]:
    """Clients in the plane as far apart as their updates, and who stands for whom (both ids)."""
    if not due(round) or ids.size < 3:
        return {}
    at = np.union1d(spread_positions(ids.size), np.searchsorted(ids, np.intersect1d(chosen, ids)))
    xy = plane(distance[np.ix_(at, at)])
    note = {"ids": ids[at].tolist(), "xy": np.round(xy, 4).tolist(), "by": by[at].tolist(), "chosen": chosen.tolist()}
    return {"coverage": note}


def plane(distance: Floats) -> Floats:
    """Classical multidimensional scaling to two dimensions (n, 2), as unit of length the largest coordinate."""
    n = len(distance)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distance**2 @ centring)
    xy = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    return np.asarray(xy / max(float(np.abs(xy).max()), 1e-300))
