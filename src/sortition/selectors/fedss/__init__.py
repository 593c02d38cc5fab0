"""Stratified sampling (FedSS): Tang and Wong 2023, *Tackling system induced bias in federated learning*.

Who is reachable changes over the day, and unlike groups of clients change unlike: a sample of the reachable is then a
biased sample of the population, however large (Lemma 1). Sampling inside strata, and giving each stratum its share of
the *population*, removes that bias (Lemma 2).

| paper | here |
|---|---|
| groups N_k, k = 1 … K | strata: ``state.stratum`` (N,), made from ``by`` = "labels", "features" or given "groups" |
| p_n, GMM, score(K°), eq. 23 | ``strata.stratify``, K° = 2 … min(S, ``most``) |
| S^k = S N_k / N (FedSS-P) | ``allocation="proportional"`` |
| S^k ∝ H_k N_k, eq. 19 (FedSS-O) | ``allocation="neyman"`` |
| H_k², eq. 11 | pooled over the rounds: ``state.squares / state.freedom``, from what ``spread`` names |
| S_t^k ⊂ A_t^k, simple random sampling | ``draw="uniform"`` inside each stratum |
| Σ_k (n_(k)/n) Σ_{S_t^k} D_n w_n / Σ D_n, eq. 9 | the cohort's weights; its ``groups`` keep each stratum's mass |

FedProxSS is the same selection with the proximal term in local training (``local = { proximal = 0.01 }``).

Deviations, all where the paper is silent: S^k are made whole by largest remainders with at least one place each and at
most A_t^k, the surplus shared in proportion (``allocation``). A stratum of which nobody is reachable gives its
mass to the others in proportion; that round is biased, and noted. With more strata than places, strata are drawn with
chances ∝ their mass and weigh mass/chance: still unbiased. With unequal sizes eq. 9 after uniform draws is a ratio
estimator (one place: all members count alike); ``draw="size"`` draws by size and weighs size/chance, without that bias.
Mixtures have spherical components with a floor under the variance; newcomers go to the nearest mean. Unmeasured strata
take the mean H of the measured ones, so Neyman's allocation starts proportional. Beyond ``sample`` clients mixtures are
fitted and scored on a random sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    DISPERSION,
    STEP_GRADIENT,
    Cohort,
    Feedback,
    Needs,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.rounds import Population
from sortition.core.sampling import uniformly
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.label_privacy import noisy_counts
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.fedss.allocation import apportion, inclusion, systematic
from sortition.selectors.fedss.strata import given, nearest, stratify

FACT = {"labels": "label_counts", "features": "features", "groups": "groups"}


@dataclass
class Memory(State):
    """Who belongs where (−1: not yet known), and the strata's means, silhouette and measured spread."""

    stratum: Ids = per_client(-1, dtype=int)
    means: Array | None = shared()  # (K, d); of given groups, their values (K, 1)
    score: float = shared(0.0)
    squares: Floats | None = shared()  # (K,) sums of squared deviations, over the rounds
    freedom: Floats | None = shared()  # (K,) their degrees of freedom


