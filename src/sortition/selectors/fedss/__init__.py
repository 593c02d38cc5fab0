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
from sortition.core.population import Population
from sortition.core.sampling import draw_uniformly
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.centres import nearest_centre
from sortition.selectors._parts.label_privacy import privacy_note, private_label_shares
from sortition.selectors.fedss.allocation import apportion, draw_systematically, inclusion_chances
from sortition.selectors.fedss.strata import Strata, strata_of_groups, stratify

FACT_OF_SOURCE = {"labels": "label_counts", "features": "features", "groups": "groups"}


@dataclass
class Memory(State):
    """The stratum of each client, and the strata's means, silhouette and measured spread."""

    stratum: Ids = per_client(-1, dtype=int)  # −1: not yet known
    means: Array | None = shared()  # (K, d); of given groups, their values (K, 1)
    score: float = shared(0.0)  # silhouette
    squares: Floats | None = shared()  # (K,) sums of squared deviations, over the rounds
    freedom: Floats | None = shared()  # (K,) their degrees of freedom


@dataclass(frozen=True)
class Stratification:
    """The strata in one round, each array (K,).

    Attributes:
        n_known: N_k, known clients.
        n_available: A_t^k, available clients.
        mass: n_(k)/n over the strata of which somebody is available; by heads where nobody has data.
    """

    n_known: Array
    n_available: Array
    mass: Floats

    @classmethod
    def of(cls, state: Memory, round: Round, n_strata: int) -> Stratification:
        """Count the members of each stratum."""
        assigned = state.stratum >= 0
        sizes = np.asarray(round.population.sizes, np.float64)[assigned]
        n_known: Array = np.bincount(state.stratum[assigned], minlength=n_strata)
        n_available: Array = np.bincount(state.stratum[round.available], minlength=n_strata)
        n_examples: Array = np.bincount(state.stratum[assigned], weights=sizes, minlength=n_strata)
        mass = np.where(n_available > 0, n_examples, 0.0)
        if mass.sum() <= 0:
            mass = np.where(n_available > 0, n_known, 0).astype(np.float64)
        return cls(n_known, n_available, np.asarray(mass / mass.sum()))


