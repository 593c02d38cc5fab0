"""Screen what clients send before a selector sees it: NaN, negative losses, wrong shapes, absurd norms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids, as_ids, find_outside
from sortition.core.errors import bad
from sortition.core.guards.settings import Guards
from sortition.core.questions import Reading
from sortition.core.signals import Signal

Answers = Reading | Mapping[int, npt.ArrayLike]
RowShape = tuple[int, ...]
NOT_A_NUMBER = "not a number"


class ScreenedAnswer(NamedTuple):
    """The outcome of screening an answer.

    Attributes:
        reading: the sound rows.
        rejected: client → why its row is unsound.
        dimensions: client → the dimension of its vector, where that is not the right one.
        refused_by_comparison: clients that are refused only because of what others send.
        ids: (m,) clients whose rows have the right shape.
        norms: (m,) the norms of these rows; NaN where one is no possible value.
    """

    reading: Reading
    rejected: dict[int, str]
    dimensions: dict[int, int] = {}
    refused_by_comparison: frozenset[int] = frozenset()
    ids: Ids = np.empty(0, np.int64)
    norms: Floats = np.empty(0)


def screen(
    signal: Signal,
    answers: Answers,
    asked: Ids,
    shape: RowShape | None,
    guards: Guards | None = None,
    *,
    largest_dimension: int | None = None,
    scale: float | None = None,
) -> ScreenedAnswer:
    """Screen an answer: return its sound rows, and who sent an unsound one, with the reason.

    ``shape`` is that of a sound row where it is known; else the most frequent one among the answers counts, of vectors
    of at most ``largest_dimension`` entries. Norms are held against ``scale``, or against their own median. The answers
    are of clients that were asked; :func:`sort_as_asked` refuses others.
    """
    guards = guards or Guards()
    shape = _row_shape(signal, asked, shape)
    if isinstance(answers, Reading) and _is_table(answers.values, shape, largest_dimension):
        return _screen_table(signal, answers, asked, guards=guards, scale=scale)
    tabulated = _tabulate(answers, shape, largest_dimension)
    table = _screen_table(signal, tabulated.reading, asked, guards=guards, scale=scale)
    return table._replace(rejected=tabulated.rejected | table.rejected, dimensions=tabulated.dimensions)


def has_scale(signal: Signal) -> bool:
    """Tell whether the norms of a signal's rows are comparable between clients.

    Those of the server may differ by any factor, and those of pairs depend on who else is asked.
    """
    return signal.of not in ("server", "pairs")


def sort_as_asked(signal: Signal, answers: Answers, asked: Ids) -> Answers:
    """Return the rows in the order in which their clients were asked, and refuse ids that were not asked.

    So a choice among equal values does not depend on the order in which answers arrive.
    """
    _check_asked(signal, answers, asked)
    if isinstance(answers, Mapping):
        return {client: answers[client] for client in asked.tolist() if client in answers}
    if np.array_equal(answers.ids, asked):
        return answers
    place = {client: row for row, client in enumerate(answers.ids.tolist())}
    rows = [place[client] for client in asked.tolist() if client in place]
    return Reading(answers.ids[rows], answers.values[rows])


def _check_asked(signal: Signal, answers: object, asked: Ids) -> None:
    if not isinstance(answers, Reading | Mapping):
        raise bad("answer", "a Reading or a mapping from client id to row", answers)
    ids = answers.ids if isinstance(answers, Reading) else as_ids("Reading.ids", list(answers))
    if np.array_equal(ids, asked):  # the usual case, and at a million clients a sort is not free
        return
    outside = find_outside(ids, np.sort(asked))
    if outside.size:
        raise bad(f"Reading of {signal.name!r}", "from clients that were asked", f"client {int(outside[0])}")


def _row_shape(signal: Signal, asked: Ids, vector_shape: RowShape | None) -> RowShape | None:
    """Return the shape of a sound row: of a vector ``vector_shape``, which is None where it is not known."""
    if signal.scalar:
        return ()
    if signal.of == "pairs":
        return (asked.size,)
    return vector_shape


def _is_table(values: Array, shape: RowShape | None, largest_dimension: int | None) -> bool:
    """Tell whether all rows have the right shape or, where that is not known, a dimension that is believed."""
    if shape is not None:
        return values.shape[1:] == shape
    return values.ndim == 2 and (largest_dimension is None or values.shape[1] <= largest_dimension)


def rows_of(answers: Answers) -> dict[int, Array | None]:
    """Return each client's row as the array that was sent, not yet as floats; None for what is no number."""
    if isinstance(answers, Reading):
        return dict(zip(answers.ids.tolist(), answers.values, strict=True))
    return {int(client): _as_array(row) for client, row in answers.items()}


