"""Microcosm, a method of Sortition's own: every round's weighted cohort portrays all data, and arrears are paid later.

Updates are modelled as Δ_k = μ + Bφ_k + ε_k: a common part, a part that features φ_k explain, a part of the client's
own. The expected squared error of Σ a_k Δ_k against Σ (p_k + d_k) Δ_k is then, up to a factor,
‖Φᵀ(p + d − a)‖² + λ‖p + d − a‖².

| docs/methods/microcosm.md | here |
|---|---|
| p_k = n_k / n | ``shares_of(population.sizes)`` |
| φ_k, features of a client, Φ centred at Σ p_k φ_k | ``by``; :meth:`Microcosm.features` |
| λ, unexplained over explained variance | :meth:`Microcosm.weight`: λ₁/κ, or estimated |
| λ₁, the same where each client has one label | ``trade_off`` |
| κ, share of the labels' variance that lies between clients | ``spread / (1 − ‖mean‖²)`` of label shares |
| d, the ledger: what each client is owed, Σd = 0 | ``state.owed``; :meth:`Microcosm.observe` |
| ρ, what the ledger keeps from one round to the next | 1 − ``forgetting``, default 1 − min(0.9, M/2N) |
| T, the mixture aimed at | 0, or Φᵀd with ``repay_mixture`` |
| t = max(p + d, 0); c, provisional weights | ``Portrait.owed``; ``portrait.provisional`` |
| S, greedily with swaps | ``portrait.Portrait.chosen`` |
| a, the weights: a small quadratic programme | ``simplex.simplex_fit`` |

Deviations: there is no paper; docs/methods/microcosm.md derives the objective and proves what the ledger keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    BIAS_UPDATE,
    PRODUCTS,
    UPDATE,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Reading,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
    per_pair,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.selector import Asking
from sortition.selectors._parts.label_privacy import noisy_counts
from sortition.selectors._parts.pair_products import store_products, without_products
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.microcosm.feature_rows import embedded, row_known, with_rows
from sortition.selectors.microcosm.portrait import FLAT, Portrait, provisional, shares_of, spread_of, unexplained
from sortition.selectors.microcosm.simplex import simplex_fit

FACTS = {"labels": "label_counts", "features": "features"}
LABELS = ("labels", "secure")
ONE_LABEL, OTHERWISE, LARGEST = 1.5, 3.0, 1e6  # λ₁ with labels, with anything else; λ at most
LIMITS = (1.0, 30.0)  # of an estimated λ: below, giants are exchanged for unlike clients; above, features do not count
PAIRS = 2000  # clients up to which products of all pairs are kept


@dataclass
class Memory(State):
    """The ledger, who was silent when last chosen, features learnt or noised (NaN: not yet), last sketches."""

    owed: Floats = per_client(0.0)
    silent: Array = per_client(0, dtype=bool)
    rows: Floats = per_client(np.nan, width=0)
    updates: Floats = per_client(np.nan, width=0)

    @classmethod
    def migrated(cls, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Before silence was remembered, nobody counted as silent."""
        return {"silent": np.zeros(np.shape(arrays["owed"]), bool), **arrays} if "owed" in arrays else arrays


