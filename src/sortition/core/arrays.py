"""Array types and the checks that every table of per-client values passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.errors import bad

Ids = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]  # in some other array
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def as_array(subject: str, values: npt.ArrayLike) -> Array:
    """Return the values as an array; refuse rows of different dimensions."""
    try:
        return np.asarray(values)
    except ValueError:
        raise bad(subject, "an array, all its rows of one shape", values) from None


def as_whole_numbers(subject: str, values: npt.ArrayLike) -> Ids:
    """Return whole numbers as a one-dimensional int64 array; refuse fractions and masks instead of cutting them."""
    array = as_array(subject, values)
    if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise bad(subject, "whole numbers in one dimension", f"{array.dtype} of shape {array.shape}")
    return array.reshape(-1).astype(np.int64)


def as_ids(subject: str, ids: npt.ArrayLike, *, ordered: bool = False) -> Ids:
    """Return client ids as a one-dimensional int64 array; refuse ids that are not whole, ≥ 0 and distinct.

    With ``ordered``, the array is sorted.
    """
    values = as_array(subject, ids)
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise bad(subject, "a one-dimensional array of whole client ids", values)
    if values.dtype == np.uint64 and values.max() > np.iinfo(np.int64).max:
        raise bad(subject, "below 2**63", int(values.max()), "Give clients dense ids of your own: 0, 1, 2, …")
    array = values.astype(np.int64, copy=False)
    rises = bool((array[1:] > array[:-1]).all())  # sorted and distinct
    in_order = array
    if not rises:
        in_order = np.sort(array)
    if in_order[0] < 0:
        raise bad(subject, "≥ 0", int(in_order[0]))
    if not rises:
        repeated = in_order[1:][in_order[1:] == in_order[:-1]]
        if repeated.size:
            raise bad(subject, "distinct", f"client {int(repeated[0])} twice")
    return in_order if ordered else array


def find_outside(ids: Ids, among: Ids) -> Ids:
    """Return those of ``ids`` that are not in the sorted array ``among``."""
    if ids is among:
        return ids[:0]
    if among.size == 0:
        return ids
    position = np.minimum(np.searchsorted(among, ids), among.size - 1)
    outside: Ids = ids[among[position] != ids]
    return outside


def remove_ids(ids: Ids, chosen: Ids) -> Ids:
    """Return the sorted array ``ids`` without those in ``chosen``, all of which are in it."""
    remaining: Ids = ids[mask_others(ids, chosen)]
    return remaining


def mask_others(ids: Ids, chosen: Ids) -> Array:
    """Return a mask of the sorted array ``ids``: those that are not in ``chosen``, all of which are in it."""
    is_other = np.ones(ids.size, dtype=bool)
    is_other[np.searchsorted(ids, chosen)] = False
    return is_other


def fix_width(table: Array, width: int, fill: float = 0.0) -> Array:
    """Return a table (N, width) full of ``fill`` in place of one of width 0; any other table as it is."""
    if table.shape[1]:
        return table
    return np.full((len(table), width), fill, table.dtype)


def as_read_only(array: Array) -> Array:
    """Return a read-only view of the array, so that nobody changes what a frozen object holds."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_immutable(array: Array) -> Array:
    """Return an array that nobody can change: itself if it is read-only and owns its memory, else a copy."""
    if array.flags.owndata and not array.flags.writeable:
        return array
    return array.copy()


def worst_tenth(accuracies: Floats) -> Floats:
    """Return the accuracies of the tenth of clients that a model serves worst, the worst first.

    A tenth is at most one client in ten, and at least one client. There must be an accuracy.
    """
    clients = max(1, accuracies.size // 10)
    return np.sort(accuracies)[:clients]


def jain_index(shares: Floats) -> float | None:
    """Return Jain's index (Σx)² / (n Σx²) of how often each client was chosen: 1 is even; None where nobody was."""
    if not shares.any():
        return None
    return float(shares.sum() ** 2 / (shares.size * (shares**2).sum()))
