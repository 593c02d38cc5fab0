"""What clients send is sifted before a selector sees it: NaN, negative losses and wrong shapes stay outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids, as_ids, strangers
from sortition.core.errors import bad
from sortition.core.questions import Reading
from sortition.core.signals import Signal

Answers = Reading | Mapping[int, npt.ArrayLike]


def sift(signal: Signal, answers: Answers, asked: Ids, shape: tuple[int, ...] | None) -> tuple[Reading, dict[int, str]]:
    """The sound rows of an answer, and who sent an unsound one, with the reason.

    ``shape`` is that of a sound row where it is known; else the most frequent one among the answers counts.
    Ids that were not asked are the caller's mistake and raise.
    """
    rows = _rows(answers)
    ids = rows.ids if isinstance(rows, Reading) else as_ids("Reading.ids", list(rows))
    complete = np.array_equal(ids, asked)  # the usual case, and at a million clients a sort is not free
    outside = ids[:0] if complete else strangers(ids, np.sort(asked))
    if outside.size:
        raise bad(f"Reading of {signal.name!r}", "from clients that were asked", f"client {int(outside[0])}")
    if signal.scalar:
        shape = ()
    elif signal.of == "pairs":
        shape = (asked.size,)
    if isinstance(rows, Reading) and (shape is None or rows.values.shape[1:] == shape):
        return _sift_table(signal, rows, asked)
    pairs = list(zip(rows.ids.tolist(), rows.values, strict=True)) if isinstance(rows, Reading) else list(rows.items())
    kept: list[tuple[int, Array]] = []
    rejected: dict[int, str] = {}
    parsed = [(int(client), _number(row)) for client, row in pairs]
    wanted = shape
    if wanted is None:
        shapes = Counter(row.shape for _, row in parsed if row is not None)
        wanted = shapes.most_common(1)[0][0] if shapes else ()
    for client, row in parsed:
        if row is None or row.shape != wanted:
            rejected[client] = "not a number" if row is None else f"shape {row.shape} in place of {wanted}"
        else:
            kept.append((client, row))
    table = np.stack([row for _, row in kept]) if kept else np.empty((0, *wanted))
    reading, unsound = _sift_table(signal, Reading(np.array([c for c, _ in kept], np.int64), table), asked)
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


def _sift_table(signal: Signal, reading: Reading, asked: Ids) -> tuple[Reading, dict[int, str]]:
    values = reading.values
    if signal.of == "pairs":  # products with silent clients are unknown, and may be NaN
        values = values[:, np.isin(asked, reading.ids)]
    if not len(reading):
        return reading, {}
    flat = values.reshape(len(reading), -1)
    finite = np.asarray(np.isfinite(flat).all(axis=1))
    sound = finite & np.asarray((flat >= 0).all(axis=1)) if signal.nonnegative else finite
    if sound.all():
        return reading, {}
    unsound = np.flatnonzero(np.logical_not(sound))
    reasons = {int(reading.ids[i]): "negative" if finite[i] else "not finite" for i in unsound}
    return Reading(reading.ids[sound], reading.values[sound]), reasons
