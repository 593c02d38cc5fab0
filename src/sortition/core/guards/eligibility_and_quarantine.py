"""Who is eligible, and what the selector is shown of clients.

Guards keep clients out in this order: quarantine, the ceiling, the limit on clients that have just come, the quota of
an owner; a least number of eligible clients ends a round before it begins. Caps bound what sizes and label counts say.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.cohort import Cohort
from sortition.core.errors import bad
from sortition.core.guards.ceiling import Ceiling
from sortition.core.guards.common_weights import fitted_weights, reweigh, weighing_sizes
from sortition.core.guards.fedau import Intervals
from sortition.core.guards.returning import Presence, keep_few_returning, returning_places
from sortition.core.guards.scales import Scales, Sent
from sortition.core.guards.settings import Guards
from sortition.core.population import Population, total_examples
from sortition.core.streams import stream


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Who may be chosen in a round.

    Attributes:
        ids: the eligible clients, sorted.
        kept_out: the other available clients, by the guard that kept them out.
        notes: how many each guard kept out, for the record.
        just_come: available clients that are new, or back after an absence; nobody where no guard asks.
    """

    ids: Ids
    kept_out: Mapping[str, Ids]
    notes: Mapping[str, Any]
    just_come: Ids


class Eligibility:
    """The guards' memory of clients.

    Attributes:
        strikes: (N,) rounds in which each client sent something unsound.
        quarantined_until: (N,) the first round in which each may be chosen again; 0 where it never was in quarantine.
        ceiling: how often each was chosen, where there is a ceiling.
        presence: how much each was there, where a guard asks who has just come.
        scales: the norm of what each client sent last, where that is remembered.
        intervals: FedAU's intervals of participation, where cohorts are weighed by them.
        shown: facts of the population as the selector sees them, where a cap lowers them.
        capped: (N,) a mask of the clients whose facts are lowered; None without a cap.
    """

    def __init__(self, guards: Guards, population: Population, signals: Iterable[str] = ()) -> None:
        n_clients = population.n_clients
        self.guards = guards
        self.strikes: Ids = np.zeros(n_clients, np.int64)
        self.quarantined_until: Ids = np.zeros(n_clients, np.int64)
        self.ceiling = Ceiling(guards.ceiling, n_clients) if guards.ceiling else None
        self.presence = Presence(n_clients) if guards.returning or guards.remember else None
        self.scales = Scales(signals, guards.remember, n_clients) if guards.remember else None
        self.intervals = Intervals(guards.cutoff, n_clients) if guards.reweight == "fedau" else None
        self.shown, self.capped = cap_facts(population, guards)
        self._owner = number_owners(population, guards)
        self._sizes = weighing_sizes(population, guards, self.shown)
        self._fitted = fitted_weights(population, guards, self.shown)

    # -- a round -------------------------------------------------------------------------------------------------------

    def admit(self, ids: Ids, budget: int, *, version: int, seed: int, index: int) -> Admission:
        """Find out who of these available clients may be chosen, and what keeps the others out.

        Quarantine counts versions of the model; what is drawn depends on the seed and the index of the selection.
        """
        if self.guards.minimum > budget:
            raise bad("Guards.minimum", f"at most the budget, {budget}", self.guards.minimum)
        notes: dict[str, Any] = {}
        kept_out: dict[str, Ids] = {}
        just_come = self._find_just_come(ids)

        def keep_only(passes: Array, guard: str, note: str) -> None:
            nonlocal ids
            if not passes.all():
                kept_out[guard] = ids[~passes]
                notes[note] = int(kept_out[guard].size)
                ids = ids[passes]

        if self.guards.quarantine:
            keep_only(self.quarantined_until[ids] <= version, "quarantined", "quarantined")
        if self.ceiling is not None:
            keep_only(self.ceiling.mask_below(ids, budget), "ceiling", "at_ceiling")
        if self.guards.returning:
            places = returning_places(self.guards.returning, budget)
            passes = keep_few_returning(np.isin(ids, just_come), places, budget, stream(seed, "returning", index))
            keep_only(passes, "returning", "just_come")
        if self._owner is not None:
            places = self.guards.places_per_owner(budget)
            passes = draw_within_quota(self._owner[ids], places, stream(seed, "quota", index))
            keep_only(passes, "quota", "thinned")
        if ids.size < self.guards.minimum:
            notes["too_few_eligible"] = int(ids.size)
            ids = ids[:0]
        if not ids.size:
            kept_out.pop("quota", None)  # nobody can be chosen, so the draw decided nothing
        return Admission(ids, kept_out, notes, just_come)

    def _find_just_come(self, available: Ids) -> Ids:
        """Return those of the available clients that have just come; nobody where no guard asks."""
        if self.presence is None:
            return available[:0]
        return available[self.presence.has_just_come(available, among=available)]

    def reweigh(self, cohort: Cohort) -> Cohort:
        """Return the cohort with the weights that the guards set."""
        return reweigh(cohort, self.guards, sizes=self._sizes, fitted=self._fitted, intervals=self.intervals)

    def record(self, available: Ids, chosen_ids: Ids, used: Ids) -> None:
        """Record a round that is over: who was available, who was chosen, and whose updates are used."""
        if self.ceiling is not None:
            self.ceiling.record(available, chosen_ids)
        if self.presence is not None:
            self.presence.record(available)
        if self.intervals is not None:
            self.intervals.record(used)

    def remembered_scales(self, index: int) -> dict[str, float]:
        """Return the scales that are known in round ``index``, by signal."""
        if self.scales is None:
            return {}
        return self.scales.known_scales(index)

    def remember(self, sent: Sent, index: int) -> None:
        """Take the norms of what clients sent in round ``index`` into the scales."""
        if self.scales is not None:
            self.scales.record(sent, index)

    def blame(self, clients: Iterable[int], index: int) -> None:
        """Give these clients a strike for round ``index``; a client with too many goes into quarantine."""
        for client in clients:
            self.strikes[client] += 1
            if self.guards.quarantine and self.strikes[client] % self.guards.strikes == 0:
                self.quarantined_until[client] = index + 1 + self.guards.quarantine

    # -- copies --------------------------------------------------------------------------------------------------------

    @property
    def remembers_rounds(self) -> bool:
        """Whether some guard remembers who was there, who was chosen or what was sent in earlier rounds."""
        return bool(self._memories)

    def copy(self) -> Eligibility:
        """Return an independent copy: what is recorded in it leaves this one as it was."""
        twin = copy.copy(self)
        twin.strikes = self.strikes.copy()
        twin.quarantined_until = self.quarantined_until.copy()
        for name, memory in self._memories.items():
            setattr(twin, name, copy.deepcopy(memory))
        return twin

    # -- joins and snapshots -------------------------------------------------------------------------------------------

    @property
    def _memories(self) -> dict[str, Ceiling | Presence | Scales | Intervals]:
        """The memories of the guards that are on, beside strikes, by the attribute that holds each."""
        memories = {name: getattr(self, name) for name in ("ceiling", "presence", "scales", "intervals")}
        return {name: memory for name, memory in memories.items() if memory is not None}

    def copy_for(self, population: Population) -> Eligibility:
        """Return a copy for a larger population; clients that were there keep all that is remembered of them."""
        larger = Eligibility(self.guards, population)
        larger.strikes[: self.strikes.size] = self.strikes
        larger.quarantined_until[: self.quarantined_until.size] = self.quarantined_until
        for name, memory in self._memories.items():
            setattr(larger, name, memory.copy_for(population.n_clients))
        return larger

    def export(self) -> dict[str, Array]:
        """Return all that is remembered of clients as named arrays."""
        arrays: dict[str, Array] = {"strikes": self.strikes, "quarantined_until": self.quarantined_until}
        for memory in self._memories.values():
            arrays |= memory.export()
        return arrays

    def restore(self, arrays: Mapping[str, Array], strikes: Ids, quarantined_until: Ids) -> None:
        """Take over what a snapshot holds; refuse it, with nothing changed, where it does not fit."""
        restored = {name: memory.restored(arrays) for name, memory in self._memories.items()}
        self.strikes = strikes
        self.quarantined_until = quarantined_until
        for name, memory in restored.items():
            setattr(self, name, memory)


