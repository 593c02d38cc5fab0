"""CA-Fed: Rodio et al. 2023, *Federated learning under heterogeneous and correlated client availability*.

Unbiased weights α_k/π_k make rarely available clients weigh much, and clients whose availability is correlated over
time slow convergence. CA-Fed leaves out clients where that lowers a bound of the error by more than the bias it adds.

| paper | here |
|---|---|
| α_k, weight in the target objective | ``target``: n_k/n, or 1/N |
| π_k, λ_k: availability and its correlation (two-state Markov chain) | ``count_moves``, ``estimate_availability`` |
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
train (``train="all"``); ``train="budget"`` draws as many as there are places, and their weights grow in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import LOSS, Cohort, Measure, Needs, Reading, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TIE_TOLERANCE, round_to_tie_grid
from sortition.selectors._parts.shares import weight_shares

CHUNK = 65_536  # clients whose numbers are unpacked at a time


@dataclass
class Memory(State):
    """The smoothed loss of each client (NaN: never active), and how its availability went from round to round."""

    loss: Floats = per_client(np.nan)
    was_available: Array = per_client(0, dtype=bool)  # in the last round
    moves: Array = per_client(0, dtype=int, width=4)  # rounds that went 0→0, 0→1, 1→0, 1→1
    last_round: int = shared(-1)


@method
class CAFed(Selector[Memory]):
    """Leaves out clients whose rare or correlated participation would bias the model more than their absence.

    Attributes:
        target: α_k: by "size", or the same for all ("equal").
        bias: κ, weight of the bias; the larger, the fewer clients are left out.
        tolerance: by how much the bound must fall for a client to be left out.
        smoothing: s, weight of the old loss.
        train: "all" kept clients that are available (the paper), or as many of them as the "budget" allows.
    """

    target: Literal["size", "equal"] = "size"
    bias: Annotated[float, Field(ge=0)] = 1.0
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    train: Literal["all", "budget"] = "all"

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{rodio2023federated,
  title = {Federated Learning under Heterogeneous and Correlated Client Availability},
  author = {Rodio, Angelo and Faticanti, Francescomaria and Marfoq, Othmane and Neglia, Giovanni and Leonardi, Emilio},
  booktitle = {IEEE INFOCOM}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Ask every available client for its loss in every round; read the sizes, if they are the target."""
        if self.target == "size":
            return Needs(reads=("sizes",), asks=(LOSS,))
        return Needs(asks=(LOSS,))

    def select(self, state: Memory, round: Round) -> Asking:
        """Learn losses, estimate availabilities, and keep the clients that the bound wants."""
        known_ids = round.population.known_ids
        losses = yield Measure(LOSS, round.available)
        self._learn(state, losses)
        rounds_passed = round.index - state.last_round if state.last_round >= 0 else 0
        count_moves(state.moves, state.was_available, round.available, rounds_passed)
        state.last_round = round.index
        pi, correlation = estimate_availability(state.moves[known_ids])
        alpha = weight_shares(round.population, known_ids, self.target)
        most_correlated_first = np.argsort(-round_to_tie_grid(np.abs(correlation)), kind="stable")
        rarest_first = np.argsort(round_to_tie_grid(pi), kind="stable")
        keeps = prune(
            alpha=alpha,
            loss=self._losses_or_mean(state, known_ids),
            order=np.concatenate([most_correlated_first, rarest_first]),
            bias=self.bias,
            tolerance=self.tolerance,
        )
        q = np.zeros(round.n_clients)
        q[known_ids[keeps]] = alpha[keeps] / pi[keeps]
        ids = round.available[q[round.available] > 0]
        notes = {"left_out": int(known_ids.size - keeps.sum()), "kept_available": int(ids.size)}
        if self.train == "all":
            return Cohort(ids, q[ids], full=True, mass="expected", notes=notes)
        chosen = np.sort(draw_uniformly(ids, round.budget, round.rng))
        weights = q[chosen] * (ids.size / max(chosen.size, 1))
        return Cohort(chosen, weights, mass="expected", notes=notes)

    def _learn(self, state: Memory, losses: Reading) -> None:
        """Update F̂_k of the clients that answered."""
        if not len(losses):
            return
        previous = state.loss[losses.ids]
        smoothed = self.smoothing * previous + (1 - self.smoothing) * losses.values
        state.loss[losses.ids] = np.where(np.isnan(previous), losses.values, smoothed)

    def _losses_or_mean(self, state: Memory, known_ids: Ids) -> Floats:
        """Return F̂_k − F*_k of the known clients, F*_k = 0; where there is no F̂_k, the mean of the others."""
        loss = state.loss[known_ids]
        unknown = np.isnan(loss)
        if unknown.all():
            return np.zeros(known_ids.size)
        return np.where(unknown, loss[~unknown].mean(), loss)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the paper's setting, and one that is within the budget."""
        return [
            {"bias": 0.5},
            {"target": "equal", "bias": 0.2, "tolerance": 0.001, "smoothing": 0.3, "train": "budget"},
        ]


