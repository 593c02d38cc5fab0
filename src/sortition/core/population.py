"""What the server knows of its clients when it chooses: facts, what makes them sound, and what a selector may see."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids, as_array, as_ids, as_read_only
from sortition.core.errors import InputError, UndeclaredError, bad, unknown

FACTS = ("sizes", "label_counts", "features", "groups")
TABLE_FACTS = ("label_counts", "features")  # a row a client; of the others, a number
# A client's examples, over all labels: a float holds whole numbers exactly up to here, and the sums and squares of
# millions of such sizes are far from its end. Nobody has so much data; whoever says so is broken, or lies.
LARGEST_COUNT = 2**53
MISSPELT_FROM = 0.6  # similarity to a known name: "labels", "size" and "label_count" are taken for mistakes
RESERVED_NAMES = ("n_clients", "known_ids", "knows", "facts", "disclose")  # what a population has beside its facts
LARGEST_COORDINATE = 1e100  # of a given vector: distances and their squares stay finite


def _describe_rows(shape: tuple[int, ...]) -> str:
    """Say in words what rows of a shape are."""
    if len(shape) == 1:
        return f"rows of {shape[0]} numbers"
    return f"rows of shape {shape}"


def _checked_count(n_clients: object) -> int:
    """Return N; refuse what is no number of clients."""
    if isinstance(n_clients, bool) or not isinstance(n_clients, int | np.integer) or not 1 <= n_clients < 2**63:
        raise bad("Population", "of at least one client", f"{n_clients} clients")
    return int(n_clients)


def _count_rows(facts: Mapping[str, Array]) -> int:
    """Return how many rows the first fact has; 0 where there is none."""
    first_fact = next(iter(facts.values()), None)
    if first_fact is None or not first_fact.ndim:
        return 0
    return len(first_fact)


class Population:
    """Static facts about N clients, row k belonging to client k; a selector sees only what it declared.

    Args:
        sizes: (N,) examples per client, 0 … 2**53.
        label_counts: (N, C) examples per client and label, ≥ 0; a client's, together, at most 2**53.
        features: (N, d) vectors that the federation's owner gives, such as a region or a local optimum.
        groups: (N,) whole numbers: an owner, language or region per client.
        known_ids: clients whose rows hold (default: all). Rows of others are never read.
        n_clients: N, where no fact is given.
        further_facts: (N,) or (N, …) numbers, that a selector of your own reads by their names.
    """

    __slots__ = ("_facts", "_known_ids", "_method_name", "n_clients")

    def __init__(
        self,
        sizes: npt.ArrayLike | None = None,
        label_counts: npt.ArrayLike | None = None,
        *,
        features: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        known_ids: npt.ArrayLike | None = None,
        n_clients: int | None = None,
        **further_facts: npt.ArrayLike | None,
    ) -> None:
        check_names(further_facts, "Population")
        arguments = {
            "sizes": sizes,
            "label_counts": label_counts,
            "features": features,
            "groups": groups,
            **further_facts,
        }
        facts = {name: as_array(f"Population.{name}", value) for name, value in arguments.items() if value is not None}
        if n_clients is None:
            n_clients = _count_rows(facts)
        self.n_clients = _checked_count(n_clients)
        self._known_ids: Ids | None = None
        rows: slice | Ids = slice(None)
        if known_ids is not None:
            rows = as_read_only(as_ids("Population.known_ids", known_ids, ordered=True).copy())
            if rows.size and rows[-1] >= self.n_clients:
                raise bad("Population.known_ids", f"ids below {self.n_clients}", int(rows[-1]))
            self._known_ids = rows
        for name, value in facts.items():
            check_fact(name, value, self.n_clients, rows)
        self._facts = {name: as_read_only(value.copy()) for name, value in facts.items()}  # the caller keeps its arrays
        self._method_name: str | None = None

    def check_successor_of(self, earlier: Population) -> None:
        """Refuse to go on from ``earlier`` with this population: it has fewer clients, or rows of another width."""
        if self.n_clients < earlier.n_clients:
            raise bad("join(population)", f"of at least {earlier.n_clients} clients", self.n_clients)
        for name, earlier_rows in earlier._facts.items():
            if name not in self._facts:
                continue
            earlier_shape = earlier_rows.shape[1:]
            shape = self._facts[name].shape[1:]
            if shape != earlier_shape:
                raise bad(
                    f"join(population).{name}", f"{_describe_rows(earlier_shape)}, as before", _describe_rows(shape)
                )

    def _read(self, name: str) -> Array:
        if self._method_name is not None and name not in self._facts:
            raise UndeclaredError(f"{self._method_name} read population.{name}, which its needs.reads do not declare.")
        if name not in self._facts:
            raise InputError(f"population.{name} must be given; got nothing. Pass {name}=… to Population.")
        return self._facts[name]

    def __getattr__(self, name: str) -> Array:
        """Return a fact of one's own, by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._read(name)

    @property
    def sizes(self) -> Array:
        """(N,) examples per client."""
        return self._read("sizes")

    @property
    def label_counts(self) -> Array:
        """(N, C) examples per client and label."""
        return self._read("label_counts")

    @property
    def features(self) -> Array:
        """(N, d) given vectors."""
        return self._read("features")

    @property
    def groups(self) -> Array:
        """(N,) given groups."""
        return self._read("groups")

    @property
    def known_ids(self) -> Ids:
        """Sorted ids of the clients whose facts the server holds."""
        if self._known_ids is None:
            return np.arange(self.n_clients)
        return self._known_ids

    def knows(self, ids: Ids) -> bool:
        """Tell whether the facts of all these clients are held."""
        return self._known_ids is None or bool(np.isin(ids, self._known_ids).all())

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the facts that are held."""
        return tuple(self._facts)

    def disclose(self, names: Iterable[str], method_name: str, shown: Mapping[str, Array] | None = None) -> Population:
        """Return the view that a selector gets: a fact that the method did not declare raises.

        ``shown`` overrides stored values.
        """
        view = object.__new__(Population)
        view.n_clients = self.n_clients
        view._known_ids = self._known_ids
        view._method_name = method_name
        view._facts = {name: as_read_only((shown or {}).get(name, self._read(name))) for name in names}
        return view


# -- what makes a fact sound -------------------------------------------------------------------------------------------


def check_names(names: Iterable[str], subject: str) -> None:
    """Refuse the name of a fact that is a known one misspelt, or no name; any other is a fact of one's own."""
    for name in names:
        if name in FACTS:
            continue
        is_misspelt = bool(difflib.get_close_matches(name, FACTS, n=1, cutoff=MISSPELT_FROM))
        if is_misspelt or not name.isidentifier() or name.startswith("_") or name in RESERVED_NAMES:
            raise unknown("population fact", name, FACTS, subject)


