"""Array types and the checks that every table of per-client values passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.errors import bad

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def as_array(who: str, values: npt.ArrayLike) -> Array:
    """The values as an array; rows of different lengths are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise bad(who, "an array, all its rows of one shape", values) from None


def as_whole(who: str, values: npt.ArrayLike) -> Ids:
    """Whole numbers as a one-dimensional int64 array: fractions and masks are refused, not cut."""
    given = as_array(who, values)
    if given.size and (given.ndim != 1 or given.dtype.kind not in "iu"):
        raise bad(who, "whole numbers in one dimension", f"{given.dtype} of shape {given.shape}")
    return given.reshape(-1).astype(np.int64)


def as_ids(who: str, ids: npt.ArrayLike, *, ordered: bool = False) -> Ids:
    """Client ids as a one-dimensional int64 array: whole, non-negative, distinct (and sorted, if ``ordered``)."""
    given = as_array(who, ids)
    if given.size == 0:
        return np.empty(0, np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise bad(who, "a one-dimensional array of whole client ids", given)
    if given.dtype == np.uint64 and given.max() > np.iinfo(np.int64).max:
        raise bad(who, "below 2**63", int(given.max()), "Give clients dense ids of your own: 0, 1, 2, …")
    array = given.astype(np.int64, copy=False)
    rising = bool(np.all(array[1:] > array[:-1]))
    if ordered and not rising:
        array = np.sort(array)
    if (array[0] if rising or ordered else array.min()) < 0:
        raise bad(who, "≥ 0", int(array.min()))
    if not rising:
        ranked = array if ordered else np.sort(array)
        repeated = ranked[1:][ranked[1:] == ranked[:-1]]
        if repeated.size:
            raise bad(who, "distinct", f"client {int(repeated[0])} twice")
    return array


def not_among(ids: Ids, among: Ids) -> Ids:
    """The ones of ``ids`` that are not in the sorted array ``among``."""
    if ids is among or among.size == 0:
        return ids[:0] if ids is among else ids
    at = np.minimum(np.searchsorted(among, ids), among.size - 1)
    outside: Ids = ids[among[at] != ids]
    return outside


def without(ids: Ids, chosen: Ids) -> Ids:
    """The sorted array ``ids`` less those in ``chosen``, all of which are in it."""
    keep = np.ones(ids.size, dtype=bool)
    keep[np.searchsorted(ids, chosen)] = False
    left: Ids = ids[keep]
    return left


def frozen(array: Array) -> Array:
    """The same array, read-only: a value object cannot be changed behind its owner's back."""
    view = array.view()
    view.flags.writeable = False
    return view


def worst_tenth(accuracies: Floats) -> Floats:
    """Return the accuracies of the tenth of clients that a model serves worst, the worst first.

    A tenth is at most one client in ten, and at least one client. There must be an accuracy.
    """
    clients = max(1, accuracies.size // 10)
    return np.sort(accuracies)[:clients]
