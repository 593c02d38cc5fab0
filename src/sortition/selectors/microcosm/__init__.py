"""Microcosm, a method of Sortition's own: weighted cohorts portray all data, and what a client lacks is made up later.

Updates are modelled as Δ_k = μ + Bφ_k + ε_k: a common part, a part that features φ_k explain, a part of the client's
own. The expected squared error of Σ a_k Δ_k against Σ (p_k + d_k) Δ_k is then, up to a factor,
‖Φᵀ(p + d − a)‖² + λ‖p + d − a‖².

| docs/methods/microcosm.md | here |
|---|---|
| p_k = n_k / n | ``data_shares`` |
| φ_k, features of a client, Φ centred at Σ p_k φ_k | ``by``; :meth:`Microcosm.features` |
| λ, unexplained over explained variance | :meth:`Microcosm._estimate_parts`: λ₁/κ, or estimated |
| λ₁, the same where each client has one label | ``trade_off`` |
| κ, share of the labels' variance that lies between clients | ``spread / (1 − ‖mean‖²)`` of label shares |
| d, the ledger: what each client is owed, Σd = 0 | ``state.owed``; :meth:`Microcosm.observe` |
| ρ, what the ledger keeps from one round to the next | 1 − ``forgetting``, default 1 − min(0.9, M/2N) |
| s, how much of the ledger counts | 1, or min(λ̂, 1) where λ̂ is estimated; :meth:`Microcosm._estimate_parts` |
| T, the mixture aimed at | Φᵀd with ``repay_mixture``, else 0 |
| G, the part that all updates share | 1/κ |
| τ_k, expected durations | ``state.seconds``; ``durations`` |
| Π_L, progress with clients up to a limit L | ``sitting.Sitting.progress``; ``quickest.choose_quickest`` |
| units, slack, the invariant of payments | ``payments.Payments`` |
| t = max(p + d, 0); c, provisional weights | ``Portrait.owed``; ``portrait.provisional_weights`` |
| S, greedily with swaps | ``portrait.Portrait.choose`` |
| a, the weights: a small quadratic programme | ``core.simplex.fit_simplex`` |

Deviations: there is no paper; docs/methods/microcosm.md derives the objective and proves what the ledger keeps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    BIAS_UPDATE,
    PRODUCTS,
    RESOURCES,
    TRAINING_LOSS,
    UPDATE,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Population,
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
from sortition.core.mixtures import (
    LABELS_TRADE_OFF,
    LARGEST_TRADE_OFF,
    SMALLEST_SPREAD,
    between_clients,
    spread_of,
    unit_scale,
)
from sortition.core.selector import Asking
from sortition.selectors._parts.label_privacy import private_label_shares
from sortition.selectors._parts.pair_products import MOST_CLIENTS, find_without_products, store_products
from sortition.selectors._parts.shares import as_shares, data_shares, label_shares
from sortition.selectors.microcosm.durations import expected_seconds, observed_seconds
from sortition.selectors.microcosm.feature_rows import embed_products, has_row, write_rows
from sortition.selectors.microcosm.losses import FIRST_RECORD, due_multiples, update_record
from sortition.selectors.microcosm.payments import MOST_UNITS, make_payments
from sortition.selectors.microcosm.portrait import unexplained_ratio
from sortition.selectors.microcosm.quickest import choose_quickest
from sortition.selectors.microcosm.sitting import Sitting

FACT_BY_PORTRAIT = {"labels": "label_counts", "features": "features"}
LABELS = ("labels", "secure")
OTHER_TRADE_OFF = 3.0  # λ₁ with anything else
ONE_LABEL_COMMON = 1.0  # G where each client has one label
LEAST_ESTIMATE = 1.0  # of λ: below, giants are exchanged for unlike clients
LARGEST_ESTIMATE = 30.0  # of λ: above, features do not count


@dataclass
class Memory(State):
    """The ledger, who was silent when last chosen, durations and payments, features, and last sketches of updates."""

    owed: Floats = per_client(0.0)  # d
    silent: Array = per_client(0, dtype=bool)
    seconds: Floats = per_client(np.nan)  # τ, the expected duration; NaN: not known
    was_asked_duration: Array = per_client(0, dtype=bool)
    waits: Array = per_client(0, dtype=np.int32, width=MOST_UNITS)  # of units that must be paid, in available rounds
    dispatched: Floats = per_client(0.0)  # weight times size of the selection, of who is at work
    rows: Floats = per_client(np.nan, width=0)  # features that were learnt or noised; NaN: not yet
    updates: Floats = per_client(np.nan, width=0)


@dataclass
class LossMemory(Memory):
    """What ``Memory`` holds, the losses reported last, and how far they fell where a client was due more."""

    loss: Floats = per_client(np.nan)
    loss_record: Floats = per_client(FIRST_RECORD)


@dataclass
class PairMemory(Memory):
    """What ``Memory`` holds, and the products of pairs (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@dataclass(frozen=True)
class Features:
    """What portrays the available clients in one round.

    Attributes:
        phi: (n, d) Φ, centred and scaled; 0 of a client whose features are not known.
        target: (d,) T.
        kappa: κ.
    """

    phi: Floats
    target: Floats
    kappa: float


@dataclass(frozen=True)
class UpdateParts:
    """How the parts of clients' updates compare.

    Attributes:
        trade_off: λ, the unexplained over the explained part.
        common: G, the part that all updates share over the explained part.
        ledger: s, how much of the ledger counts.
    """

    trade_off: float
    common: float
    ledger: float = 1.0


@method
class Microcosm(Selector[Memory]):
    """Makes every cohort a weighted portrait of all data; what a client does not get now is owed to it and paid later.

    Attributes:
        by: what portrays clients: "labels" (shares of label counts), given "features", sketches of their "updates", the
            output layer's "bias" update, "secure" products of label counts (no security control), or "sizes" alone.
            "auto": labels where all known clients give them; else updates, or sizes under secure aggregation.
        secure_aggregation: whether the server sees sums of updates only; "auto" then asks for no sketches.
        trade_off: λ₁, individuals against mixture; large is fair to each client, small matches the features. None for
            1.5 with labels, whose λ is λ₁/κ, and 3 with anything else, whose λ is λ₁.
        estimate: whether λ, and how much the ledger counts, are estimated from sketched updates that the cohort
            reports, once enough are known. None: where labels or features portray clients, unless aggregation is
            secure.
        learn_ledger: whether, where λ is estimated, the ledger counts less the more features explain.
        forgetting: share of the ledger that is forgotten in a round; None for min(0.9, M/2N).
        repay_mixture: whether the mixture aimed at makes up for that of earlier rounds.
        target: whose mixture is aimed at: the "population"'s, or one in which all labels are "balanced".
        losses: whether clients report their training losses, and those that lag behind and catch up when they weigh
            more are due more. It is off until a suite is frozen with it.
        sketch: numbers that a client projects its update to.
        seconds: where there is a clock, whether clients are asked how long they will take, once; or durations are only
            observed; or ignored, so that rounds count and not seconds.
        epsilon: differential privacy of the label counts in a study; clients of a federation add it themselves.
        noise: "laplace" (ε) or "gaussian" (ε, δ).
        delta: δ of the Gaussian mechanism.
    """

    by: Literal["auto", "labels", "features", "updates", "bias", "secure", "sizes"] = "auto"
    secure_aggregation: bool = False
    trade_off: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    estimate: bool | None = None
    learn_ledger: bool = True
    forgetting: Annotated[float, Field(ge=0, le=1)] | None = None
    repay_mixture: bool = True
    target: Literal["population", "balanced"] = "population"
    losses: bool = False
    sketch: Annotated[int, Field(ge=2)] = 32
    seconds: Literal["asked", "observed", "ignored"] = "asked"
    epsilon: Annotated[float, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5

    memory = Memory
    cite = """@misc{sortition,
  title = {Sortition: client selection for federated learning}, note = {the method Microcosm}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes, and take what portrays clients; with ``estimate`` sketched updates as well.

        Until "auto" is resolved, the needs name all that the server may come to see. Unless aggregation is secure, that
        includes sketches: λ is estimated by them where label counts are given, and they portray clients where not.
        """
        sketched_update = UPDATE.sketch(self.sketch)
        losses = (TRAINING_LOSS,) if self.losses else ()
        if self.by == "auto":
            return Needs(
                reads=("sizes",),
                optional=("label_counts",),
                may_ask=self._may_ask,
                reports=losses,
                may_report=() if self.secure_aggregation else (sketched_update,),
            )
        reports: set[Signal] = set(losses)
        if self.by == "bias":
            reports.add(BIAS_UPDATE)
        if self.by == "updates" or self._estimates_trade_off:
            reports.add(sketched_update)
        return Needs(
            reads=("sizes", FACT_BY_PORTRAIT[self.by]) if self.by in FACT_BY_PORTRAIT else ("sizes",),
            asks=(PRODUCTS,) if self.by == "secure" else (),
            may_ask=self._may_ask,
            reports=tuple(sorted(reports, key=lambda signal: signal.name)),
        )

    @property
    def _may_ask(self) -> tuple[Signal, ...]:
        return (RESOURCES,) if self.seconds == "asked" else ()

    @property
    def _estimates_trade_off(self) -> bool:
        if self.estimate is None:
            return self.by in FACT_BY_PORTRAIT and not self.secure_aggregation
        return self.estimate

    def resolve(self, facts: Collection[str]) -> Microcosm:
        """Settle ``by = "auto"`` with these facts at hand, and whether anything is estimated."""
        settled = self
        if self.by == "auto":
            if "label_counts" in facts:
                settled = replace(self, by="labels")
            else:
                settled = replace(self, by="sizes" if self.secure_aggregation else "updates", estimate=False)
        return replace(settled, estimate=settled._estimates_trade_off)

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Refuse parameters that contradict each other; start with an empty ledger and without features."""
        if self.secure_aggregation:
            without_facts = self.resolve(())
            if without_facts.needs.individual:
                rule = "false where single updates are seen"
                raise bad("Microcosm.secure_aggregation", rule, True, "Try by = 'auto'.")
        if self.estimate and self.by in ("updates", "bias", "sizes"):
            hint = "Updates regressed on themselves explain all."
            raise bad("Microcosm.estimate", f"false where by = {self.by!r}", True, hint)
        if self.target != "population" and (self.by != "labels" or self.epsilon is not None):
            raise bad("Microcosm.target", "'population' where label counts are not known", self.target)
        if self.losses and self.by == "secure":
            raise bad("Microcosm.losses", "false where by = 'secure'", True)
        if self.losses:
            return LossMemory(n_clients)
        if self.by != "secure":
            return Memory(n_clients)
        if n_clients > MOST_CLIENTS:
            raise bad("Microcosm.by", f"other than 'secure' beyond {MOST_CLIENTS} clients", f"{n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Ask for products of pairs and durations not known yet, noise new label counts, then choose and weigh."""
        if isinstance(state, PairMemory):
            without_products = find_without_products(state.products, round.available)
            if without_products.size:
                answer = yield Measure(PRODUCTS, without_products)
                with_products = store_products(state.products, without_products, answer)
                state.rows = embed_products(state.products, with_products, round.population.sizes)
        elif self.by == "labels" and self.epsilon is not None:
            self._noise_unseen_label_counts(state, round, self.epsilon)
        if self.seconds == "asked" and round.clock is not None:
            not_asked = round.available[~state.was_asked_duration[round.available]]
            if not_asked.size:
                answer = yield Measure(RESOURCES, not_asked)
                state.was_asked_duration[not_asked] = True
                if len(answer):
                    training, transfer = answer.values.T
                    state.seconds[answer.ids] = training + 2 * transfer  # the model is received, the update sent
        return self.choose(state, round)

    def choose(self, state: Memory, round: Round) -> Cohort:
        """Choose and weigh S by the portrait; where seconds count, by its progress per second."""
        p = self._due_shares(state, round.population)
        ledger = self._ledger(state, round, p)
        features = self.features(state, round, p, ledger)
        parts = self._estimate_parts(state, round, p, features.kappa)
        sitting = Sitting(
            phi=features.phi,
            target=features.target,
            owed=(p + parts.ledger * ledger)[round.available],
            trade_off=parts.trade_off,
            common=parts.common,
            places=round.places,
            floors=np.zeros(round.available.size),
            random_order=np.argsort(round.rng.permutation(round.available.size)),  # decides where scores tie
        )
        notes: dict[str, str | int | float] = {"by": self.by, "trade_off": float(np.round(parts.trade_off, 6))}
        if self._counts_seconds(round):
            decision = choose_quickest(
                sitting,
                seconds=expected_seconds(state.seconds)[round.available],
                owing=make_payments(self._target_shares(round.population), round.budget),
                waits=state.waits,
                ids=round.available,
                deadline=round.deadline,
                overlaps=round.in_flight.size > 0,
            )
            portrait = decision.portrait
            notes.update(seconds=float(np.round(decision.limit, 3)), too_slow=decision.too_slow, due=decision.due)
        else:
            portrait = sitting.portrait(sitting.random_order)
        members = portrait.members
        weights = portrait.weights
        notes["mixture"] = float(np.round(np.linalg.norm(features.phi[members].T @ weights), 6))
        notes["effective"] = float(np.round(1 / (weights**2).sum(), 3))
        if members.size < round.places:
            notes["left_empty"] = round.places - members.size
        chosen = round.available[members]
        state.dispatched[chosen] = weights / weights.sum() * chosen.size
        return Cohort(chosen, weights / weights.sum(), notes=notes)

    def _due_shares(self, state: Memory, population: Population) -> Floats:
        """Return p: the shares of the target; with ``losses`` those who lag behind are due more."""
        p = self._target_shares(population)
        if not isinstance(state, LossMemory):
            return p
        return as_shares(p * due_multiples(state.loss, state.loss_record, population.known_ids))

    def _target_shares(self, population: Population) -> Floats:
        """Return shares of all data, or of data in which all labels weigh alike."""
        if self.target == "population":
            return data_shares(population)
        counts = np.asarray(population.label_counts[population.known_ids], np.float64)
        per_label = counts.sum(axis=0)
        p = np.zeros(population.n_clients)
        p[population.known_ids] = as_shares(
            counts @ np.divide(1.0, per_label, out=np.zeros(per_label.size), where=per_label > 0)
        )
        return p

    def _ledger(self, state: Memory, round: Round, p: Floats) -> Floats:
        """Return d as if the clients at work had answered, so that what they bring is not chosen again."""
        if not round.in_flight.size:
            return state.owed
        at_work = np.zeros(state.n_clients)
        at_work[round.in_flight] = state.dispatched[round.in_flight]
        if at_work.sum() <= 0:
            return state.owed
        return np.asarray(state.owed + p - at_work / at_work.sum())

    def _counts_seconds(self, round: Round) -> bool:
        """Tell whether there is a clock, and durations matter."""
        return self.seconds != "ignored" and round.clock is not None

    def features(self, state: Memory, round: Round, p: Floats, ledger: Floats) -> Features:
        """Return the features Φ of the available clients, the target T, and κ."""
        available = round.available
        ids = self._portrayed_ids(state, round)
        if not ids.size:
            return Features(phi=np.zeros((available.size, 0)), target=np.zeros(0), kappa=1.0)
        rows = self._rows(state, round, ids)
        mean, spread = spread_of(rows, as_shares(p[ids]))
        scale = unit_scale(spread)
        position = np.searchsorted(ids, available).clip(max=ids.size - 1)
        is_portrayed = ids[position] == available
        phi = np.zeros((available.size, rows.shape[1]))
        phi[is_portrayed] = (rows[position[is_portrayed]] - mean) * scale
        target = np.zeros(rows.shape[1])
        if self.repay_mixture:
            target = scale * ((rows - mean).T @ ledger[ids])
        kappa = 1.0
        if self.by in LABELS:
            kappa = between_clients(mean, spread)
        return Features(phi=phi, target=target, kappa=kappa)

    def _portrayed_ids(self, state: Memory, round: Round) -> Ids:
        """Return sorted ids of the clients whose features are known."""
        if self.by == "sizes":
            return round.available[:0]
        if self.by in FACT_BY_PORTRAIT and self.epsilon is None:
            return round.population.known_ids
        return np.flatnonzero(has_row(state.rows))

    def _rows(self, state: Memory, round: Round, ids: Ids) -> Floats:
        """Return features of these clients (n, d), neither centred nor scaled."""
        if self.by == "features":
            return np.asarray(round.population.features[ids], np.float64)
        if self.by == "labels" and self.epsilon is None:
            return label_shares(round.population.label_counts[ids])
        return state.rows[ids]

    def _noise_unseen_label_counts(self, state: Memory, round: Round, epsilon: float) -> None:
        """Draw noise for the label counts of clients that are new to the server, and keep their noised shares."""
        known_ids = round.population.known_ids
        newcomers = known_ids[~has_row(state.rows)[known_ids]]
        if newcomers.size:
            shares = private_label_shares(
                round.population.label_counts[newcomers],
                epsilon=epsilon,
                mechanism=self.noise,
                delta=self.delta,
                rng=round.rng,
            )
            state.rows = write_rows(state.rows, newcomers, shares)

    def _estimate_parts(self, state: Memory, round: Round, p: Floats, kappa: float) -> UpdateParts:
        """Return λ, G and s: by κ, or λ and s estimated once enough clients' updates are known.

        An estimate of λ below 1 is cut to 1, so that giants are not exchanged for unlike clients. What is added to it
        asks for each client's share of the data, not for what the ledger owes: with e = λ̂,
        e‖p + d − a‖² + (1 − e)‖p − a‖² = ‖p + e·d − a‖² up to a constant.
        """
        scale = 1 / max(kappa, SMALLEST_SPREAD)
        by_kappa = UpdateParts(
            trade_off=min(self._one_label_trade_off * scale, LARGEST_TRADE_OFF),
            common=min(ONE_LABEL_COMMON * scale, LARGEST_TRADE_OFF),
        )
        if not self._estimates_trade_off:
            return by_kappa
        updated = np.flatnonzero(has_row(state.updates))
        ids = np.intersect1d(updated, self._portrayed_ids(state, round), assume_unique=True)
        if not ids.size:
            return by_kappa
        unexplained_part = unexplained_ratio(self._rows(state, round, ids), state.updates[ids], p[ids])
        if unexplained_part is None:
            return by_kappa
        return UpdateParts(
            trade_off=float(np.clip(unexplained_part, LEAST_ESTIMATE, LARGEST_ESTIMATE)),
            common=by_kappa.common,
            ledger=min(unexplained_part / LEAST_ESTIMATE, 1.0) if self.learn_ledger else 1.0,
        )

    @property
    def _one_label_trade_off(self) -> float:
        """λ₁, the trade-off of clients that have one label each."""
        if self.trade_off is not None:
            return self.trade_off
        return LABELS_TRADE_OFF if self.by in LABELS else OTHER_TRADE_OFF

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Set d ← ρ(d + p − a) with the weights of those who had their turn, where they add up to 1; learn features."""
        state.dispatched[feedback.cohort.ids] = 0.0
        ids = self._find_booked(state, feedback)
        members = feedback.cohort.ids
        state.silent[members] = np.isin(members, feedback.ids, invert=True)
        weights, _ = feedback.cohort.weights_of(ids)
        if abs(weights.sum() - 1.0) < 1e-9:
            owed = state.owed + self._due_shares(state, feedback.round.population)
            owed[ids] -= weights
            state.owed = (1.0 - self._share_forgotten(feedback.round)) * owed
        if self._counts_seconds(feedback.round):
            state.seconds = observed_seconds(state.seconds, feedback)
            owing = make_payments(self._target_shares(feedback.round.population), feedback.round.budget)
            state.waits = owing.waits_after(state.waits, feedback.round.available, ids, weights)
        for signal in self.needs.reports:
            if signal == TRAINING_LOSS:
                self._learn_losses(state, feedback)
            else:
                self._learn_features(state, feedback.report(signal))

    def _learn_losses(self, state: Memory, feedback: Feedback) -> None:
        """Keep what clients reported, and whether losses of those that were due more have fallen."""
        reading = feedback.report(TRAINING_LOSS)
        if not isinstance(state, LossMemory) or not len(reading):
            return
        m = due_multiples(state.loss, state.loss_record, feedback.round.population.known_ids)
        ids = reading.ids
        state.loss_record = update_record(
            record=state.loss_record,
            loss=state.loss,
            ids=ids,
            reported=reading.values,
            was_due_more=m[ids] > 1,
        )
        state.loss[ids] = reading.values

    def _find_booked(self, state: Memory, feedback: Feedback) -> Ids:
        """Return the members whose weight counts as paid: they completed, or fell silent the last two times."""
        members = feedback.cohort.ids
        return members[np.isin(members, feedback.ids) | state.silent[members]]

    def _share_forgotten(self, round: Round) -> float:
        """Return 1 − ρ, the share of the ledger that is forgotten in a round."""
        if self.forgetting is not None:
            return self.forgetting
        return min(0.9, round.budget / (2 * round.n_clients))

    def _learn_features(self, state: Memory, reading: Reading) -> None:
        """Store the mean of old and new features or, where updates serve to estimate λ alone, the last updates."""
        if not len(reading):
            return
        values = reading.values.reshape(len(reading), -1)
        if self.by in FACT_BY_PORTRAIT or self.by == "secure":
            state.updates = write_rows(state.updates, reading.ids, values)
            return
        if state.rows.shape[1]:
            previous = state.rows[reading.ids]
            values = np.where(np.isnan(previous), values, (previous + values) / 2)
        state.rows = write_rows(state.rows, reading.ids, values)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all that portrays clients, both targets, λ given and estimated, both noises."""
        return [
            {},
            {"by": "labels"},
            {"secure_aggregation": True},
            {"estimate": True, "sketch": 8, "trade_off": 1.0},
            {"by": "features", "repay_mixture": False, "forgetting": 0.0},
            {"estimate": False, "seconds": "observed", "target": "balanced", "by": "labels"},
            {"seconds": "ignored", "learn_ledger": False},
            {"by": "updates", "sketch": 16},
            {"by": "bias"},
            {"by": "secure"},
            {"by": "sizes"},
            {"epsilon": 1.0},
            {"epsilon": 1.0, "noise": "gaussian", "delta": 1e-3},
            {"losses": True},
        ]
