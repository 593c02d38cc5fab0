"""Fed-CBS: Zhang et al. 2023, *A heterogeneity-aware client sampling mechanism … via class-imbalance reduction*.

A cohort is good if its pooled labels are balanced. Clients are drawn one after another, each with a probability that
grows with the balance that it brings.

| paper | here |
|---|---|
| q_n, α_n: sample count and label distribution | ``label_counts``: q_n α_n is its row |
| QCID(M) = Σ_b (Σ_M q_n α_{n,b} / Σ_M q_n − 1/B)² = Σ_{n,n'∈M} s_{nn'} / (Σ_M q_n)² − 1/B | ``Pool.imbalance_with`` |
| s_{nn'} = q_n q_{n'} α_n·α_{n'} | ``Pool.column``: from label counts, or from the question ``PRODUCTS`` |
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
protocol that FedGS uses. With secure products, who did not answer is drawn last and by chance.
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
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.label_privacy import noisy_counts
from sortition.selectors._parts.pair_products import store_products, without_products

PAIRS = 2000  # clients up to which a table of all products is kept


@dataclass
class Memory(State):
    """How often each client was picked (T_c)."""

    picks: Ids = per_client(0, dtype=int)


@dataclass
class NoisedMemory(Memory):
    """The same, and the label counts (N, B) as each client noised them, once."""

    counts: Floats = per_client(0.0, width=0)
    noised: Array = per_client(0, dtype=bool)


@dataclass
class PairMemory(Memory):
    """The picks, and the inner products of label counts (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@method
class FedCBS(Selector[Memory]):
    """Clients are drawn one after another so that the cohort's pooled labels are balanced.

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
        """Sizes, and label counts or their inner products."""
        if self.counts == "secure":
            return Needs(reads=("sizes",), asks=(PRODUCTS,))
        return Needs(reads=("sizes", "label_counts"))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Nobody was picked; with secure products, nobody was met."""
        if self.counts == "shown":
            return Memory(n_clients) if self.epsilon is None else NoisedMemory(n_clients)
        if self.labels is None:
            raise bad("FedCBS.labels", "given with counts='secure'", None, "The server cannot see how many there are.")
        if n_clients > PAIRS:
            raise bad("FedCBS.counts", f"'shown' beyond {PAIRS} clients", f"'secure' with {n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Draw the cohort's members one after another."""
        if isinstance(state, PairMemory):
            unmet = without_products(state.products, round.available)
            if unmet.size:
                store_products(state.products, unmet, (yield Measure(PRODUCTS, unmet)))
        pool = self._pool(state, round)
        places = min(round.places, pool.ids.size)
        if places:
            self._sequential(pool, state, round, places)
        if self.draw == "joint" and 0 < places < pool.ids.size:
            self._exchange(pool, round.rng, places)
        silent = np.setdiff1d(round.available, pool.ids, assume_unique=True)
        ids = np.concatenate([pool.members, uniformly(silent, round.places - places, round.rng)])
        state.picks[ids] += 1
        notes: dict[str, Any] = {"imbalance": pool.imbalance} if places else {}
        if self.epsilon is not None and self.counts == "shown":
            notes |= {"epsilon": self.epsilon, "noise": self.noise}
            notes |= {"delta": self.delta} if self.noise == "gaussian" else {}
        return Cohort.by_size(ids, round.population.sizes, notes=notes)

    def _pool(self, state: Memory, round: Round) -> Pool:
        """The candidates and their inner products."""
        if isinstance(state, PairMemory):
            met = np.isfinite(np.diag(state.products)[round.available])
            ids = round.available[met]
            products = np.nan_to_num(state.products[np.ix_(ids, ids)])
            sizes = np.asarray(round.population.sizes[ids], np.float64)
            return Pool(ids, sizes, products.diagonal().copy(), lambda at: products[:, at], self.labels or 2)
        counts = np.asarray(round.population.label_counts[round.available], np.float64)
        if isinstance(state, NoisedMemory):
            self._noise(state, round, counts)
            counts = state.counts[round.available]
        labels = self.labels or counts.shape[1]
        squares = np.einsum("ij,ij->i", counts, counts)
        return Pool(round.available, counts.sum(axis=1), squares, lambda at: counts @ counts[at], labels)

    def _noise(self, state: NoisedMemory, round: Round, counts: Floats) -> None:
        """Clients that are met for the first time send noised counts, which are used from then on."""
        if not state.counts.shape[1]:
            state.counts = np.zeros((state.n_clients, counts.shape[1]))
        new = ~state.noised[round.available]
        if self.epsilon is not None and new.any():
            ids = round.available[new]
            state.counts[ids] = noisy_counts(counts[new], self.epsilon, self.noise, self.delta, round.rng)
            state.noised[ids] = True

    def _sequential(self, pool: Pool, state: Memory, round: Round, places: int) -> None:
        """The first draw explores; the others seek balance."""
        for m in range(1, places + 1):
            score = -self.beta * m * np.log(np.maximum(pool.imbalance_with(), self.floor))
            if m == 1:
                bonus = self._bonus(state.picks[pool.ids], round.index + 1)
                with np.errstate(divide="ignore"):
                    score = np.logaddexp(score, np.log(bonus))  # no power of QCID overflows
            noise = round.rng.gumbel(size=pool.ids.size)  # the largest sum is a draw with P ∝ exp(score)
            pool.add(int(np.argmax(np.where(pool.inside, -np.inf, score + noise))))

    def _bonus(self, picks: Ids, k: int) -> Floats:
        """λ √(3 ln k / (2 T_c))."""
        return self.exploration * np.sqrt(3.0 * math.log(k) / (2.0 * np.maximum(picks, 1)))

    def _exchange(self, pool: Pool, rng: np.random.Generator, places: int) -> None:
        """A Metropolis chain over sets: one member goes, one candidate comes."""
        for _ in range(self.swaps * places):
            out, into = int(rng.integers(places)), int(rng.choice(np.flatnonzero(~pool.inside)))
            now, then = (max(value, self.floor) for value in (pool.imbalance, pool.imbalance_after(out, into)))
            if math.log(rng.random()) < self.beta * places * (math.log(now) - math.log(then)):
                pool.replace(out, into)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Both draws, both kinds of counts, and noise."""
        return [
            {},
            {"draw": "joint", "swaps": 3, "beta": 0.5, "exploration": 0.0},
            {"counts": "secure", "labels": 10},
            {"epsilon": 1.0, "noise": "laplace", "floor": 1e-6},
            {"epsilon": 1.0, "noise": "gaussian", "delta": 1e-6},
        ]


class Pool:
    """The candidates of a round, and the members drawn so far, by position.

    Σ_{n,n'∈M} s_{nn'} and the sums Σ_{n∈M} s_{nc} of all candidates are kept up to date, so that the imbalance of M
    with any one candidate more costs one operation.
    """

    def __init__(self, ids: Ids, sizes: Floats, squares: Floats, column: Callable[[int], Floats], labels: int) -> None:
        self.ids, self.sizes, self.squares, self.column, self.labels = ids, sizes, squares, column, labels
        self.inside: Array = np.zeros(ids.size, dtype=bool)
        self.order: list[int] = []
        self.energy, self.size = 0.0, 0.0
        self.sums: Floats = np.zeros(ids.size)

    @property
    def members(self) -> Ids:
        """The ids of the members, in the order of their draws."""
        return self.ids[np.asarray(self.order, np.int64)]

    @property
    def imbalance(self) -> float:
        """QCID(M)."""
        return float(self._qcid(np.asarray(self.energy), np.asarray(self.size)))

    def imbalance_with(self) -> Floats:
        """QCID(M ∪ {c}) of each candidate c."""
        return self._qcid(self.energy + 2.0 * self.sums + self.squares, self.size + self.sizes)

    def imbalance_after(self, out: int, into: int) -> float:
        """QCID of M with member number ``out`` exchanged for the candidate ``into``."""
        gone = self.order[out]
        energy = self.energy - 2.0 * self.sums[gone] + self.squares[gone]
        energy += 2.0 * (self.sums[into] - self.column(gone)[into]) + self.squares[into]
        return float(self._qcid(np.asarray(energy), np.asarray(self.size - self.sizes[gone] + self.sizes[into])))

    def add(self, at: int) -> None:
        """One more member."""
        self.energy += 2.0 * float(self.sums[at]) + float(self.squares[at])
        self.size += float(self.sizes[at])
        self.sums = self.sums + self.column(at)
        self.inside[at] = True
        self.order.append(at)

    def replace(self, out: int, into: int) -> None:
        """Exchange member number ``out``."""
        gone = self.order.pop(out)
        self.sums = self.sums - self.column(gone)
        self.energy -= 2.0 * float(self.sums[gone]) + float(self.squares[gone])
        self.size -= float(self.sizes[gone])
        self.inside[gone] = False
        self.add(into)

    def _qcid(self, energy: Floats, size: Floats) -> Floats:
        """Σ s / (Σ q)² − 1/B; without data, or of products that cannot be, as imbalanced as one label alone."""
        squared = size * size
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.divide(energy, squared, out=np.ones_like(energy, dtype=np.float64), where=squared > 0)
        return np.maximum(np.where(share <= 2.0, share, 1.0) - 1.0 / self.labels, 0.0)