def number_owners(population: Population, guards: Guards) -> Ids | None:
    """Return each client's owner as a dense number (N,), where a quota asks for it."""
    if not guards.quota:
        return None
    if "groups" not in population.facts:
        raise bad("Guards.quota", "0 where owners are unknown", guards.quota, "Give Population(groups=…).")
    return np.unique(population.groups, return_inverse=True)[1].astype(np.int64, copy=False)


def draw_within_quota(owner: Ids, places: int, rng: np.random.Generator) -> Array:
    """Draw at most ``places`` clients of each owner, each set of them equally likely; return them as a mask.

    ``owner`` (n,) holds dense numbers, as :func:`number_owners` returns them.
    """
    n_clients_of = np.bincount(owner)
    keep = np.ones(owner.size, dtype=bool)
    if not owner.size or n_clients_of.max() <= places:
        return keep
    crowded = np.flatnonzero(n_clients_of[owner] > places)
    shuffled = crowded[rng.permutation(crowded.size)]
    small = np.uint16 if n_clients_of.size < 2**16 else np.int64  # small numbers sort in one pass
    by_owner = shuffled[np.argsort(owner[shuffled].astype(small), kind="stable")]
    crowd_sizes = n_clients_of[n_clients_of > places]  # in the order of their owners, as ``by_owner`` is
    first_of_crowd = np.cumsum(crowd_sizes) - crowd_sizes
    rank = np.arange(by_owner.size) - np.repeat(first_of_crowd, crowd_sizes)
    keep[by_owner[rank >= places]] = False
    return keep


def cap_facts(population: Population, guards: Guards) -> tuple[dict[str, Array], Array | None]:
    """Return sizes and label counts as the selector sees them, and a mask (N,) of the clients with lowered ones."""
    if not (guards.size_cap or guards.size_limit):
        return {}, None
    shown_facts: dict[str, Array] = {}
    is_lowered = np.zeros(population.n_clients, dtype=bool)
    for name in {"sizes", "label_counts"} & set(population.facts):
        rows = getattr(population, name)
        examples = total_examples(rows[population.known_ids])
        positive = examples[examples > 0]
        median = float(np.median(positive)) if positive.size else 0.0
        limit = min(guards.size_limit or np.inf, guards.size_cap * median or np.inf)
        large = population.known_ids[examples > limit]
        total = examples[examples > limit]  # limit < total ≤ 2**53: no product overflows
        lower = rows[large] * limit / total.reshape(-1, *[1] * (rows.ndim - 1))  # the mixture stays
        shown_facts[name] = rows.copy()
        shown_facts[name][large] = lower if rows.dtype.kind == "f" else np.floor(lower + 1e-9)
        is_lowered[large] = True
    return shown_facts, is_lowered
