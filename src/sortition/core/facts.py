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
        is_misspelt = bool(difflib.get_close_matches(name, FACTS, n=1, cutoff=ALIKE))
        if is_misspelt or not name.isidentifier() or name.startswith("_") or name in TAKEN:
            raise unknown("population fact", name, FACTS, owner)


def check_row(name: str, row: npt.ArrayLike, who: str) -> None:
    """Refuse a fact that one client gives of itself where a population could not hold it."""
    check_fact(name, as_array(f"{who}.{name}", row)[None], 1, who=who)


def check_fact(name: str, value: Array, n: int, rows: slice | Ids = slice(None), who: str = "Population") -> None:
    """Refuse a fact of ``n`` clients that has another shape, or whose ``rows`` cannot be true."""
    fact = f"{who}.{name}"
    _check_form(name, value, n, fact)
    checked = value[rows]
    if value.dtype.kind == "f" and not np.isfinite(checked).all():
        raise bad(fact, "finite", "NaN or infinity")
    if checked.size == 0:
        return
    if name in ("sizes", "label_counts"):
        if checked.min() < 0:
            raise bad(fact, "≥ 0", checked.min().item())
        _check_amount(fact, amounts=totals(checked), limit=LARGEST, rows=rows, rule="at most 2**53 examples a client")
    if name == "features":
        largest = np.abs(checked).max(axis=1)
        _check_amount(fact, amounts=largest, limit=FARTHEST, rows=rows, rule=f"within ±{FARTHEST:g}")


def _check_form(name: str, value: Array, n: int, fact: str) -> None:
    """Refuse a fact that is not one number, or one row of numbers, for each of ``n`` clients.

    The facts in ``FACTS`` have a fixed number of axes; a user's fact may have any from one on.
    """
    is_users_fact = name not in FACTS
    is_table = name in TABLES or (is_users_fact and value.ndim > 1)
    axes = 2 if is_table else 1
    has_right_axes = value.ndim >= 1 if is_users_fact else value.ndim == axes
    if not has_right_axes or len(value) != n:
        shape = f"({n}, …), one row a client" if is_table else f"({n},)"
        raise bad(fact, f"of shape {shape}", f"shape {value.shape}")
    if name == "groups" and value.dtype.kind not in "iu":
        raise bad(fact, "whole numbers", f"dtype {value.dtype}")
    if value.dtype.kind not in "iuf":
        raise bad(fact, "numbers", f"dtype {value.dtype}")


def totals(rows: Array) -> Array:
    """Return (n,) examples per client, of sizes (n,) or label counts (n, C); infinite where they overflow."""
    if rows.ndim == 1:
        return rows
    with np.errstate(over="ignore"):
        return np.asarray(rows.sum(axis=1, dtype=np.float64))


def _check_amount(fact: str, *, amounts: Array, limit: float, rows: slice | Ids, rule: str) -> None:
    """Refuse an amount of some client that is above the limit, and name that client where there are several."""
    if amounts.max() <= limit:
        return
    row = int(amounts.argmax())
    amount = float(amounts[row])
    if amounts.size == 1:
        raise bad(fact, rule, amount)
    client = row if isinstance(rows, slice) else int(rows[row])
    hint = "Leave its facts out (Population(known=…)), or correct them."
    raise bad(fact, rule, f"{amount:g} of client {client}", hint)