def _as_array(row: npt.ArrayLike) -> Array | None:
    """Return a row as an array of the type that was sent; None for texts, dates and complex numbers."""
    try:
        array = np.asarray(row)
    except Exception:  # what a client sends can raise anything
        return None
    return array if array.dtype.kind in "biufO" else None


def as_floats(row: npt.ArrayLike) -> Array | None:
    """Return a row as float64; None for what is no number, also whole numbers beyond any float."""
    array = _as_array(row)
    try:
        return None if array is None else array.astype(np.float64)
    except Exception:  # an object's own conversion can raise anything
        return None


def _usual_shape(rows: Mapping[int, Array | None], largest_dimension: int | None) -> RowShape:
    """Return the shape of most vectors among the rows, of those whose dimension is believed."""
    vectors = [row for row in rows.values() if row is not None and row.ndim == 1 and row.size]
    shapes = Counter(row.shape for row in vectors if largest_dimension is None or row.size <= largest_dimension)
    return shapes.most_common(1)[0][0] if shapes else (0,)


def _tabulate(answers: Answers, shape: RowShape | None, largest_dimension: int | None) -> ScreenedAnswer:
    """Put the rows of one shape into a table of floats; return it with the reasons against the others.

    Where the shape is not known, it is that of most vectors. A row is checked as it was sent, and becomes float64 only
    where its shape is the right one.
    """
    rows = rows_of(answers)
    if shape is None:
        shape = _usual_shape(rows, largest_dimension)
    sound_rows: dict[int, Array] = {}
    rejected: dict[int, str] = {}
    dimensions: dict[int, int] = {}
    for client, row in rows.items():
        if row is None:
            rejected[client] = NOT_A_NUMBER
        elif row.ndim == 1 and largest_dimension is not None and row.size > largest_dimension and row.shape != shape:
            rejected[client] = (
                f"{row.size:,} numbers, more than the {largest_dimension:,} that are believed without a ModelSize"
            )
        elif row.shape != shape or not row.size:
            rejected[client] = f"shape {row.shape} in place of {shape}"
            if row.ndim == 1 and row.size:
                dimensions[client] = row.size
        elif (floats := as_floats(row)) is None:
            rejected[client] = NOT_A_NUMBER
        else:
            sound_rows[client] = floats
    table = np.stack(list(sound_rows.values())) if sound_rows else np.empty((0, *shape))
    return ScreenedAnswer(Reading(np.array(list(sound_rows), np.int64), table), rejected, dimensions)


def _screen_table(
    signal: Signal, reading: Reading, asked: Ids, *, guards: Guards, scale: float | None
) -> ScreenedAnswer:
    """Screen a table whose rows have the right shape."""
    values = reading.values
    if not len(reading):
        return ScreenedAnswer(reading, {})
    if signal.of == "pairs":
        return _screen_products(reading, asked, guards)
    flat = values.reshape(len(reading), -1)
    norms = row_norms(flat)
    reasons: dict[int, str] = {}
    if signal.nonnegative:
        negative = np.flatnonzero((flat < 0).any(axis=1) & np.isfinite(norms))
        reasons = dict.fromkeys(negative.tolist(), "negative")
        norms[negative] = np.nan  # they do not count for the median
    too_far = {} if signal.of == "server" else guards.find_too_far(norms, scale)
    reasons = too_far | guards.find_absurd(norms) | reasons
    if not reasons:
        return ScreenedAnswer(reading, {}, ids=reading.ids, norms=norms)
    sound = np.ones(len(reading), dtype=bool)
    sound[list(reasons)] = False
    rejected = {int(reading.ids[row]): reason for row, reason in sorted(reasons.items())}
    refused_by_comparison = frozenset(
        int(reading.ids[row]) for row, reason in too_far.items() if reasons[row] == reason
    )
    return ScreenedAnswer(
        reading=Reading(reading.ids[sound], reading.values[sound]),
        rejected=rejected,
        refused_by_comparison=refused_by_comparison,
        ids=reading.ids,
        norms=norms,
    )


