"""CA-Fed: Rodio et al. 2023, *Federated learning under heterogeneous and correlated client availability*.

Unbiased weights α_k/π_k make rarely available clients weigh much, and clients whose availability is correlated over
time slow convergence. CA-Fed leaves out clients where that lowers a bound of the error by more than the bias it adds.

| paper | here |
|---|---|
| α_k, weight in the target objective | ``target``: n_k/n, or 1/N |
| π_k, λ_k: availability and its correlation (two-state Markov chain) | ``_parts.availability_chain``, from counts |
| F̂_k ← s F̂_k + (1 − s) F_k(w) of the active clients | ``state.loss``, the question ``LOSS``; s = ``smoothing`` |
| q_k = α_k/π̂_k, p_k = π_k q_k / Σ_h π_h q_h | with q = α/π̂ on the kept clients p_k = α_k / Σ_kept α |
| ε(q) = Σ_k p_k (F̂_k − F*_k) + κ Γ̂ d_TV(α, p)², Γ̂ = max_k (F̂_k − F*_k) | :func:`prune`; κ = ``bias`` |
| q_k = 0 if that lowers ε by at least tol; first by decreasing abs(λ̂_k), then by increasing π̂_k | ``tolerance`` |
| w ← w + Σ_{k∈A_t} q_k Δ_k, not normalised | weights q_k, ``mass="expected"`` |

If R is left out, p_k = α_k/(1 − α(R)) for the others and d_TV(α, p) = α(R): so ε needs two running sums, not a pass
over all clients.

Deviations: π̂ and λ̂ are estimated from the rounds that were seen (the released experiments use the true ones; the
released estimator divides by the wrong count). F*_k is not known in a federation and counts as 0. A client whose
removal changes ε by nothing but rounding stays, so nobody is left out where all losses are 0. A client that was never
active has the mean loss of those that were (released: of those active now). The paper lets all kept active clients
train (``cohort="all"``); ``cohort="budget"`` draws as many as there are places, and their weights grow in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import LOSS, Cohort, Measure, Needs, Reading, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TOLERANCE, rounded
from sortition.selectors._parts import availability_chain

CHUNK = 65_536  # clients whose numbers are unpacked at a time


@dataclass
class Memory(State):
    """The smoothed loss of each client (NaN: never active), and how its availability went from round to round."""

    loss: Floats = per_client(np.nan)
    before: Array = per_client(0, dtype=bool)  # available in the last round
    moves: Array = per_client(0, dtype=int, width=4)  # rounds that went 0→0, 0→1, 1→0, 1→1
    last: int = shared(-1)


@method
class CAFed(Selector[Memory]):
    """All available clients but those whose absence harms less than their rare or correlated presence.

    Attributes:
        target: α_k: by "size", or the same for all ("equal").
        bias: κ, weight of the bias; the larger, the fewer clients are left out.
        tolerance: by how much the bound must fall for a client to be left out.
        smoothing: s, weight of the old loss.
        cohort: "all" kept clients that are available (the paper), or as many of them as the "budget" allows.
    """

    target: Literal["size", "equal"] = "size"
    bias: Annotated[float, Field(ge=0)] = 1.0
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    cohort: Literal["all", "budget"] = "all"

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{rodio2023federated,
  title = {Federated Learning under Heterogeneous and Correlated Client Availability},
  author = {Rodio, Angelo and Faticanti, Francescomaria and Marfoq, Othmane and Neglia, Giovanni and Leonardi, Emilio},
  booktitle = {IEEE INFOCOM}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes, if they are the target; the loss of every available client in every round."""
        return Needs(reads=("sizes",) if self.target == "size" else (), asks=(LOSS,))

    def select(self, state: Memory, round: Round) -> Asking:
        """Losses, then estimates, then the clients that are kept."""
        known = round.population.known
        self._learn(state, (yield Measure(LOSS, round.available)))
        passed = round.index - state.last if state.last >= 0 else 0
        availability_chain.count(state.moves, state.before, round.available, passed)
        state.last = round.index
        pi, correlation = availability_chain.estimates(state.moves[known])
        alpha = self._target(round, known)
        sticky, rare = np.argsort(-rounded(np.abs(correlation)), kind="stable"), np.argsort(rounded(pi), kind="stable")
        order = np.concatenate([sticky, rare])
        kept = prune(alpha, self._losses(state, known), order, self.bias, self.tolerance)
        q = np.zeros(round.n_clients)
        q[known[kept]] = alpha[kept] / pi[kept]
        ids = round.available[q[round.available] > 0]
        notes = {"left_out": int(known.size - kept.sum()), "kept_available": int(ids.size)}
        if self.cohort == "all":
            return Cohort(ids, q[ids], full=True, mass="expected", notes=notes)
        drawn = np.sort(uniformly(ids, round.budget, round.rng))
        return Cohort(drawn, q[drawn] * (ids.size / max(drawn.size, 1)), mass="expected", notes=notes)

    def _learn(self, state: Memory, losses: Reading) -> None:
        """F̂_k of those who answered."""
        if len(losses):
            old = state.loss[losses.ids]
            mixed = self.smoothing * old + (1 - self.smoothing) * losses.values
            state.loss[losses.ids] = np.where(np.isnan(old), losses.values, mixed)

    def _losses(self, state: Memory, known: Ids) -> Floats:
        """F̂_k of the known clients, the mean of the others where there is none; F*_k counts as 0."""
        loss = state.loss[known]
        seen = ~np.isnan(loss)
        return np.where(seen, loss, loss[seen].mean() if seen.any() else 0.0)

    def _target(self, round: Round, known: Ids) -> Floats:
        """α_k of the known clients."""
        sizes = np.ones(known.size) if self.target == "equal" else np.asarray(round.population.sizes[known], np.float64)
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else np.full(known.size, 1.0 / max(known.size, 1)))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The paper's setting, and one that is within the budget."""
        return [
            {"bias": 0.5},
            {"target": "equal", "bias": 0.2, "tolerance": 0.001, "smoothing": 0.3, "cohort": "budget"},
        ]


def prune(alpha: Floats, loss: Floats, order: Ids, bias: float, tolerance: float) -> Array:
    """Which clients are kept (n,): along ``order``, each whose absence lowers ε by the tolerance is left out."""
    kept = [True] * alpha.size
    out, inside, worst = 0.0, float(alpha @ loss), bias * float(loss.max(initial=0.0))
    bound = inside
    for k, share, harm in _numbers(order, alpha, alpha * loss):
        left = 1.0 - out - share
        if not kept[k] or left <= TOLERANCE:  # nobody would be left
            continue
        then = (inside - harm) / left + worst * (out + share) ** 2
        if bound - then >= tolerance + TOLERANCE * abs(bound) and bound > then:
            kept[k], bound = False, then
            out, inside = out + share, inside - harm
    return np.array(kept, bool)


def _numbers(order: Ids, *columns: Floats) -> Iterator[tuple[Any, ...]]:
    """Along ``order``, each client and its entries as Python's own numbers: a loop over numpy's is far slower."""
    parts = (order[start : start + CHUNK] for start in range(0, order.size, CHUNK))
    return chain.from_iterable(zip(at.tolist(), *(some[at].tolist() for some in columns), strict=True) for at in parts)
