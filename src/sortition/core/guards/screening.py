"""What clients send is sifted before a selector sees it: NaN, negative losses, wrong shapes, absurd norms stay out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids, as_ids, not_among
from sortition.core.errors import bad
from sortition.core.guards.settings import Guards
from sortition.core.questions import Reading
from sortition.core.signals import Signal

Answers = Reading | Mapping[int, npt.ArrayLike]


def screen(
    signal: Signal, answers: Answers, asked: Ids, shape: tuple[int, ...] | None, guards: Guards | None = None
) -> tuple[Reading, dict[int, str]]:
    """The sound rows of an answer, and who sent an unsound one, with the reason.

    ``shape`` is that of a sound row where it is known; else the most frequent one among the answers counts.
    Ids that were not asked are the caller's mistake and raise.
    """
    rows = _rows(answers)
    ids = rows.ids if isinstance(rows, Reading) else as_ids("Reading.ids", list(rows))
    complete = np.array_equal(ids, asked)  # the usual case, and at a million clients a sort is not free
    outside = ids[:0] if complete else not_among(ids, np.sort(asked))
    if outside.size:
        raise bad(f"Reading of {signal.name!r}", "from clients that were asked", f"client {int(outside[0])}")
    if signal.scalar:
        shape = ()
    elif signal.of == "pairs":
        shape = (asked.size,)
    if isinstance(rows, Reading) and (rows.values.ndim == 2 if shape is None else rows.values.shape[1:] == shape):
        return _sift_table(signal, rows, asked, guards or Guards())
    pairs = list(zip(rows.ids.tolist(), rows.values, strict=True)) if isinstance(rows, Reading) else list(rows.items())
    kept: list[tuple[int, Array]] = []
    rejected: dict[int, str] = {}
    parsed = [(int(client), _number(row)) for client, row in pairs]
    wanted = shape
    if wanted is None:
        shapes = Counter(row.shape for _, row in parsed if row is not None and row.ndim == 1 and row.size)  # vectors
        wanted = shapes.most_common(1)[0][0] if shapes else (0,)
    for client, row in parsed:
        if row is None or row.shape != wanted or not row.size:
            rejected[client] = "not a number" if row is None else f"shape {row.shape} in place of {wanted}"
        else:
            kept.append((client, row))
    table = np.stack([row for _, row in kept]) if kept else np.empty((0, *wanted))
    reading = Reading(np.array([c for c, _ in kept], np.int64), table)
    reading, unsound = _sift_table(signal, reading, asked, guards or Guards())
    return reading, rejected | unsound


def _rows(answers: Answers) -> Answers:
    if isinstance(answers, Reading | Mapping):
        return answers
    raise bad("answer", "a Reading or a mapping from client id to row", answers)


def _number(row: npt.ArrayLike) -> Array | None:
    try:
        return np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _sift_table(signal: Signal, reading: Reading, asked: Ids, guards: Guards) -> tuple[Reading, dict[int, str]]:
    values = reading.values
    if signal.of == "pairs":  # products with silent clients are unknown, and may be NaN
        values = values[:, np.isin(asked, reading.ids)]
    if not len(reading):
        return reading, {}
    flat = values.reshape(len(reading), -1)
    far = norms(flat)
    negative = np.flatnonzero((flat < 0).any(axis=1) & np.isfinite(far)) if signal.nonnegative else as_ids("", [])
    far[negative] = np.nan  # they have no say in the median
    reasons = guards.absurd(far) | dict.fromkeys(negative.tolist(), "negative")
    if not reasons:
        return reading, {}
    sound = np.ones(len(reading), dtype=bool)
    sound[list(reasons)] = False
    told = {int(reading.ids[at]): reason for at, reason in sorted(reasons.items())}
    return Reading(reading.ids[sound], reading.values[sound]), told


def norms(rows: Array) -> Floats:
    """The Euclidean norm of each row (n, d), infinite or NaN where the row is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.abs(rows[:, 0]) if rows.shape[1] == 1 else np.sqrt(np.einsum("ij,ij->i", rows, rows))
        odd = np.flatnonzero(~np.isfinite(found))  # a square may overflow where the norm does not
        if odd.size and rows.shape[1] > 1:
            found = found.astype(np.float64)
            scale = np.abs(rows[odd]).max(axis=1).astype(np.float64)
            found[odd] = scale * np.sqrt(np.sum((rows[odd] / scale[:, None]) ** 2, axis=1))
    return found


def winsorised(reading: Reading, limit: float) -> tuple[Reading, int]:
    """One number a client, clipped at median + ``limit`` · 1.4826 MAD of the reading, and how many were.

    1.4826 makes the median absolute deviation that of a normal law. Where most are equal, the median is the scale.
    """
    values = reading.values
    if not len(reading):
        return reading, 0
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle))) or middle
    high = values > middle + limit * spread
    if spread <= 0 or not high.any():
        return reading, 0
    return Reading(reading.ids, np.where(high, middle + limit * spread, values)), int(high.sum())
