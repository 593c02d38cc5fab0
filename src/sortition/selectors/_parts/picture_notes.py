"""What a method saw, as notes that the report draws: a hundred clients at most, in rounds 1, 2, 4, 8, … (paper's t)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import Round

LARGEST_PICTURE = 100  # clients
NEIGHBOURS = 3  # nearest clients with which each one is joined

Note = dict[str, Any]  # lists of numbers by their names, as JSON takes them


def is_due(round: Round) -> bool:
    """Tell whether a round has a picture; fewer and fewer rounds do, since notes are part of every record."""
    return round.index & (round.index + 1) == 0


def spread_positions(n: int) -> Ids:
    """Return at most ``LARGEST_PICTURE`` of n positions, evenly spread."""
    if n == 0:
        return np.empty(0, np.int64)
    return np.unique(np.linspace(0, n - 1, min(n, LARGEST_PICTURE)).round().astype(np.int64))


def grouping_note(round: Round, ids: Ids, group: Array, value: Floats | None = None) -> Note:
    """Note clients in groups (clusters, strata), with an estimate each where there is one."""
    if not is_due(round):
        return {}
    positions = spread_positions(ids.size)
    note = {"ids": ids[positions].tolist(), "group": group[positions].tolist()}
    if value is not None:
        note["value"] = np.round(value[positions], 4).tolist()
    return {"grouping": note}


def graph_note(round: Round, ids: Ids, distance: Floats) -> Note:
    """Note each client joined with its nearest ones; ``distance`` (n, n) belongs to ``ids`` in order."""
    if not is_due(round) or ids.size < 2:
        return {}
    to_others = distance + np.diag(np.full(ids.size, np.inf))
    nearest = np.argsort(to_others, axis=1, kind="stable")[:, : min(NEIGHBOURS, ids.size - 1)]
    pairs = np.stack([np.repeat(np.arange(ids.size), nearest.shape[1]), nearest.ravel()], axis=1)
    edges = np.unique(np.sort(pairs, axis=1), axis=0)
    return {"graph": {"ids": ids.tolist(), "edges": edges.tolist()}}


def coverage_note(round: Round, ids: Ids, distance: Floats, chosen: Ids, by: Ids) -> Note:
    """Note clients in the plane as far apart as their updates, and who stands for whom.

    Args:
        round: the round.
        ids: (n,) the clients, sorted.
        distance: (n, n) between them.
        chosen: ids of the cohort.
        by: (n,) ids of those by whom they are represented.
    """
    if not is_due(round) or ids.size < 3:
        return {}
    chosen_positions = np.searchsorted(ids, np.intersect1d(chosen, ids))
    positions = np.union1d(spread_positions(ids.size), chosen_positions)
    xy = project_to_plane(distance[np.ix_(positions, positions)])
    note = {
        "ids": ids[positions].tolist(),
        "xy": np.round(xy, 4).tolist(),
        "by": by[positions].tolist(),
        "chosen": chosen.tolist(),
    }
    return {"coverage": note}


def project_to_plane(distance: Floats) -> Floats:
    """Scale distances to two dimensions (n, 2) classically; the largest coordinate is the unit of length."""
    n = len(distance)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distance**2 @ centring)
    xy = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    return np.asarray(xy / max(float(np.abs(xy).max()), 1e-300))
