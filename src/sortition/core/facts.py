"""What a server may hold of its clients, and what makes it sound: of a population, or of one client that joins."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids, as_array
from sortition.core.errors import bad, unknown

FACTS = ("sizes", "label_counts", "features", "groups")
TABLES = ("label_counts", "features")  # a row a client; of the others, a number
# A client's examples, over all labels: a float holds whole numbers exactly up to here, and the sums and squares of
# millions of such sizes are far from its end. Nobody has so much data; whoever says so is broken, or lies.
LARGEST = 2**53
ALIKE = 0.6  # how near to a known name another is taken for a mistake: "labels", "size", "label_count"
TAKEN = ("n_clients", "known", "knows", "facts", "disclose")  # what a population has beside its facts
FARTHEST = 1e100  # a coordinate of a given vector: distances and their squares stay finite


def check_names(names: Iterable[str], owner: str) -> None:
    """Refuse the name of a fact that is a known one misspelt, or no name; any other is a fact of one's own."""
    for name in names:
        if name in FACTS:
            continue
        near = difflib.get_close_matches(name, FACTS, n=1, cutoff=ALIKE)
        if near or not name.isidentifier() or name.startswith("_") or name in TAKEN:
            raise unknown("population fact", name, FACTS, owner)


def check_row(name: str, row: npt.ArrayLike, who: str) -> None:
    """Refuse a fact that one client gives of itself where a population could not hold it."""
    check_fact(name, as_array(f"{who}.{name}", row)[None], 1, who=who)


def check_fact(name: str, value: Array, n: int, rows: slice | Ids = slice(None), who: str = "Population") -> None:
    """Refuse a fact of ``n`` clients that has another shape, or of these rows one that cannot be true."""
    whose = f"{who}.{name}"
    _check_form(name, value, n, whose)
    held = value[rows]
    if value.dtype.kind == "f" and not np.isfinite(held).all():
        raise bad(whose, "finite", "NaN or infinity")
    if name in ("sizes", "label_counts") and held.size:
        if held.min() < 0:
            raise bad(whose, "≥ 0", held.min().item())
        _check_amount(whose, totals(held), LARGEST, rows, "at most 2**53 examples a client")
    if name == "features" and held.size:
        _check_amount(whose, np.abs(held).max(axis=1), FARTHEST, rows, f"within ±{FARTHEST:g}")


def _check_form(name: str, value: Array, n: int, whose: str) -> None:
    """One row a client, of numbers; facts of ours have a number of axes each."""
    wide = name in TABLES or (name not in FACTS and value.ndim > 1)
    if (value.ndim != (2 if wide else 1) and name in FACTS) or value.ndim < 1 or len(value) != n:
        raise bad(whose, f"of shape ({n}, …), one row a client" if wide else f"of shape ({n},)", f"shape {value.shape}")
    if value.dtype.kind not in ("iuf" if name != "groups" else "iu"):
        raise bad(whose, "numbers" if name != "groups" else "whole numbers", f"dtype {value.dtype}")


def totals(rows: Array) -> Array:
    """(n,) examples per client, of sizes (n,) or label counts (n, C); infinite where they overflow."""
    if rows.ndim == 1:
        return rows
    with np.errstate(over="ignore"):
        return np.asarray(rows.sum(axis=1, dtype=np.float64))


def _check_amount(whose: str, amount: Array, most: float, rows: slice | Ids, rule: str) -> None:
    if amount.max() <= most:
        return
    at = int(amount.argmax())
    if amount.size == 1:
        raise bad(whose, rule, float(amount[at]))
    client = at if isinstance(rows, slice) else int(rows[at])
    hint = "Leave its facts out (Population(known=…)), or correct them."
    raise bad(whose, rule, f"{float(amount[at]):g} of client {client}", hint)