def check_row(name: str, row: npt.ArrayLike, subject: str) -> None:
    """Refuse a fact that one client gives of itself where a population could not hold it."""
    check_fact(name, as_array(f"{subject}.{name}", row)[None], 1, subject=subject)


def check_fact(name: str, value: Array, n: int, rows: slice | Ids = slice(None), subject: str = "Population") -> None:
    """Refuse a fact of ``n`` clients that has another shape, or whose ``rows`` cannot be true."""
    fact = f"{subject}.{name}"
    _check_form(name, value, n, fact)
    checked = value[rows]
    if value.dtype.kind == "f" and not np.isfinite(checked).all():
        raise bad(fact, "finite", "NaN or infinity")
    if checked.size == 0:
        return
    if name in ("sizes", "label_counts"):
        if checked.min() < 0:
            raise bad(fact, "≥ 0", checked.min().item())
        _check_amount(
            fact,
            amounts=total_examples(checked),
            limit=LARGEST_COUNT,
            rows=rows,
            rule="at most 2**53 examples a client",
        )
    if name == "features":
        largest = np.abs(checked).max(axis=1)
        _check_amount(
            fact, amounts=largest, limit=LARGEST_COORDINATE, rows=rows, rule=f"within ±{LARGEST_COORDINATE:g}"
        )


def _check_form(name: str, value: Array, n: int, fact: str) -> None:
    """Refuse a fact that is not one number, or one row of numbers, for each of ``n`` clients.

    The facts in ``FACTS`` have a fixed number of axes; a user's fact may have any from one on.
    """
    is_users_fact = name not in FACTS
    is_table = name in TABLE_FACTS or (is_users_fact and value.ndim > 1)
    axes = 2 if is_table else 1
    has_right_axes = value.ndim >= 1 if is_users_fact else value.ndim == axes
    if not has_right_axes or len(value) != n:
        shape = f"({n}, …), one row a client" if is_table else f"({n},)"
        raise bad(fact, f"of shape {shape}", f"shape {value.shape}")
    if name == "groups" and value.dtype.kind not in "iu":
        raise bad(fact, "whole numbers", f"dtype {value.dtype}")
    if value.dtype.kind not in "iuf":
        raise bad(fact, "numbers", f"dtype {value.dtype}")


def total_examples(rows: Array) -> Array:
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
    hint = "Leave its facts out (Population(known_ids=…)), or correct them."
    raise bad(fact, rule, f"{amount:g} of client {client}", hint)