def _screen_products(reading: Reading, asked: Ids, guards: Guards) -> ScreenedAnswer:
    """Screen products between clients: leave out those of clients whose products are no possible value.

    A product has two authors, so that one client can spoil an entry of everybody's row. Whoever has the most unsound
    entries is refused first, until none is left; where several have as many, nobody knows whose fault it is, and they
    are refused without blame. The remaining rows have NaN where a refused client's product was.
    """
    answered_columns = np.flatnonzero(np.isin(asked, reading.ids))
    products = reading.values[:, answered_columns]
    unsound = _unsound_entries(products, guards)
    reasons: dict[int, str] = {}
    blameless: set[int] = set()
    while unsound.any():
        n_unsound = unsound.sum(axis=0) + unsound.sum(axis=1)
        worst = np.flatnonzero(n_unsound == n_unsound.max())
        for row in worst.tolist():
            both_sides = np.concatenate([products[row][unsound[row]], products[:, row][unsound[:, row]]])
            reasons[row] = _reason_against(both_sides, guards)
        if worst.size > 1:
            blameless.update(worst.tolist())
        unsound[worst] = False
        unsound[:, worst] = False
    if not reasons:
        return ScreenedAnswer(reading, {})
    is_sound = np.ones(len(reading), bool)
    is_sound[list(reasons)] = False
    values = reading.values[is_sound]
    values[:, answered_columns[~is_sound]] = np.nan
    return ScreenedAnswer(
        reading=Reading(reading.ids[is_sound], values),
        rejected={int(reading.ids[row]): reason for row, reason in sorted(reasons.items())},
        refused_by_comparison=frozenset(int(reading.ids[row]) for row in blameless),
    )


def _unsound_entries(products: Array, guards: Guards) -> npt.NDArray[np.bool_]:
    """Return a mask (n, n) of products that are not finite, beyond the bound, or larger than such clients usually have.

    How large a client's products usually are is the median of its own ones that are not 0, so that the others cannot
    move it; all products of a client whose median exceeds everybody's too much are unsound.
    """
    with np.errstate(invalid="ignore"):
        sizes = np.abs(products)
        unsound: npt.NDArray[np.bool_] = ~np.isfinite(products) | (sizes > (guards.bound or np.inf))
    believed = np.where(unsound | (sizes == 0), np.nan, sizes)
    has_median = ~np.isnan(believed).all(axis=1)
    if not guards.norm or not has_median.any():
        return unsound
    medians = np.nanmedian(believed[has_median], axis=1)
    usual = float(np.median(medians))
    scales = np.full(len(products), usual)
    scales[has_median] = medians
    expected = np.outer(scales, scales) / usual
    too_large = sizes > guards.norm * np.maximum(expected, usual)
    outsized = scales > guards.norm * usual
    too_large[outsized] = True
    too_large[:, outsized] = True
    return unsound | too_large


def _reason_against(entries: Array, guards: Guards) -> str:
    """Say what is wrong with a client's unsound products."""
    if not np.isfinite(entries).all():
        return "not finite"
    if (np.abs(entries) > (guards.bound or np.inf)).any():
        return f"norm above {guards.bound:g}"
    return f"norm above {guards.norm:g} times the median"


def row_norms(rows: Array) -> Floats:
    """Return the Euclidean norm of each row (n, d), infinite or NaN where the row is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if rows.shape[1] == 1:
            return np.abs(rows[:, 0])
        norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        not_finite = np.flatnonzero(~np.isfinite(norms))  # a square may overflow where the norm does not
        if not_finite.size:
            norms = norms.astype(np.float64)
            largest = np.abs(rows[not_finite]).max(axis=1).astype(np.float64)
            norms[not_finite] = largest * np.sqrt(np.sum((rows[not_finite] / largest[:, None]) ** 2, axis=1))
    return norms


def winsorise(reading: Reading, deviations: float, upper_limit: float = np.inf) -> tuple[Reading, int]:
    """Clip numbers that are many deviations above their median, or above ``upper_limit``; return how many were, too.

    A deviation is 1.4826 · MAD: the standard deviation of a normal law with that median absolute deviation. If the MAD
    is 0, the median takes its place.
    """
    values = reading.values
    if not len(reading):
        return reading, 0
    median = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - median))) or median
    highest = upper_limit
    if spread > 0:
        highest = min(median + deviations * spread, upper_limit)
    too_high = values > highest
    if not too_high.any():
        return reading, 0
    return Reading(reading.ids, np.where(too_high, highest, values)), int(too_high.sum())
