"""Who is eligible, and what the selector is shown of clients: quarantine, quotas per owner, a least number, caps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad
from sortition.core.facts import totals
from sortition.core.guards.settings import Guards
from sortition.core.rounds import Population
from sortition.core.streams import stream


class Eligibility:
    """The guards' memory of clients: how often each was unsound, and until which round it sits out."""

    def __init__(self, guards: Guards, population: Population) -> None:
        self.guards = guards
        self.strikes = np.zeros(population.n_clients, np.int64)
        self.until = np.zeros(population.n_clients, np.int64)
        self.adopt(population)

    def adopt(self, population: Population) -> None:
        """Go on with this population; who was there keeps strikes and sentence."""
        owner: Ids | None = None
        if self.guards.quota:
            if "groups" not in population.facts:
                raise bad("Guards.quota", "0 where owners are unknown", self.guards.quota, "Give Population(groups=…).")
            owner = np.unique(population.groups, return_inverse=True)[1].astype(np.int64, copy=False)
        self._owner = owner
        self.shown, self.capped = capped(population, self.guards)
        room = population.n_clients - self.strikes.size
        self.strikes, self.until = np.pad(self.strikes, (0, room)), np.pad(self.until, (0, room))

    def admit(self, ids: Ids, budget: int, index: int, seed: int) -> tuple[Ids, dict[str, Any]]:
        """The eligible ones of these clients, and what kept the others out."""
        guards, told = self.guards, dict[str, Any]()
        if guards.minimum > budget:
            raise bad("Guards.minimum", f"at most the budget, {budget}", guards.minimum)
        if guards.quarantine and (out := self.until[ids] > index).any():
            told["quarantined"] = int(out.sum())
            ids = ids[~out]
        if self._owner is not None:
            kept = thinned(ids, self._owner[ids], guards.places(budget), stream(seed, "quota", index))
            told |= {"thinned": ids.size - kept.size} if kept.size < ids.size else {}
            ids = kept
        if ids.size < guards.minimum:
            told["too_few_eligible"] = int(ids.size)
            ids = ids[:0]
        return ids, told

    def blame(self, clients: Iterable[int], index: int) -> None:
        """Round ``index`` brought unsound numbers of these; whoever has too many strikes sits out the next rounds."""
        for client in clients:
            self.strikes[client] += 1
            if self.guards.quarantine and self.strikes[client] % self.guards.strikes == 0:
                self.until[client] = index + 1 + self.guards.quarantine


def thinned(ids: Ids, owner: Ids, places: int, rng: np.random.Generator) -> Ids:
    """At most ``places`` ids of each owner (dense numbers aligned with ids), each set of them equally likely."""
    counts = np.bincount(owner)
    if not ids.size or counts.max() <= places:
        return ids
    over = np.flatnonzero(counts[owner] > places)
    over = over[rng.permutation(over.size)]
    kind = np.uint16 if counts.size < 2**16 else np.int64  # small numbers sort in one pass
    order = over[np.argsort(owner[over].astype(kind), kind="stable")]
    many = counts[counts > places]  # in the order of their owners, as ``order`` is
    rank = np.arange(order.size) - np.repeat(np.cumsum(many) - many, many)
    keep = np.ones(ids.size, dtype=bool)
    keep[order[rank >= places]] = False
    return ids[keep]


def capped(population: Population, guards: Guards) -> tuple[dict[str, Array], Array | None]:
    """Sizes and label counts as the selector sees them, and a mask (N,) of the clients that are cut down."""
    if not (guards.size_cap or guards.size_limit):
        return {}, None
    shown, cut = dict[str, Array](), np.zeros(population.n_clients, dtype=bool)
    for name in {"sizes", "label_counts"} & set(population.facts):
        rows = getattr(population, name)
        held = totals(rows[population.known])
        middle = float(np.median(held[held > 0])) if (held > 0).any() else 0.0
        limit = min(guards.size_limit or np.inf, guards.size_cap * middle or np.inf)
        large, total = population.known[held > limit], held[held > limit]  # limit < total ≤ 2**53: no product overflows
        lower = rows[large] * limit / total.reshape(-1, *[1] * (rows.ndim - 1))  # the mixture stays
        shown[name] = rows.copy()
        shown[name][large] = lower if rows.dtype.kind == "f" else np.floor(lower + 1e-9)
        cut[large] = True
    return shown, cut
