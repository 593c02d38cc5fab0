"""A choice of clients: its round, the cohort that was chosen, and the weights of those who answered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids, as_ids, as_read_only, find_outside
from sortition.core.errors import bad
from sortition.core.population import Population
from sortition.core.ties import TIE_TOLERANCE

NOBODY: Ids = as_read_only(np.empty(0, np.int64))
MOST_PLACES = 10_000_000  # of a round: methods that draw with replacement draw so many numbers

Notes = dict[str, Any]  # diagnostics by name, for a reader alone: whatever JSON can write


def count_with_standby(cohort_size: int, overselect: float) -> int:
    """Return how many clients begin a round that closes when ``cohort_size`` of them have answered.

    50 × 1.1 are 55, though as floats a little more.
    """
    return math.ceil(round(cohort_size * overselect, 9))


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One choice to be made.

    Attributes:
        index: which selection it is, from 0; a paper's t is ``index + 1``. It keys everything random.
        horizon: how many versions of the model there will be, where known.
        available: sorted ids of the clients that can be chosen: reachable, idle and eligible.
        budget: places to fill.
        population: what is known of the clients.
        rng: the randomness of this choice.
        version: of the model that the chosen will train; the same as ``index`` where rounds do not overlap.
        in_flight: sorted ids of the clients that are at work.
        clock: seconds since the start, simulated or real; None where there is no clock.
        deadline: seconds after which the server no longer waits for the clients of this selection; None where it waits
            for everybody, or nobody knows yet.
    """

    index: int
    horizon: int | None
    available: Ids
    budget: int
    population: Population
    rng: np.random.Generator
    version: int = -1  # of __post_init__: the index
    in_flight: Ids = field(default_factory=lambda: NOBODY)
    clock: float | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.version < 0:
            object.__setattr__(self, "version", self.index)
        if self.index < 0:
            raise bad("Round.index", "≥ 0", self.index)
        if isinstance(self.budget, bool) or not isinstance(self.budget, int | np.integer) or self.budget < 1:
            raise bad("Round.budget", "a whole number ≥ 1", self.budget)
        if self.budget > MOST_PLACES:
            raise bad("Round.budget", f"at most {MOST_PLACES:,}", self.budget)
        if self.horizon is not None and self.horizon < 1:
            raise bad("Round.horizon", "≥ 1 or None", self.horizon)
        object.__setattr__(self, "available", as_read_only(as_ids("Round.available", self.available, ordered=True)))

    @property
    def n_clients(self) -> int:
        """N."""
        return self.population.n_clients

    @property
    def places(self) -> int:
        """How many can be chosen: min(budget, |A_t|)."""
        return min(self.budget, self.available.size)


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Who trains, and with what weight: the next model is w + Σ weights_k · Δ_k.

    Ids are distinct (sampling with replacement is weight); ``groups`` names each member's stratum; ``full`` allows
    more than the budget and is metered as such; ``notes`` hold diagnostics that only a reader needs. With
    ``mass="expected"`` weights sum to 1 in expectation only (inverse probabilities, rates): nothing rescales them.
    Where each client joins with a probability of its own, the number of members is random: ``expected_size`` is the sum
    of these probabilities, and the budget bounds that sum instead of the number.
    """

    ids: Ids
    weights: Floats
    groups: Ids | None = None
    full: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    mass: Literal["one", "expected"] = "one"
    expected_size: float | None = None

    def __post_init__(self) -> None:
        if self.mass not in ("one", "expected"):
            raise bad("Cohort.mass", "'one' or 'expected'", self.mass)
        if self.expected_size is not None and not 0 <= self.expected_size < np.inf:
            raise bad("Cohort.expected_size", "finite and ≥ 0, or None", self.expected_size)
        ids = as_ids("Cohort.ids", self.ids)
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != ids.shape:
            raise bad("Cohort.weights", f"one per member, shape {ids.shape}", f"shape {weights.shape}")
        if not np.isfinite(weights).all() or (weights.size and weights.min() < 0):
            raise bad("Cohort.weights", "finite and ≥ 0", weights)
        object.__setattr__(self, "ids", as_read_only(ids))
        object.__setattr__(self, "weights", as_read_only(weights))
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if groups.shape != ids.shape or groups.dtype.kind not in "iu":
                raise bad("Cohort.groups", f"one whole number per member, shape {ids.shape}", groups)
            object.__setattr__(self, "groups", as_read_only(groups.astype(np.int64, copy=False)))

    @classmethod
    def uniform(cls, ids: npt.ArrayLike, **options: Any) -> Cohort:
        """Return a cohort of equal weights: the next model is (1/|S|) Σ w_k."""
        members = as_ids("Cohort.ids", ids)
        return cls(members, _equal_weights(members.size), **options)

    @classmethod
    def by_size(cls, ids: npt.ArrayLike, sizes: Array, **options: Any) -> Cohort:
        """Return a cohort whose next model is Σ n_k w_k / Σ_S n_k; ``sizes`` is the whole population's (N,)."""
        members = as_ids("Cohort.ids", ids)
        member_sizes = np.asarray(sizes[members], dtype=np.float64)
        total = member_sizes.sum()
        if total > 0:
            return cls(members, member_sizes / total, **options)
        return cls(members, _equal_weights(members.size), **options)

    @classmethod
    def drawn(cls, draws: npt.ArrayLike, **options: Any) -> Cohort:
        """Return the cohort of m draws with replacement: a client drawn twice trains once and counts twice."""
        members, counts = np.unique(np.asarray(draws, dtype=np.int64), return_counts=True)
        return cls(members, counts / max(counts.sum(), 1), **options)

    def weights_of(self, answered: npt.ArrayLike) -> tuple[Floats, Notes]:
        """Return the aggregation weights of those who answered, in their order, and notes.

        The total mass is kept: inside a stratum its members share it; a stratum that fell silent gives its mass to
        the others in proportion. Weights of ``mass="expected"`` stay as they are, whoever falls silent.
        """
        ids = as_ids("Cohort.weights_of(answered)", answered)
        if ids.size == 0:
            return np.empty(0), {}
        order = np.argsort(self.ids)
        ranked = self.ids[order]
        outside = find_outside(ids, ranked)
        if outside.size:
            raise bad("Cohort.weights_of(answered)", "members of the cohort", f"client {int(outside[0])}")
        positions = order[np.searchsorted(ranked, ids)]
        weights = self.weights[positions].copy()
        if self.mass == "expected" or ids.size == self.ids.size:
            return weights, {}
        notes: Notes = {}
        if self.groups is not None:
            self._share_in_groups(weights, self.groups, self.groups[positions])
            silent_groups = np.setdiff1d(self.groups, self.groups[positions])
            if silent_groups.size:
                notes["silent_groups"] = silent_groups.tolist()
        if weights.any():
            weights = rescale(weights, float(self.weights.sum()))
        return weights, notes

    def _share_in_groups(self, weights: Floats, groups: Ids, groups_of_answered: Ids) -> None:
        """Let those who answered share the mass of all members of their group."""
        for group in np.unique(groups_of_answered):
            inside = groups_of_answered == group
            mass = self.weights[groups == group].sum()
            if weights[inside].any():
                weights[inside] = rescale(weights[inside], mass)
            else:
                weights[inside] = mass / inside.sum()