@method
class FedSS(Selector[Memory]):
    """Samples every stratum in every round; each weighs its share of the population.

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
        """Read sizes and what makes the strata; with Neyman's allocation, take the cohort's spread."""
        reads = ("sizes", FACT_OF_SOURCE[self.by])
        if self.allocation == "neyman":
            return Needs(reads=reads, reports=(self._spread_signal,))
        return Needs(reads=reads)

    @property
    def _spread_signal(self) -> Signal:
        if self.spread == "sketch":
            return STEP_GRADIENT.sketch(self.sketch)
        return DISPERSION

    def select(self, state: Memory, round: Round) -> Cohort:
        """Allocate places, draw inside the strata, and weigh by eq. 9."""
        n_strata = self._assign_strata(state, round)
        strata = Stratification.of(state, round, n_strata)
        seats, stratum_weight = self._allocate_seats(state, round, strata)
        ids, part = self._draw_cohort(state, round, strata.n_available, seats)
        groups = state.stratum[ids]
        return Cohort(
            ids,
            stratum_weight[groups] * part,
            groups=groups,
            notes=self._notes(state, round, strata, seats),
        )

    def _notes(self, state: Memory, round: Round, strata: Stratification, seats: Ids) -> picture_notes.Note:
        """Say how many strata there are, which are empty or left out, and how label counts were noised."""
        assigned = np.flatnonzero(state.stratum >= 0)
        is_reachable = strata.n_available > 0
        notes: picture_notes.Note = {
            "strata": len(strata.n_known),
            "silhouette": float(np.round(state.score, 4)),
        }
        notes |= picture_notes.grouping_note(round, assigned, state.stratum[assigned])
        if not is_reachable.all():
            notes["empty_strata"] = np.flatnonzero(~is_reachable).tolist()
        if is_reachable.sum() > round.places:
            notes["strata_left_out"] = int((is_reachable & (seats == 0)).sum())
        if self.by == "labels":
            notes |= privacy_note(self.epsilon, self.noise, self.delta)
        return notes

    def _allocate_seats(self, state: Memory, round: Round, strata: Stratification) -> tuple[Ids, Floats]:
        """Return S^k of this round and what each drawn stratum weighs, both (K,)."""
        n_strata = len(strata.n_known)
        seats = np.zeros(n_strata, np.int64)
        reachable = np.flatnonzero(strata.n_available)
        if reachable.size > round.places:
            chance = inclusion_chances(strata.mass[reachable], round.places)
            positions = draw_systematically(chance, round.places, round.rng)
            chosen = reachable[positions]
            seats[chosen] = 1
            weight = np.zeros(n_strata)
            weight[chosen] = strata.mass[chosen] / chance[positions]
            return seats, weight
        places_share = strata.n_known
        if self.allocation == "neyman":
            places_share = strata.n_known * self._spreads(state, n_strata)  # eq. 19
        seats[reachable] = apportion(places_share[reachable], round.places, strata.n_available[reachable])
        return seats, strata.mass

    def _spreads(self, state: Memory, n_strata: int) -> Floats:
        """Return H_k, the spread inside each stratum (K,): where it is not measured, the mean of the others, or 1."""
        if state.squares is None or state.freedom is None:
            return np.ones(n_strata)
        measured = state.freedom > 0
        if not measured.any():
            return np.ones(n_strata)
        spread = np.sqrt(state.squares / np.maximum(state.freedom, 1.0))
        return np.where(measured, spread, spread[measured].mean())

    def _draw_cohort(self, state: Memory, round: Round, n_available: Array, seats: Ids) -> tuple[Ids, Floats]:
        """Draw S^k of each stratum's available clients; return them, and each one's part of its stratum's weight.

        The parts are eq. 9's inner fraction, D_n / Σ D_n.
        """
        stratum = state.stratum[round.available]
        if len(seats) < 2**15:
            stratum = stratum.astype(np.int16)  # a stable sort of small numbers is one pass
        order = np.argsort(stratum, kind="stable")
        ends = np.cumsum(n_available)
        ids = []
        parts = []
        for k in np.flatnonzero(seats):
            pool = round.available[order[ends[k] - n_available[k] : ends[k]]]
            members, relative_weight = self._draw_from_stratum(pool, int(seats[k]), round)
            ids.append(members)
            parts.append(relative_weight / relative_weight.sum())
        return np.concatenate(ids), np.concatenate(parts)

    def _draw_from_stratum(self, pool: Ids, seats: int, round: Round) -> tuple[Ids, Floats]:
        """Draw clients of one stratum; return them, and what each weighs inside it up to a common factor."""
        sizes = np.asarray(round.population.sizes[pool], np.float64)
        if self.draw == "size" and seats < pool.size and sizes.any():
            chance = inclusion_chances(sizes, seats)
            positions = draw_systematically(chance, seats, round.rng)
            return pool[positions], sizes[positions] / chance[positions]
        members = draw_uniformly(pool, seats, round.rng)
        relative_weight = np.asarray(round.population.sizes[members], np.float64)
        if not relative_weight.any():
            relative_weight = np.ones(members.size)
        return members, relative_weight

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Add what the cohort reported to each stratum's squared deviations and their degrees of freedom."""
        if self.allocation != "neyman" or state.squares is None or state.freedom is None:
            return
        report = feedback.report(self._spread_signal)
        stratum = state.stratum[report.ids]
        for k in np.unique(stratum):
            rows = report.values[stratum == k]
            if rows.ndim > 1:
                deviations = rows - rows.mean(axis=0)
                state.freedom[k] += len(rows) - 1
            else:  # a dispersion is itself a standard deviation around the client's own mean
                deviations = rows
                state.freedom[k] += len(rows)
            state.squares[k] += np.sum(deviations**2)

    def _assign_strata(self, state: Memory, round: Round) -> int:
        """Assign clients without a stratum to one; return how many strata there are. The first call makes them."""
        known_ids = round.population.known_ids
        newcomers = known_ids[state.stratum[known_ids] < 0]
        if not newcomers.size and state.means is not None:
            return len(state.means)
        strata = self._strata_of(newcomers, state, round)
        state.stratum[newcomers] = strata.labels
        state.means = strata.means
        state.score = strata.score
        state.squares = _pad(state.squares, len(strata.means))
        state.freedom = _pad(state.freedom, len(strata.means))
        return len(strata.means)

    def _strata_of(self, newcomers: Ids, state: Memory, round: Round) -> Strata:
        """Return the strata of clients that have none yet: new strata in the first round, existing ones later."""
        if self.by == "groups":
            return strata_of_groups(round.population.groups[newcomers], state.means)
        vectors = self._vectors(round.population, newcomers, round.rng)
        if state.means is None:
            return stratify(vectors, min(round.budget, self.most), round.rng, sample=self.sample)
        return Strata(nearest_centre(vectors, state.means), state.means, state.score)

    def _vectors(self, population: Population, ids: Ids, rng: np.random.Generator) -> Floats:
        """Return p_n or the given vectors, one row a client."""
        if self.by == "features":
            return np.asarray(population.features[ids], np.float64)
        return private_label_shares(
            population.label_counts[ids],
            epsilon=self.epsilon,
            mechanism=self.noise,
            delta=self.delta,
            rng=rng,
        )

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover both allocations, all sources of strata, and noise."""
        return [
            {"sample": 200},
            {"allocation": "neyman", "by": "groups", "sketch": 8},
            {"allocation": "neyman", "spread": "dispersion", "by": "features", "most": 3, "sample": 200},
            {"epsilon": 1.0, "noise": "laplace", "most": 8, "sample": 200, "draw": "size"},
            {"epsilon": 0.5, "noise": "gaussian", "delta": 1e-6, "most": 4, "sample": 200},
        ]


def _pad(values: Floats | None, n_strata: int) -> Floats:
    """Return one number a stratum, 0 for strata that are new."""
    padded = np.zeros(n_strata)
    if values is not None:
        padded[: len(values)] = values
    return padded