@dataclass
class PairMemory(Memory):
    """The same with the products of pairs (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@method
class Microcosm(Selector[Memory]):
    """Every cohort is a weighted portrait of all data; what a client does not get now is owed to it and paid later.

    Attributes:
        by: what portrays clients: "labels" (shares of label counts), given "features", sketches of their "updates", the
            output layer's "bias" update, "secure" products of label counts (no security control), or "sizes" alone.
            "auto": labels where all known clients give them; else updates, or sizes under secure aggregation.
        secure_aggregation: whether the server sees sums of updates only; "auto" then asks for no sketches.
        trade_off: λ₁, individuals against mixture; large is fair to each client, small matches the features. None for
            1.5 with labels, whose λ is λ₁/κ, and 3 with anything else, whose λ is λ₁.
        estimate: whether λ is estimated from sketched updates that the cohort reports, once enough are known.
        forgetting: share of the ledger that is forgotten in a round; None for min(0.9, M/2N).
        repay_mixture: whether the mixture aimed at makes up for that of earlier rounds.
        sketch: numbers that a client projects its update to.
        epsilon: differential privacy of the label counts in a study; clients of a federation add it themselves.
        noise: "laplace" (ε) or "gaussian" (ε, δ).
        delta: δ of the Gaussian mechanism.
    """

    by: Literal["auto", "labels", "features", "updates", "bias", "secure", "sizes"] = "auto"
    secure_aggregation: bool = False
    trade_off: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    estimate: bool = False
    forgetting: Annotated[float, Field(ge=0, le=1)] | None = None
    repay_mixture: bool = False
    sketch: Annotated[int, Field(ge=2)] = 32
    epsilon: Annotated[float, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5

    memory = Memory
    cite = """@misc{sortition,
  title = {Sortition: client selection for federated learning}, note = {the method Microcosm}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes, and what portrays clients; with ``estimate`` sketched updates as well."""
        if self.by == "auto":
            return Needs(reads=("sizes",), optional=("label_counts",))
        reads = ("sizes", FACTS[self.by]) if self.by in FACTS else ("sizes",)
        learnt = {"updates": UPDATE.sketch(self.sketch), "bias": BIAS_UPDATE}
        reports = {learnt[self.by]} if self.by in learnt else set[Signal]()
        if self.estimate:
            reports.add(learnt["updates"])
        asks = (PRODUCTS,) if self.by == "secure" else ()
        return Needs(reads=reads, asks=asks, reports=tuple(sorted(reports, key=lambda signal: signal.name)))

    def resolved(self, facts: Collection[str]) -> Microcosm:
        """``by = "auto"`` with these facts at hand."""
        if self.by != "auto":
            return self
        if "label_counts" in facts:
            return replace(self, by="labels")
        return replace(self, by="sizes" if self.secure_aggregation else "updates", estimate=False)

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Nobody is owed anything, nobody was met."""
        if self.secure_aggregation and self.resolved(()).needs.individual:
            raise bad("Microcosm.secure_aggregation", "false where single updates are seen", True, "Try by = 'auto'.")
        if self.estimate and self.by in ("updates", "bias", "sizes"):
            hint = "Updates regressed on themselves explain all."
            raise bad("Microcosm.estimate", f"false where by = {self.by!r}", True, hint)
        if self.by != "secure":
            return Memory(n_clients)
        if n_clients > PAIRS:
            raise bad("Microcosm.by", f"other than 'secure' beyond {PAIRS} clients", f"{n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Ask new pairs where products are wanted; then choose and weigh."""
        if isinstance(state, PairMemory):
            strange = without_products(state.products, round.available)
            if strange.size:
                met = store_products(state.products, strange, (yield Measure(PRODUCTS, strange)))
                state.rows = embedded(state.products, met, round.population.sizes)
        elif self.by == "labels" and self.epsilon is not None:
            self._enrol(state, round)
        return self.choose(state, round)

    def choose(self, state: Memory, round: Round) -> Cohort:
        """S by the portrait, a by the quadratic programme; who would weigh nothing gives its place to another."""
        p = shares_of(round.population.sizes, round.population.known)
        phi, target, between = self.features(state, round, p)
        trade_off, ids = self.weight(state, round, p, between), round.available
        owed = (p + state.owed)[ids]
        pool = np.argsort(round.rng.permutation(ids.size))  # in the order of a lot, which decides where scores tie
        while True:
            places = min(round.places, pool.size)
            due = provisional(owed[pool], places)
            portrait = Portrait(phi[pool], owed[pool], due, trade_off, target)
            members = pool[portrait.chosen(places)]
            weights = simplex_fit(phi[members], target, np.maximum(owed[members], 0.0), trade_off)
            idle = members[weights <= 0]
            if not idle.size or pool.size - idle.size < round.places:
                break
            pool = pool[~np.isin(pool, idle)]
        members, weights = members[weights > 0], weights[weights > 0]
        notes = {
            "by": self.by,
            "trade_off": float(np.round(trade_off, 6)),
            "mixture": float(np.round(np.linalg.norm(phi[members].T @ weights), 6)),
            "effective": float(np.round(1 / (weights**2).sum(), 3)),
        }
        notes |= {"left_empty": round.places - members.size} if members.size < round.places else {}
        return Cohort(ids[members], weights / weights.sum(), notes=notes)

    def features(self, state: Memory, round: Round, p: Floats) -> tuple[Floats, Floats, float]:
        """Φ of the available clients (n, d), T (d,), and κ."""
        ids = self._portrayed(state, round)
        if not ids.size:
            return np.zeros((round.available.size, 0)), np.zeros(0), 1.0
        rows, part = self._rows(state, round, ids), p[ids]
        mean, spread = spread_of(rows, part / part.sum() if part.sum() > 0 else np.full(ids.size, 1 / ids.size))
        scale = 1.0 / np.sqrt(spread) if spread > FLAT else 0.0
        phi = np.zeros((round.available.size, rows.shape[1]))
        at = np.searchsorted(ids, round.available).clip(max=ids.size - 1)
        met = ids[at] == round.available
        phi[met] = (rows[at[met]] - mean) * scale
        paid = state.owed[ids] if self.repay_mixture else np.zeros(ids.size)
        between = spread / max(1.0 - float(mean @ mean), FLAT) if self.by in LABELS else 1.0
        return phi, scale * ((rows - mean).T @ paid), between

    def _portrayed(self, state: Memory, round: Round) -> Ids:
        """Sorted ids of the clients whose features are known."""
        if self.by == "sizes":
            return round.available[:0]
        if self.by in FACTS and self.epsilon is None:
            return round.population.known
        return np.flatnonzero(row_known(state.rows))

    def _rows(self, state: Memory, round: Round, ids: Ids) -> Floats:
        """Their features (n, d), neither centred nor scaled."""
        if self.by not in FACTS or (self.by == "labels" and self.epsilon is not None):
            return state.rows[ids]
        if self.by == "labels":
            return label_shares(round.population.label_counts[ids])
        return np.asarray(round.population.features[ids], np.float64)

    def _enrol(self, state: Memory, round: Round) -> None:
        """Clients that are new to the server send label counts with noise, once."""
        known = round.population.known
        new = known[~row_known(state.rows)[known]]
        if new.size and self.epsilon is not None:
            counts = round.population.label_counts[new]
            sent = noisy_counts(counts, self.epsilon, self.noise, self.delta, round.rng)
            state.rows = with_rows(state.rows, new, label_shares(sent))

    def weight(self, state: Memory, round: Round, p: Floats, between: float) -> float:
        """λ: by κ, or estimated once enough clients' updates are known."""
        one = (ONE_LABEL if self.by in LABELS else OTHERWISE) if self.trade_off is None else self.trade_off
        given = min(one / max(between, FLAT), LARGEST)
        if not self.estimate:
            return given
        seen = np.intersect1d(
            np.flatnonzero(row_known(state.updates)), self._portrayed(state, round), assume_unique=True
        )
        found = unexplained(self._rows(state, round, seen), state.updates[seen], p[seen]) if seen.size else None
        return given if found is None else float(np.clip(found, *LIMITS))

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """d ← ρ(d + p − a) with the weights of those who completed or fell silent again; only with mass 1."""
        population, ids = feedback.round.population, self._booked(state, feedback)
        weights, _ = feedback.cohort.weights_of(ids)
        if abs(weights.sum() - 1.0) < 1e-9:
            owed = state.owed + shares_of(population.sizes, population.known)
            owed[ids] -= weights
            state.owed = (1.0 - self._forgotten(feedback.round)) * owed
        for signal in self.needs.reports:
            self._learn(state, signal, feedback.report(signal))

    def _booked(self, state: Memory, feedback: Feedback) -> Ids:
        """Who has had its turn: members that completed, and those that fell silent the last two times."""
        members = feedback.cohort.ids
        silent = ~np.isin(members, feedback.ids)
        booked = members[~silent | state.silent[members]]
        state.silent[members] = silent
        return booked

    def _forgotten(self, round: Round) -> float:
        """1 − ρ."""
        return min(0.9, round.budget / (2 * round.n_clients)) if self.forgetting is None else self.forgetting

    def _learn(self, state: Memory, signal: Signal, reading: Reading) -> None:
        """Features are the mean of the old and the new; λ looks at the last update alone."""
        if not len(reading):
            return
        values = reading.values.reshape(len(reading), -1)
        if self.by in FACTS or self.by == "secure":
            state.updates = with_rows(state.updates, reading.ids, values)
            return
        before = state.rows[reading.ids] if state.rows.shape[1] else np.full_like(values, np.nan)
        state.rows = with_rows(state.rows, reading.ids, np.where(np.isnan(before), values, (before + values) / 2))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """All that portrays clients, both targets, λ given and estimated, both noises."""
        return [
            {},
            {"by": "labels"},
            {"secure_aggregation": True},
            {"estimate": True, "sketch": 8, "trade_off": 1.0},
            {"by": "features", "repay_mixture": True, "forgetting": 0.0},
            {"by": "updates", "sketch": 16},
            {"by": "bias"},
            {"by": "secure"},
            {"by": "sizes"},
            {"epsilon": 1.0},
            {"epsilon": 1.0, "noise": "gaussian", "delta": 1e-3},
        ]
