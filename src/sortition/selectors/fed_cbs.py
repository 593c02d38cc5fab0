"""Fed-CBS: Zhang et al. 2023, *A heterogeneity-aware client sampling mechanism … via class-imbalance reduction*.

A cohort is good if its pooled labels are balanced. Clients are drawn one after another, each with a probability that
grows with the balance that it brings.

| paper | here |
|---|---|
| q_n, α_n: sample count and label distribution | ``label_counts``: q_n α_n is its row |
| QCID(M) = Σ_b (Σ_M q_n α_{n,b} / Σ_M q_n − 1/B)² = Σ_{n,n'∈M} s_{nn'} / (Σ_M q_n)² − 1/B | ``Pool.qcid_with_each`` |
| s_{nn'} = q_n q_{n'} α_n·α_{n'} | ``Pool.products_with``: from label counts, or the question ``PRODUCTS`` |
| first: P(c) ∝ QCID({c})^{−β_1} + λ √(3 ln k / (2 T_c)) | ``_first``; λ = ``exploration``, T_c = ``state.picks`` |
| m-th: P(c) ∝ QCID(M ∪ {c})^{−β_m} | ``_sequential``; β_m = ``beta`` · m |
| aggregation of FedAvg | weights n_k / Σ_S n_k |

From the second draw on the paper's expression holds factors that depend on the earlier members alone: they cancel when
the probabilities are normalised. Their product telescopes to QCID(M)^{−β_M}, which is not the law of the sequential
draw: on the example of the paper's Fig. 3 it returns the best set in 7 % of the draws. ``draw="joint"`` samples sets
with probability ∝ QCID(M)^{−β_M} by a Metropolis chain of ``swaps`` exchanges that starts at a sequential draw.

Deviations: a client that was never picked counts as picked once (T_c ≥ 1). QCID is cut at ``floor`` from below, which
decides between sets that are perfectly balanced. A client without data is as imbalanced as one label alone. The
homomorphic encryption of the paper is not part of this; ``counts="secure"`` computes the inner products by the masked
protocol that FedGS uses. With secure products, clients that did not answer are drawn last and by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import PRODUCTS, Cohort, Measure, Needs, Round, Selector, State, method, per_client, per_pair
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.label_privacy import noisy_counts, privacy_note
from sortition.selectors._parts.pair_products import MOST_CLIENTS, find_without_products, store_products


@dataclass
class Memory(State):
    """How often each client was picked, T_c (N,)."""

    picks: Ids = per_client(0, dtype=int)


@dataclass
class NoisedMemory(Memory):
    """The picks, and the label counts (N, B) as each client noised them, once."""

    counts: Floats = per_client(0.0, width=0)
    noised: Array = per_client(0, dtype=bool)


@dataclass
class PairMemory(Memory):
    """The picks, and the inner products of label counts (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@method
class FedCBS(Selector[Memory]):
    """Draws clients one after another so that the cohort's pooled labels are balanced.

    Attributes:
        beta: β_m = beta · m, how sharply the m-th draw prefers balance.
        exploration: λ, weight of clients that were picked rarely, in the first draw.
        draw: "sequential" (the paper) or "joint" (sets with probability ∝ QCID(M)^−β_M).
        swaps: exchanges of the joint draw, per place.
        floor: the least QCID; smaller ones count as this.
        labels: B, the number of labels in the federation; None for the width of the label counts.
        counts: "shown" (the server reads label counts) or "secure" (it learns their inner products alone).
        epsilon: differential privacy of shown label counts in a study; clients of a federation add it themselves.
        noise: "laplace" (ε) or "gaussian" (ε, δ).
        delta: δ of the Gaussian mechanism.
    """

    beta: Annotated[float, Field(ge=0)] = 1.0
    exploration: Annotated[float, Field(ge=0)] = 10.0
    draw: Literal["sequential", "joint"] = "sequential"
    swaps: Annotated[int, Field(ge=1)] = 20
    floor: Annotated[float, Field(gt=0, lt=1)] = 1e-9
    labels: Annotated[int, Field(ge=2)] | None = None
    counts: Literal["shown", "secure"] = "shown"
    epsilon: Annotated[float, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5

    memory = Memory
    cite = """@inproceedings{zhang2023fedcbs,
  title = {{Fed-CBS}: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via Class-Imbalance
           Reduction},
  author = {Zhang, Jianyi and Li, Ang and Tang, Minxue and Sun, Jingwei and Chen, Xiang and Zhang, Fan and
            Chen, Changyou and Chen, Yiran and Li, Hai},
  booktitle = {International Conference on Machine Learning}, pages = {41354--41381}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes, and read label counts or ask for their inner products."""
        if self.counts == "secure":
            return Needs(reads=("sizes",), asks=(PRODUCTS,))
        return Needs(reads=("sizes", "label_counts"))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Start with no picks and, with secure products, without products."""
        if self.counts == "shown" and self.epsilon is None:
            return Memory(n_clients)
        if self.counts == "shown":
            return NoisedMemory(n_clients)
        if self.labels is None:
            raise bad("FedCBS.labels", "given with counts='secure'", None, "The server cannot see how many there are.")
        if n_clients > MOST_CLIENTS:
            raise bad("FedCBS.counts", f"'shown' beyond {MOST_CLIENTS} clients", f"'secure' with {n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Draw the cohort's members one after another."""
        if isinstance(state, PairMemory):
            without_products = find_without_products(state.products, round.available)
            if without_products.size:
                answer = yield Measure(PRODUCTS, without_products)
                store_products(state.products, without_products, answer)
        pool = self._make_pool(state, round)
        places = min(round.places, pool.ids.size)
        if places:
            self._draw_sequentially(pool, state, round, places)
        if self.draw == "joint" and 0 < places < pool.ids.size:
            self._exchange_members(pool, round.rng, places)
        silent = np.setdiff1d(round.available, pool.ids, assume_unique=True)
        ids = np.concatenate([pool.members, draw_uniformly(silent, round.places - places, round.rng)])
        state.picks[ids] += 1
        notes: dict[str, Any] = {}
        if places:
            notes["imbalance"] = pool.qcid
        if self.counts == "shown":
            notes |= privacy_note(self.epsilon, self.noise, self.delta)
        return Cohort.by_size(ids, round.population.sizes, notes=notes)

    def _make_pool(self, state: Memory, round: Round) -> Pool:
        """Return the pool of the candidates, whose products come from the clients or from (noised) label counts."""
        if isinstance(state, PairMemory):
            has_products = np.isfinite(np.diag(state.products)[round.available])
            ids = round.available[has_products]
            products = np.nan_to_num(state.products[np.ix_(ids, ids)])
            return Pool(
                ids=ids,
                sizes=np.asarray(round.population.sizes[ids], np.float64),
                squares=products.diagonal().copy(),
                products_with=lambda c: products[:, c],
                labels=self.labels or 2,
            )
        counts = np.asarray(round.population.label_counts[round.available], np.float64)
        if isinstance(state, NoisedMemory):
            self._noise_unseen_label_counts(state, round, counts)
            counts = state.counts[round.available]
        return Pool(
            ids=round.available,
            sizes=counts.sum(axis=1),
            squares=np.einsum("ij,ij->i", counts, counts),
            products_with=lambda c: counts @ counts[c],
            labels=self.labels or counts.shape[1],
        )

    def _noise_unseen_label_counts(self, state: NoisedMemory, round: Round, counts: Floats) -> None:
        """Draw the noise of clients that are available for the first time, and keep their noised counts."""
        if not state.counts.shape[1]:
            state.counts = np.zeros((state.n_clients, counts.shape[1]))
        newcomers = ~state.noised[round.available]
        if self.epsilon is not None and newcomers.any():
            ids = round.available[newcomers]
            state.counts[ids] = noisy_counts(
                counts[newcomers],
                epsilon=self.epsilon,
                mechanism=self.noise,
                delta=self.delta,
                rng=round.rng,
            )
            state.noised[ids] = True

    def _draw_sequentially(self, pool: Pool, state: Memory, round: Round, places: int) -> None:
        """Let the first draw explore, and the others seek balance."""
        for m in range(1, places + 1):
            beta_m = self.beta * m
            log_odds = -beta_m * np.log(np.maximum(pool.qcid_with_each(), self.floor))
            if m == 1:
                bonus = self._bonus(state.picks[pool.ids], round.index + 1)
                with np.errstate(divide="ignore"):
                    log_odds = np.logaddexp(log_odds, np.log(bonus))  # no power of QCID overflows
            gumbel = round.rng.gumbel(size=pool.ids.size)  # the largest sum is a draw with P ∝ exp(log_odds)
            pool.add(int(np.argmax(np.where(pool.is_member, -np.inf, log_odds + gumbel))))

    def _bonus(self, picks: Ids, k: int) -> Floats:
        """Return λ √(3 ln k / (2 T_c)) of candidates with these picks."""
        return self.exploration * np.sqrt(3.0 * math.log(k) / (2.0 * np.maximum(picks, 1)))

    def _exchange_members(self, pool: Pool, rng: np.random.Generator, places: int) -> None:
        """Walk a Metropolis chain over sets: in each step one member goes and one candidate comes."""
        beta_m = self.beta * places
        for _ in range(self.swaps * places):
            place = int(rng.integers(places))
            candidate = int(rng.choice(np.flatnonzero(~pool.is_member)))
            qcid = max(pool.qcid, self.floor)
            qcid_after = max(pool.qcid_after(place, candidate), self.floor)
            if math.log(rng.random()) < beta_m * (math.log(qcid) - math.log(qcid_after)):
                pool.replace(place, candidate)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover both draws, both kinds of counts, and noise."""
        return [
            {},
            {"draw": "joint", "swaps": 3, "beta": 0.5, "exploration": 0.0},
            {"counts": "secure", "labels": 10},
            {"epsilon": 1.0, "noise": "laplace", "floor": 1e-6},
            {"epsilon": 1.0, "noise": "gaussian", "delta": 1e-6},
        ]


class Pool:
    """The candidates of a round, and the members M drawn so far, by position among the candidates.

    Σ_{n,n'∈M} s_{nn'} and the sums Σ_{n∈M} s_{nc} of all candidates c are kept up to date, so that the imbalance of M
    with any one candidate more costs one operation.

    Args:
        ids: (n,) the candidates.
        sizes: (n,) q_c.
        squares: (n,) s_{cc}.
        products_with: returns (n,) s_{nc} of all candidates n with the candidate c.
        labels: B.
    """

    def __init__(
        self, ids: Ids, sizes: Floats, squares: Floats, products_with: Callable[[int], Floats], labels: int
    ) -> None:
        self.ids = ids
        self.sizes = sizes
        self.squares = squares
        self.products_with = products_with
        self.labels = labels
        self.is_member: Array = np.zeros(ids.size, dtype=bool)
        self.member_positions: list[int] = []
        self.energy = 0.0  # Σ_{n,n'∈M} s_{nn'}
        self.size = 0.0  # Σ_M q_n
        self.sums: Floats = np.zeros(ids.size)  # Σ_{n∈M} s_{nc}

    @property
    def members(self) -> Ids:
        """The ids of the members, in the order of their draws."""
        return self.ids[np.asarray(self.member_positions, np.int64)]

    @property
    def qcid(self) -> float:
        """QCID(M)."""
        return float(self._qcid_of(np.asarray(self.energy), np.asarray(self.size)))

    def qcid_with_each(self) -> Floats:
        """Return QCID(M ∪ {c}) of each candidate c."""
        return self._qcid_of(self.energy + 2.0 * self.sums + self.squares, self.size + self.sizes)

    def qcid_after(self, place: int, candidate: int) -> float:
        """Return QCID of M with the member at ``place`` exchanged for the candidate."""
        leaving = self.member_positions[place]
        energy = self.energy - 2.0 * self.sums[leaving] + self.squares[leaving]
        energy += 2.0 * (self.sums[candidate] - self.products_with(leaving)[candidate]) + self.squares[candidate]
        size = self.size - self.sizes[leaving] + self.sizes[candidate]
        return float(self._qcid_of(np.asarray(energy), np.asarray(size)))

    def add(self, candidate: int) -> None:
        """Add a candidate to the members."""
        self.energy += 2.0 * float(self.sums[candidate]) + float(self.squares[candidate])
        self.size += float(self.sizes[candidate])
        self.sums = self.sums + self.products_with(candidate)
        self.is_member[candidate] = True
        self.member_positions.append(candidate)

    def replace(self, place: int, candidate: int) -> None:
        """Exchange the member at ``place`` for the candidate, who comes last in the order."""
        leaving = self.member_positions.pop(place)
        self.sums = self.sums - self.products_with(leaving)
        self.energy -= 2.0 * float(self.sums[leaving]) + float(self.squares[leaving])
        self.size -= float(self.sizes[leaving])
        self.is_member[leaving] = False
        self.add(candidate)

    def _qcid_of(self, energy: Floats, size: Floats) -> Floats:
        """Return Σ s / (Σ q)² − 1/B.

        Sets without data, or with products that cannot be, count as imbalanced as one label alone.
        """
        squared_size = size * size
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.divide(energy, squared_size, out=np.ones_like(energy, dtype=np.float64), where=squared_size > 0)
        possible = np.where(share <= 2.0, share, 1.0)
        return np.maximum(possible - 1.0 / self.labels, 0.0)
