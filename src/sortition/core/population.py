"""What the server knows of its clients when it chooses: the facts of a population, as a selector may see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids, as_array, as_ids, frozen
from sortition.core.errors import InputError, UndeclaredError, bad
from sortition.core.facts import check_fact, check_names


def _rows(shape: tuple[int, ...]) -> str:
    """Say in words what rows of a shape are."""
    if len(shape) == 1:
        return f"rows of {shape[0]} numbers"
    return f"rows of shape {shape}"


def _checked_count(n_clients: object) -> int:
    """Return N; refuse what is no number of clients."""
    if isinstance(n_clients, bool) or not isinstance(n_clients, int | np.integer) or not 1 <= n_clients < 2**63:
        raise bad("Population", "of at least one client", f"{n_clients} clients")
    return int(n_clients)


def _rows_of_first(facts: Mapping[str, Array]) -> int:
    """Return how many rows the first fact has; 0 where there is none."""
    for rows in facts.values():
        if rows.ndim:
            return len(rows)
        break
    return 0


class Population:
    """Static facts about N clients, row k belonging to client k; a selector sees only what it declared.

    Args:
        sizes: (N,) examples per client, 0 … 2**53.
        label_counts: (N, C) examples per client and label, ≥ 0; a client's, together, at most 2**53.
        features: (N, d) vectors that the federation's owner gives, such as a region or a local optimum.
        groups: (N,) whole numbers: an owner, language or region per client.
        known: ids whose rows hold (default: all). Rows of others are never read.
        n_clients: N, where no fact is given.
        own: further facts, (N,) or (N, …) numbers, that a selector of your own reads by their names.
    """

    __slots__ = ("_facts", "_known", "_owner", "n_clients")

    def __init__(
        self,
        sizes: npt.ArrayLike | None = None,
        label_counts: npt.ArrayLike | None = None,
        *,
        features: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        known: npt.ArrayLike | None = None,
        n_clients: int | None = None,
        **own: npt.ArrayLike | None,
    ) -> None:
        check_names(own, "Population")
        arguments = {"sizes": sizes, "label_counts": label_counts, "features": features, "groups": groups, **own}
        facts = {name: as_array(f"Population.{name}", value) for name, value in arguments.items() if value is not None}
        if n_clients is None:
            n_clients = _rows_of_first(facts)
        self.n_clients = _checked_count(n_clients)
        self._known: Ids | None = None
        rows: slice | Ids = slice(None)
        if known is not None:
            known_ids = frozen(as_ids("Population.known", known, ordered=True).copy())
            if known_ids.size and known_ids[-1] >= self.n_clients:
                raise bad("Population.known", f"ids below {self.n_clients}", int(known_ids[-1]))
            self._known = known_ids
            rows = known_ids
        for name, value in facts.items():
            check_fact(name, value, self.n_clients, rows)
        self._facts = {name: frozen(value.copy()) for name, value in facts.items()}  # the caller keeps his own
        self._owner: str | None = None

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
                raise bad(f"join(population).{name}", f"{_rows(earlier_shape)}, as before", _rows(shape))

    def _read(self, name: str) -> Array:
        if self._owner is not None and name not in self._facts:
            raise UndeclaredError(f"{self._owner} read population.{name}, which its needs.reads do not declare.")
        if name not in self._facts:
            raise InputError(f"population.{name} must be given; got nothing. Pass {name}=… to Population.")
        return self._facts[name]

    def __getattr__(self, name: str) -> Array:
        """A fact of one's own, by its name."""
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
    def known(self) -> Ids:
        """Sorted ids of the clients whose facts the server holds."""
        if self._known is None:
            return np.arange(self.n_clients)
        return self._known

    def knows(self, ids: Ids) -> bool:
        """Tell whether the facts of all these clients are held."""
        return self._known is None or bool(np.isin(ids, self._known).all())

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the facts that are held."""
        return tuple(self._facts)

    def disclose(self, names: Iterable[str], owner: str, shown: Mapping[str, Array] | None = None) -> Population:
        """Return the view that a selector gets: a fact that ``owner`` did not declare raises.

        ``shown`` overrides stored values.
        """
        view = object.__new__(Population)
        view.n_clients = self.n_clients
        view._known = self._known
        view._owner = owner
        view._facts = {name: frozen((shown or {}).get(name, self._read(name))) for name in names}
        return view
