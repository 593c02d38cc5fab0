"""Who is eligible, and what the selector is shown of clients: quarantine, ceiling, quotas, a least number, caps."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad
from sortition.core.facts import totals
from sortition.core.guards.ceiling import Ceiling
from sortition.core.guards.intervals import Intervals
from sortition.core.guards.reweighting import reweighted, weighing_sizes
from sortition.core.guards.settings import Guards
from sortition.core.rounds import Cohort, Population
from sortition.core.streams import stream


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """The eligible clients of a round, the others by the guard that kept them out, and notes for the record."""

    ids: Ids
    kept_out: Mapping[str, Ids]
    notes: Mapping[str, Any]


class Eligibility:
    """The guards' memory of clients: how often each was unsound or chosen, until when it is in quarantine."""

    def __init__(self, guards: Guards, population: Population) -> None:
        self.guards = guards
        self.strikes = np.zeros(population.n_clients, np.int64)
        self.until = np.zeros(population.n_clients, np.int64)
        self.ceiling = Ceiling(guards.ceiling, population.n_clients) if guards.ceiling else None
        self._owner = owners(population, guards)
        self.shown, self.capped = capped(population, guards)
        self.intervals = Intervals(guards.cutoff, population.n_clients) if guards.reweight == "fedau" else None
        self._sizes = weighing_sizes(population, guards, self.shown)

    def grown(self, population: Population) -> Eligibility:
        """The same of a larger population; who was there keeps strikes and quarantine."""
        made = Eligibility(self.guards, population)
        made.strikes[: self.strikes.size], made.until[: self.until.size] = self.strikes, self.until
        made.ceiling = None if self.ceiling is None else self.ceiling.grown(population.n_clients)
        made.intervals = None if self.intervals is None else self.intervals.grown(population.n_clients)
        return made

    @property
    def counts(self) -> bool:
        """Whether it remembers who was available, chosen and used."""
        return self.ceiling is not None or self.intervals is not None

    def copied(self) -> Eligibility:
        """The same with a memory of its own: what is recorded in the copy leaves this one as it was."""
        twin = copy.copy(self)
        twin.strikes = self.strikes.copy()
        twin.until = self.until.copy()
        twin.ceiling = copy.deepcopy(self.ceiling)
        twin.intervals = copy.deepcopy(self.intervals)
        return twin

    def admit(self, ids: Ids, budget: int, version: int, seed: int, *, draw: int | None = None) -> Admission:
        """The eligible ones of these clients, and what kept the others out.

        Quarantine counts versions of the model; ``draw`` (by default the version) keys the quota's draw.
        """
        guards, notes, kept_out = self.guards, dict[str, Any](), dict[str, Ids]()
        if guards.minimum > budget:
            raise bad("Guards.minimum", f"at most the budget, {budget}", guards.minimum)
        if guards.quarantine and (out := self.until[ids] > version).any():
            ids, kept_out["quarantined"] = ids[~out], ids[out]
            notes["quarantined"] = int(out.sum())
        if self.ceiling is not None and not (below := self.ceiling.below(ids, budget)).all():
            ids, kept_out["ceiling"] = ids[below], ids[~below]
            notes["at_ceiling"] = int(kept_out["ceiling"].size)
        if self._owner is not None:
            keep = within_quota(
                self._owner[ids], guards.places(budget), stream(seed, "quota", version if draw is None else draw)
            )
            if not keep.all():
                ids, kept_out["quota"] = ids[keep], ids[~keep]
                notes["thinned"] = int(kept_out["quota"].size)
        if ids.size < guards.minimum:
            notes["too_few_eligible"] = int(ids.size)
            ids = ids[:0]
        if not ids.size:
            kept_out.pop("quota", None)  # nobody can be chosen, so the draw decided nothing
        return Admission(ids, kept_out, notes)

    def reweighted(self, cohort: Cohort) -> Cohort:
        """The cohort with the weights that the guards set."""
        return reweighted(cohort, self.guards, self._sizes, self.intervals)

    def record(self, available: Ids, cohort: Ids, used: Ids) -> None:
        """A round is over: who was available, who was chosen, and whose updates are used."""
        if self.ceiling is not None:
            self.ceiling.record(available, cohort)
        if self.intervals is not None:
            self.intervals.record(used)

    def export(self) -> dict[str, Array]:
        """What ceiling and intervals remember, as named arrays."""
        ceiling = {} if self.ceiling is None else self.ceiling.export()
        return ceiling if self.intervals is None else ceiling | self.intervals.export()

    def blame(self, clients: Iterable[int], index: int) -> None:
        """Round ``index`` brought unsound numbers of these; whoever has too many strikes goes into quarantine."""
        for client in clients:
            self.strikes[client] += 1
            if self.guards.quarantine and self.strikes[client] % self.guards.strikes == 0:
                self.until[client] = index + 1 + self.guards.quarantine


def owners(population: Population, guards: Guards) -> Ids | None:
    """(N,) each client's owner as a dense number, where a quota asks for it."""
    if not guards.quota:
        return None
    if "groups" not in population.facts:
        raise bad("Guards.quota", "0 where owners are unknown", guards.quota, "Give Population(groups=…).")
    return np.unique(population.groups, return_inverse=True)[1].astype(np.int64, copy=False)


def within_quota(owner: Ids, places: int, rng: np.random.Generator) -> Array:
    """A mask that keeps at most ``places`` clients of each owner (dense numbers), each set of them equally likely."""
    counts, keep = np.bincount(owner), np.ones(owner.size, dtype=bool)
    if not owner.size or counts.max() <= places:
        return keep
    over = np.flatnonzero(counts[owner] > places)
    over = over[rng.permutation(over.size)]
    kind = np.uint16 if counts.size < 2**16 else np.int64  # small numbers sort in one pass
    order = over[np.argsort(owner[over].astype(kind), kind="stable")]
    many = counts[counts > places]  # in the order of their owners, as ``order`` is
    rank = np.arange(order.size) - np.repeat(np.cumsum(many) - many, many)
    keep[order[rank >= places]] = False
    return keep


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
