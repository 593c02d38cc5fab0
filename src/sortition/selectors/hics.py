"""HiCS-FL: Chen and Vikalo 2024, *Heterogeneity-guided client sampling: towards fast and efficient non-IID FL*.

| paper | here |
|---|---|
| Δb^(k), update of the output layer's bias | the report ``BIAS_UPDATE`` |
| Ĥ(Δb) = H(softmax(Δb / T)), eq. 7, in nats | ``entropy_estimate``; T is ``temperature`` |
| Dist(u, k) = arccos⟨Δb_u, Δb_k⟩/(‖Δb_u‖‖Δb_k‖) + λ·abs(Ĥ_u − Ĥ_k), eq. 9 | ``tree_groups``; λ is ``lam`` |
| M clusters | ``clusters``; None means M = K |
| γ^t = γ0 (1 − t/T), t = 1 … T | ``gamma0``, t = index + 1; without a horizon γ0 stays, and is noted |
| π_m ∝ exp(γ^t H̄_m), p̃_k ∝ n_k inside, eq. 10 | ``selection_odds``: π_m p̃_k; ``within="uniform"`` is the released p̃ |
| draw m by π, k by p̃ until S_t has K | ``draw_weighted`` by π_m p̃_k: discarding repeated draws is the same law |
| warm-up: t ≤ ⌈N/K⌉, K of those not met, without replacement | available clients without Ĥ come first |
| (1/K) Σ w_k | uniform weights |

Variants of the released code: ``signal="head"`` (angle of the whole output layer's update, entropy of the row means of
its weights), ``within="uniform"``, and clustered sampling on the same tree where Var(Ĥ) ≥ ``threshold``
(``fallback="diverse"``); the prose wants it where clients are "alike", Var(Ĥ) < ``threshold``. By default there is no
branch: Algorithm 1 has none.

Ours: ``signal="relative"`` divides Δb by learning rate, steps and training loss, so that a client whose labels the
model has learnt is not taken for balanced; with ``temperature=1`` (momentum 0.9).

Deviations: Ward's method takes the distance rows as points, as released (``linkage="average"`` links the distances). A
zero update is at π/2 from others (released: 0). Warm-up is over the available clients: a client without Ĥ is forced in
whenever it is available (it is never taken for balanced, as a zero update would be), and after ⌈N/K⌉ rounds the
remaining places are drawn as usual. A client that was chosen three times without a report is no longer forced. Beyond
``exact_up_to`` clients a sample is clustered and all join the nearest group of it. The released code refreshes no
estimate after warm-up where clients have several α (``refresh="once"``); by default, as in the paper, every participant
refreshes its own. A newcomer is chosen in the round in which it is first available, not in the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    BIAS_UPDATE,
    HEAD_UPDATE,
    Cohort,
    Feedback,
    LocalResult,
    Needs,
    Round,
    Selector,
    Signal,
    State,
    method,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_uniformly, draw_weighted
from sortition.core.state import per_client
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.bins import as_whole_sizes, fill_bins_by_groups, remaining_mass
from sortition.selectors._parts.linkage import Cut, Linkage, cut_to_count, cut_to_mass, tree_groups

ROW_MEANS = Signal(
    "head-row-means",
    "training",
    lambda client, _: np.mean(client.train().output_weight, axis=1),
    False,
    summary="mean change of the output layer's weights per class",
    exact=True,
    width="classes",
)
RELATIVE_BIAS = Signal(
    "bias-update-relative",
    "training",
    lambda client, _: relative_bias(client.train()),
    False,
    summary="mean gradient of the output layer's bias, over the training loss",
    exact=True,
)
SIGNALS = {  # the signals from which the angle and the entropy are taken
    "bias": (BIAS_UPDATE, BIAS_UPDATE),
    "head": (HEAD_UPDATE, ROW_MEANS),
    "relative": (RELATIVE_BIAS, RELATIVE_BIAS),
}
SMALLEST_LOSS = 1e-3  # a training loss below counts as this
MOST_TRIES = 3  # a client that has not reported is forced in so often
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]


@dataclass
class Memory(State):
    """What each client last reported (0 before), its estimated entropy (NaN before) and how often it was chosen."""

    update: Floats = per_client(width=0)
    entropy: Floats = per_client(np.nan)
    chosen: Ids = per_client(0, dtype=np.int64)


@method
class HiCS(Selector[Memory]):
    """Groups clients by direction and estimated label entropy; it prefers balanced groups, less and less.

    Attributes:
        temperature: T of eq. 7; 0.0025 for Fashion-MNIST, 0.0015 for CIFAR-10 and Mini-ImageNet.
        lam: λ of eq. 9, what a difference in entropy weighs against an angle.
        gamma0: γ0, preference for balanced groups at the start; 4, and 2 for Mini-ImageNet.
        clusters: M; None for as many as the cohort has places.
        signal: "bias" (paper), "head", the whole output layer (released code), or "relative" (ours; temperature 1).
        within: how a member of the drawn group is drawn, by "size" (paper) or "uniform" (released code).
        refresh: estimates are renewed by every participation ("always", paper) or kept ("once", released code).
        linkage: "ward" on the rows of the distance matrix, or "average" on the distances.
        fallback: clustered sampling instead "never", or where entropies are "diverse" (released) or "alike".
        threshold: the variance of Ĥ from which on clients count as diverse.
        exact_up_to: clients up to which all are clustered; beyond, a sample of at most 1,000.
    """

    temperature: Positive = 0.0025
    lam: NonNegative = 10.0
    gamma0: NonNegative = 4.0
    clusters: Annotated[int, Field(ge=1)] | None = None
    signal: Literal["bias", "head", "relative"] = "bias"
    within: Literal["size", "uniform"] = "size"
    refresh: Literal["always", "once"] = "always"
    linkage: Linkage = "ward"
    fallback: Literal["never", "diverse", "alike"] = "never"
    threshold: NonNegative = 0.1
    exact_up_to: Annotated[int, Field(ge=2)] = 2000

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{chen2024heterogeneity,
  title = {Heterogeneity-Guided Client Sampling: Towards Fast and Efficient Non-{IID} Federated Learning},
  author = {Chen, Huancheng and Vikalo, Haris},
  booktitle = {NeurIPS}, year = {2024}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes and the number of rounds; take the output layer's change of each participant."""
        return Needs(
            reads=("sizes",),
            reports=tuple(dict.fromkeys(SIGNALS[self.signal])),
            horizon=True,
        )

    def select(self, state: Memory, round: Round) -> Cohort:
        """Take clients without an estimate first, then draw group by group for the remaining places."""
        ids = round.available
        without_estimate = np.isnan(state.entropy[ids])
        due = ids[without_estimate & (state.chosen[ids] < MOST_TRIES)]
        forced = draw_uniformly(due, round.budget, round.rng)
        places = round.places - forced.size
        warming_up = round.index < -(-round.n_clients // round.budget)
        if places == 0 or (warming_up and forced.size):
            return Cohort.uniform(forced, notes={"forced": int(forced.size)})
        estimated = ids[~without_estimate]
        draws = estimated
        notes: dict[str, Any] = {}
        if estimated.size:
            draws, notes = self._draw(state, estimated, places, round)
        unestimated = np.setdiff1d(ids[without_estimate], forced)
        substitutes = draw_uniformly(unestimated, places - draws.size, round.rng)
        n_forced = int(forced.size + substitutes.size)
        return Cohort.drawn(np.concatenate([forced, draws, substitutes]), notes={"forced": n_forced, **notes})

    def _draw(self, state: Memory, ids: Ids, places: int, round: Round) -> tuple[Ids, dict[str, Any]]:
        """Draw up to ``places`` of the clients with an estimate, and say in notes how."""
        entropy = state.entropy[ids]
        sizes = round.population.sizes[ids]
        is_diverse = float(entropy.var()) >= self.threshold
        if self.fallback != "never" and is_diverse == (self.fallback == "diverse"):
            mass = as_whole_sizes(sizes, places)
            groups = self._group_clients(state, ids, round, make_cut_by_mass(mass, places))
            positions = fill_bins_by_groups(mass, places, groups, round.rng).draw(round.rng)
            return ids[positions], {"stage": "clustered"}
        M = self.clusters or round.budget
        groups = self._group_clients(state, ids, round, lambda links, _: cut_to_count(links, M))
        gamma = self.gamma0
        if round.horizon is not None:
            gamma *= max(0.0, 1 - (round.index + 1) / round.horizon)
        inside = sizes if self.within == "size" else np.ones(ids.size)
        draws = draw_weighted(ids, selection_odds(entropy, groups, inside, gamma), places, round.rng)
        notes: dict[str, Any] = {
            "gamma": gamma,
            "groups": int(groups.max()) + 1,
            "entropy": float(state.entropy[draws].mean()),
        }
        notes |= picture_notes.grouping_note(round, ids, groups, entropy)
        if round.horizon is None:
            notes["horizon"] = "none: gamma stays"
        return draws, notes

    def _group_clients(self, state: Memory, ids: Ids, round: Round, cut: Cut) -> Ids:
        """Build the tree by the distance of eq. 9, and cut it."""
        return tree_groups(
            state.update,
            cut,
            self.exact_up_to,
            round.rng,
            among=ids,
            offset=self.lam * state.entropy[ids],
            linkage=self.linkage,
        )

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Refresh Δb_k and Ĥ_k of the clients that reported."""
        state.chosen[feedback.cohort.ids] += 1
        angle_signal, entropy_signal = SIGNALS[self.signal]
        values = feedback.report(entropy_signal)
        if self.refresh == "once":
            values = values.restrict(values.ids[np.isnan(state.entropy[values.ids])])
        rows = feedback.report(angle_signal).restrict(values.ids)
        values = values.restrict(rows.ids)
        if len(rows):
            state.update = rows.scatter(state.update)
            state.entropy[values.ids] = entropy_estimate(values.values, self.temperature)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the paper's rule, the released code's, the other linkage, and the form for many clients."""
        return [
            {"temperature": 0.5},
            {
                "signal": "head",
                "within": "uniform",
                "refresh": "once",
                "fallback": "diverse",
                "threshold": 0.01,
                "temperature": 0.5,
            },
            {"linkage": "average", "fallback": "alike", "clusters": 3, "lam": 1.0, "gamma0": 2.0},
            {"temperature": 0.5, "exact_up_to": 12},
            {"signal": "relative", "temperature": 1.0},
        ]


def relative_bias(trained: LocalResult) -> Floats:
    """Return Δb / (lr · steps) · ln C / loss (C,): how far labels are off per unit of loss, whatever was learnt.

    Eq. 7 reads a small Δb as balanced labels. A skewed client that the model already fits has a small Δb, too; its
    loss is as small.
    """
    bias = np.asarray(trained.output_bias, np.float64)
    loss = max(float(trained.loss), SMALLEST_LOSS)
    mean_gradient = bias / (trained.learning_rate * max(trained.steps, 1))
    return np.asarray(mean_gradient * (np.log(bias.size) / loss))


def entropy_estimate(updates: Array, temperature: float) -> Floats:
    """Return Ĥ of each row (n, C), eq. 7: the entropy of softmax(Δb / T) in nats, at most ln C."""
    scaled = np.asarray(updates, np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    total = np.exp(scaled).sum(axis=1)
    # H = ln Z − Σ p s, with p = exp(s)/Z and s ≤ 0: exp(s)·s → 0 where p vanishes
    return np.asarray(np.log(total) - (np.exp(scaled) * scaled).sum(axis=1) / total)


def selection_odds(entropy: Floats, groups: Ids, inside: Array, gamma: float) -> Floats:
    """Return π_m p̃_k of each client k of group m, eq. 10; they add up to 1. ``inside``: what p̃ is proportional to."""
    group_sizes = np.bincount(groups)
    score = gamma * np.bincount(groups, entropy) / group_sizes
    pi = np.exp(score - score.max())
    pi = pi / pi.sum()
    total = np.bincount(groups, inside)
    p = np.where(total[groups] > 0, inside / np.maximum(total, 1e-300)[groups], 1 / group_sizes[groups])
    return np.asarray(pi[groups] * p)


def make_cut_by_mass(sizes: Ids, places: int) -> Cut:
    """Return clustered sampling's cut: groups of at most one bin, where each leaf of a sample stands for its share."""
    mass = remaining_mass(sizes, places)

    def cut(links: Array, leaves: Ids) -> Ids:
        leaf_mass = mass[leaves] * (mass.sum() / max(mass[leaves].sum(), 1))
        return cut_to_mass(links, leaf_mass, float(sizes.sum()))

    return cut