@method
class FedSS(Selector[Memory]):
    """Every stratum is sampled in every round and weighs its share of the population.

    Attributes:
        by: what makes strata: "labels" (label distributions), "features" (given vectors) or "groups" (given groups).
        allocation: "proportional" (FedSS-P) or "neyman" (FedSS-O).
        most: the largest number of strata tried; the budget is a limit too.
        draw: clients of a stratum, each set equally likely ("uniform", the paper), or in proportion to "size".
        spread: how the cohort lets H_k be measured: "sketch" (projected gradients: the variance between clients, as in
            eq. 11) or "dispersion" (one number: each client's own gradient noise, the only part that needs no vector).
        sketch: numbers per client of a sketch.
        epsilon: differential privacy of the label counts in a study; clients of a federation add it themselves.
        noise: "laplace" (ε) or "gaussian" (ε, δ).
        delta: δ of the Gaussian mechanism.
        sample: clients on which mixtures are fitted and scored where there are more.
    """

    by: Literal["labels", "features", "groups"] = "labels"
    allocation: Literal["proportional", "neyman"] = "proportional"
    most: Annotated[int, Field(ge=1)] = 20
    draw: Literal["uniform", "size"] = "uniform"
    spread: Literal["sketch", "dispersion"] = "sketch"
    sketch: Annotated[int, Field(ge=2)] = 64
    epsilon: Annotated[float, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    sample: Annotated[int, Field(ge=10)] = 2000

    memory = Memory
    cite = """@inproceedings{tang2023tackling,
  title = {Tackling System Induced Bias in Federated Learning: Stratification and Convergence Analysis},
  author = {Tang, Ming and Wong, Vincent W. S.},
  booktitle = {IEEE INFOCOM}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes and what makes the strata, once; with Neyman's allocation also a report of the cohort's spread."""
        reports = (self._spread(),) if self.allocation == "neyman" else ()
        return Needs(reads=("sizes", FACT[self.by]), reports=reports)

    def _spread(self) -> Signal:
        return STEP_GRADIENT.sketch(self.sketch) if self.spread == "sketch" else DISPERSION

    def select(self, state: Memory, round: Round) -> Cohort:
        """Allocate, draw inside the strata, weigh by eq. 9."""
        self._enrol(state, round)
        sizes = np.asarray(round.population.sizes, np.float64)
        known = state.stratum >= 0
        strata = 0 if state.means is None else len(state.means)
        members: Array = np.bincount(state.stratum[known], minlength=strata)  # N_k
        mass: Array = np.bincount(state.stratum[known], weights=sizes[known], minlength=strata)  # n_(k)
        reachable = np.bincount(state.stratum[round.available], minlength=strata)  # A_t^k
        seats, share = self._seats(state, round, members, _relative(mass, members, reachable > 0), reachable)
        ids, part = _inside(round, state.stratum, reachable, seats, sizes, self.draw == "size")
        groups = state.stratum[ids]
        notes: dict[str, Any] = {"strata": strata, "silhouette": float(np.round(state.score, 4))}
        notes |= picture_notes.grouping_note(round, np.flatnonzero(known), state.stratum[known])
        if not reachable.all():
            notes["empty_strata"] = np.flatnonzero(reachable == 0).tolist()
        if (reachable > 0).sum() > round.places:
            notes["strata_left_out"] = int(((reachable > 0) & (seats == 0)).sum())
        if self.epsilon is not None and self.by == "labels":
            notes |= {"epsilon": self.epsilon, "noise": self.noise}
            notes |= {"delta": self.delta} if self.noise == "gaussian" else {}
        return Cohort(ids, share[groups] * part, groups=groups, notes=notes)

    def _seats(self, state: Memory, round: Round, members: Array, mass: Floats, reachable: Array) -> tuple[Ids, Floats]:
        """S^k of this round and what each drawn stratum weighs, both (K,)."""
        seats, there = np.zeros(len(members), np.int64), np.flatnonzero(reachable)
        if there.size > round.places:
            chance = inclusion(mass[there], round.places)
            drawn = systematic(chance, round.places, round.rng)
            seats[there[drawn]] = 1
            share = np.zeros(len(members))
            share[there[drawn]] = mass[there[drawn]] / chance[drawn]
            return seats, share
        wanted = members * self._spreads(state) if self.allocation == "neyman" else members  # eq. 19
        seats[there] = apportion(wanted[there], round.places, reachable[there])
        return seats, mass

    def _spreads(self, state: Memory) -> Floats:
        """H_k (K,), ones before anything is measured."""
        if state.squares is None or state.freedom is None:
            return np.ones(0 if state.means is None else len(state.means))
        seen = state.freedom > 0
        spread = np.sqrt(state.squares / np.maximum(state.freedom, 1.0))
        return np.where(seen, spread, spread[seen].mean() if seen.any() else 1.0)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Add this round's squared deviations of each stratum to those of the earlier rounds."""
        report = feedback.report(self._spread()) if self.allocation == "neyman" else None
        if report is None or not len(report) or state.squares is None or state.freedom is None:
            return
        stratum = state.stratum[report.ids]
        for k in np.unique(stratum):
            rows = report.values[stratum == k]
            # a dispersion is itself a standard deviation around the client's own mean; vectors need two to differ
            apart = rows - rows.mean(axis=0) if rows.ndim > 1 else rows
            state.squares[k] += np.sum(apart**2)
            state.freedom[k] += len(rows) - (rows.ndim > 1)

    def _enrol(self, state: Memory, round: Round) -> None:
        """Make the strata when first called, and find the stratum of clients that joined later."""
        known = round.population.known
        unmet = known[state.stratum[known] < 0]
        if not unmet.size:
            return
        if self.by == "groups":
            made = given(round.population.groups[unmet], state.means)
            state.stratum[unmet], state.means = made.labels, made.means
        else:
            vectors = self._vectors(round.population, unmet, round.rng)
            if state.means is None:
                made = stratify(vectors, min(round.budget, self.most), round.rng, sample=self.sample)
                state.stratum[unmet], state.means, state.score = made.labels, made.means, made.score
            else:
                state.stratum[unmet] = nearest(vectors, state.means)
        room = len(state.means) - (0 if state.squares is None else len(state.squares))
        state.squares = np.pad(np.zeros(0) if state.squares is None else state.squares, (0, room))
        state.freedom = np.pad(np.zeros(0) if state.freedom is None else state.freedom, (0, room))

    def _vectors(self, population: Population, ids: Ids, rng: np.random.Generator) -> Floats:
        """p_n or the given vectors, one row a client."""
        if self.by == "features":
            return np.asarray(population.features[ids], np.float64)
        counts = population.label_counts[ids]
        if self.epsilon is not None:
            counts = noisy_counts(counts, self.epsilon, self.noise, self.delta, rng)
        return label_shares(counts)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Both allocations, all sources of strata, and noise."""
        return [
            {"sample": 200},
            {"allocation": "neyman", "by": "groups", "sketch": 8},
            {"allocation": "neyman", "spread": "dispersion", "by": "features", "most": 3, "sample": 200},
            {"epsilon": 1.0, "noise": "laplace", "most": 8, "sample": 200, "draw": "size"},
            {"epsilon": 0.5, "noise": "gaussian", "delta": 1e-6, "most": 4, "sample": 200},
        ]


def _relative(mass: Array, members: Array, there: Array) -> Floats:
    """n_(k)/n over the strata that are there; by heads where nobody has data."""
    own = np.where(there, mass, 0.0)
    own = own if own.sum() > 0 else np.where(there, members, 0).astype(np.float64)
    return np.asarray(own / own.sum())


def _inside(
    round: Round, stratum: Ids, reachable: Array, seats: Ids, sizes: Floats, by_size: bool
) -> tuple[Ids, Floats]:
    """S^k clients of each stratum's available ones, and what part of its stratum each is (eq. 9's inner fraction)."""
    here = stratum[round.available]
    # strata are few: a stable sort of small numbers is one pass
    order = np.argsort(here.astype(np.int16) if len(seats) < 2**15 else here, kind="stable")
    ends = np.cumsum(reachable)
    chosen, parts = [], []
    for k in np.flatnonzero(seats):
        pool = round.available[order[ends[k] - reachable[k] : ends[k]]]
        if by_size and seats[k] < pool.size and sizes[pool].any():
            chance = inclusion(sizes[pool], int(seats[k]))
            drawn = systematic(chance, int(seats[k]), round.rng)
            own, worth = pool[drawn], sizes[pool[drawn]] / chance[drawn]
        else:
            own = uniformly(pool, int(seats[k]), round.rng)
            worth = sizes[own] if sizes[own].any() else np.ones(own.size)
        chosen.append(own)
        parts.append(worth / worth.sum())
    return np.concatenate(chosen), np.concatenate(parts)