def _equal_weights(count: int) -> Floats:
    return np.full(count, 1.0 / max(count, 1))


def rescale(weights: Floats, total: float) -> Floats:
    """Return the same proportions with another sum, also of weights that are next to nothing."""
    mass = weights.sum()
    with np.errstate(over="ignore"):
        factor = np.float64(total / mass)
    if np.isfinite(factor):
        scaled: Floats = weights * factor
    else:
        scaled = weights / mass * total
    return scaled


def replace_available(round: Round, checked_ids: Ids) -> Round:
    """Return the same round with other clients available, whose ids are known to be sorted, distinct and ≥ 0."""
    same_round = copy(round)
    object.__setattr__(same_round, "available", as_read_only(checked_ids))
    return same_round


def make_unchecked_cohort(ids: Ids, weights: Floats, *, mass: Literal["one", "expected"]) -> Cohort:
    """Return a cohort without checking it: its ids are distinct and ≥ 0, and its weights finite and ≥ 0."""
    values = {"ids": as_read_only(ids), "weights": as_read_only(weights), "mass": mass}
    defaults: dict[str, object] = {"groups": None, "full": False, "notes": {}, "expected_size": None}
    cohort = object.__new__(Cohort)
    for name, value in (values | defaults).items():
        object.__setattr__(cohort, name, value)
    return cohort


def check_cohort(cohort: object, round: Round, method_name: str) -> Cohort:
    """Return the cohort; refuse one that this round does not allow."""
    if not isinstance(cohort, Cohort):
        raise bad(f"{method_name}.select", "a function that returns a Cohort", cohort, "Return Cohort.uniform(ids).")
    outside = find_outside(cohort.ids, round.available)
    if outside.size:
        raise bad(f"{method_name}'s cohort", "available clients", f"client {int(outside[0])}, who is not available")
    size: float = cohort.ids.size
    shown_size: object = cohort.ids.size
    if cohort.expected_size is not None:
        size = cohort.expected_size * (1 - TIE_TOLERANCE)
        shown_size = f"{cohort.expected_size:g} in expectation"
    if not cohort.full and size > round.budget:
        hint = "Take ids[: round.budget], or say full=True if more are meant."
        raise bad(f"{method_name}'s cohort", f"at most {round.budget} clients", shown_size, hint)
    return cohort