def prune(alpha: Floats, loss: Floats, order: Ids, bias: float, tolerance: float) -> Array:
    """Return which clients are kept (n,): in turn, each whose absence lowers ε by the tolerance is left out.

    Args:
        alpha: (n,) α_k, shares that add up to 1.
        loss: (n,) F̂_k − F*_k.
        order: positions of the clients in the order in which they are looked at; one may occur twice.
        bias: κ.
        tolerance: tol.
    """
    keeps = [True] * alpha.size
    removed_share = 0.0  # α(R)
    kept_loss = float(alpha @ loss)  # Σ α_k (F̂_k − F*_k) over the kept clients
    kappa_gamma = bias * float(loss.max(initial=0.0))  # κ Γ̂
    epsilon = kept_loss
    for k, share, share_loss in _iterate_as_python(order, alpha, alpha * loss):
        remaining = 1.0 - removed_share - share
        if not keeps[k] or remaining <= TIE_TOLERANCE:  # nobody would be left
            continue
        epsilon_without = (kept_loss - share_loss) / remaining + kappa_gamma * (removed_share + share) ** 2
        if epsilon > epsilon_without and epsilon - epsilon_without >= tolerance + TIE_TOLERANCE * abs(epsilon):
            keeps[k] = False
            epsilon = epsilon_without
            removed_share += share
            kept_loss -= share_loss
    return np.array(keeps, bool)


def _iterate_as_python(order: Ids, shares: Floats, losses: Floats) -> Iterator[tuple[int, float, float]]:
    """Yield each client along ``order`` with its two entries as Python's own numbers: a loop over numpy's is slower."""
    for start in range(0, order.size, CHUNK):
        positions = order[start : start + CHUNK]
        yield from zip(positions.tolist(), shares[positions].tolist(), losses[positions].tolist(), strict=True)


def count_moves(moves: Array, was_available: Array, available: Ids, rounds: int) -> None:
    """Add the moves since the last round to the counts, and remember who is available now.

    Args:
        moves: (N, 4) counts of 0→0, 0→1, 1→0, 1→1; changed in place.
        was_available: (N,) who was available in the last round; becomes who is available now.
        available: ids of the clients that are available now.
        rounds: how many rounds have passed; in those between nobody was available. 0 means that this is the first.
    """
    is_available = np.zeros(was_available.size, bool)
    is_available[available] = True
    previous = was_available.copy()
    was_available[:] = is_available
    if rounds == 0:
        return
    if rounds > 1:
        moves[previous, 2] += 1
        moves[~previous, 0] += 1
        moves[:, 0] += rounds - 2
        previous[:] = False
    moves[~previous & ~is_available, 0] += 1
    moves[~previous & is_available, 1] += 1
    moves[previous & ~is_available, 2] += 1
    moves[previous & is_available, 3] += 1


def estimate_availability(moves: Array) -> tuple[Floats, Floats]:
    """Return π̂ and λ̂ of each client (n,), from its counts of moves (n, 4).

    π is the chance of being available, λ = P(1→1) + P(0→0) − 1 the second eigenvalue of the client's Markov chain: 0
    where rounds are independent, near 1 where a client stays as it is. One imagined move of each kind is added.
    """
    counts = np.asarray(moves, np.float64) + 1.0
    from_away = counts[:, 0] + counts[:, 1]
    from_available = counts[:, 2] + counts[:, 3]
    to_available = counts[:, 1] + counts[:, 3]
    pi = to_available / (from_away + from_available)
    correlation = counts[:, 3] / from_available + counts[:, 0] / from_away - 1.0
    return pi, correlation
