"""LongFed: Li et al. 2024, *Emulating full client participation: a long-term client selection strategy* …

| paper | here |
|---|---|
| g_i^t, the client's gradient | the report of the cohort, ``gradient``: per local step, summed, or of unit length |
| d_ij^t, eqs. 4, 5 | ``Memory.distance``: renewed for pairs that trained in one round, else as it was |
| Ē(S) = Σ_i min_{j∈S} d_ij, eq. 3 | the coverage that ``_parts.facility.greedy`` minimises |
| a_j = abs(C_j), eq. 1 | ``weights="count"``: abs(C_j)/N; ``"data"``: the share of all data that C_j holds |
| (ε, δ) individual fairness, eq. 7 | ``epsilon``, ``delta`` |
| k_i^t, eq. 19; Z_i, Q_i, eq. 13 | ``reference_clients`` at the start of a round, for both queues; ``advance`` |
| λ, eq. 23 | ``trade_off``, times the drift |
| t = 1: all clients | ``first="everyone"``; or ``"ask"``: updates are asked for, and K are chosen at once |

Deviations: Algorithm 1 as printed computes x from the clients chosen so far, which makes the fairness term the same
for every candidate; here x includes the candidate. a_j is divided by N, for a step of FedAvg's length. By default
clients count by their data, in a_j and in the coverage sum, which then bounds the error against FedAvg's Σ p_i g_i;
with equal sizes nothing changes, with unequal ones full participation is followed better. Only available clients are
candidates, all known ones are to be covered. A client met after the first round is asked for its update once; its
distance to clients that it never trained with is that of the last known updates, sketched to 256 numbers. The defaults
of ε, δ and λ are ours, free of scale: ε and λ's unit are estimated anew whenever twice as many clients are known.
Beyond ``exact_up_to`` clients (``_parts.facility_sampled``) distances are between last known sketches of 64 numbers
(staleness per client, not per pair), in every round ``sample`` clients are to be covered and as many are candidates
first, reference clients are sought among these and those chosen most often, and only newcomers among the drawn are
asked, also in round one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    STEP_GRADIENT,
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
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TOLERANCE
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.distances import between, grown, pairwise
from sortition.selectors._parts.facility import greedy_cover, nearest_of, represented_mass
from sortition.selectors._parts.facility_sampled import sampled_cover, shortened, stored

BRIDGE, SHORT = 256, 64  # numbers kept of a client's last update: up to exact_up_to clients, and beyond
MEMBERS = 10  # clients drawn for each place of a cohort, at least


Covered = tuple[Ids, Floats, dict[str, Any]]  # who, standing for how much, and a picture of it


@dataclass
class Memory(State):
    """Last updates, distances, how often each was chosen, the two queues, and this round's reference clients."""

    met: Array = per_client(False, dtype=bool)
    rows: Array = per_client(width=0, dtype=np.float32)
    chosen: Floats = per_client()
    z: Floats = per_client()
    q: Floats = per_client()
    reference: Ids = per_client(dtype=np.int64)
    distance: Floats | None = shared()  # (N, N), NaN where a pair never trained together; None beyond exact_up_to
    rounds: int = shared(0)
    epsilon: float = shared(np.nan)  # in units of distance, once there are distances
    scale: float = shared(1.0)  # what λ is multiplied with
    judged: int = shared(0)  # how many clients were known when ε and the scale were estimated

    @classmethod
    def migrated(cls, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Up to format 2, ε was estimated once, and of how many clients was not stored."""
        if "judged" in arrays or "met" not in arrays:
            return arrays
        return {**arrays, "judged": np.asarray(np.count_nonzero(arrays["met"]))}


@method
class LongFed(Selector[Memory]):
    """Clients whose updates cover everybody's, with similar clients chosen similarly often.

    Attributes:
        epsilon: how near two clients are similar: a quantile of the distances at first, or a distance.
        delta: how far the selection frequencies of similar clients may differ.
        trade_off: λ, the weight of fairness: in mean distances, or absolute.
        units: "relative" (ours) or "absolute" (the paper's), of epsilon and trade_off.
        gradient: "per-step" (update / (−lr · steps)), "sum" (the update), "unit" (its direction).
        weights: the "data" of the clients that each stands for, or their "count" (the paper's; the same if sizes are).
        first: in the first round "everyone" trains, or everyone is asked ("ask") and K are chosen.
        sketch: clients send projections to this many numbers; None: whole updates.
        exact_up_to: N up to which all pairwise distances are kept.
        sample: beyond, how many clients are covered, and how many are candidates first, in a round (≥ 10 K).
    """

    epsilon: Annotated[float, Field(ge=0)] = 0.15
    delta: Annotated[float, Field(ge=0, le=1)] = 0.05
    trade_off: Annotated[float, Field(ge=0)] = 0.5
    units: Literal["relative", "absolute"] = "relative"
    gradient: Literal["per-step", "sum", "unit"] = "per-step"
    weights: Literal["count", "data"] = "data"
    first: Literal["everyone", "ask"] = "everyone"
    sketch: Annotated[int, Field(ge=1)] | None = None
    exact_up_to: Annotated[int, Field(ge=0)] = 2000
    sample: Annotated[int, Field(ge=2)] = 500

    memory = Memory
    cite = """@article{li2024emulating,
  title = {Emulating Full Client Participation: A Long-Term Client Selection Strategy for Federated Learning},
  author = {Li, Qingming and Miao, Juzheng and Zhao, Puning and Zhou, Li and Zhao, H. Vicky and Ji, Shouling
    and Zhou, Bowen and Liu, Furui},
  journal = {arXiv preprint arXiv:2405.13584}, year = {2024}
}"""

    @property
    def signal(self) -> Signal:
        """The vector that clients are compared by."""
        whole = STEP_GRADIENT if self.gradient == "per-step" else UPDATE
        return whole if self.sketch is None else whole.sketch(self.sketch)

    @property
    def needs(self) -> Needs:
        """Every trained client's update (or its sketch), of newcomers too; sizes, if weights follow the data."""
        return Needs(reads=("sizes",) if self.weights == "data" else (), asks=(self.signal,), reports=(self.signal,))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Nobody was met."""
        if self.units == "relative" and self.epsilon > 1:
            raise bad("LongFed.epsilon", "a quantile ≤ 1", self.epsilon, 'units = "absolute" takes distances.')
        return Memory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Algorithm 2, lines 5 to 9."""
        exact = self._fit(state)
        if exact and state.rounds == 0 and self.first == "everyone":
            return self._cohort(round.available, self._mass(round, round.available), full=True)
        drawn = round.available if exact else np.sort(uniformly(round.available, self._drawn(round), round.rng))
        newcomers = drawn[~state.met[drawn]]
        if newcomers.size:
            self._learn(state, (yield Measure(self.signal, newcomers)))
        known, pool = np.flatnonzero(state.met), round.available[state.met[round.available]]
        if pool.size == 0:
            state.reference = np.arange(state.n_clients)
            return Cohort.uniform(uniformly(round.available, round.places, round.rng), notes={"known": 0})
        ids, weights, seen = (self._cover if exact else self._sampled)(state, round, known, pool)
        others = round.available[~state.met[round.available]]
        silent = uniformly(others, round.places - ids.size, round.rng)  # unknown clients stand for themselves
        own = self._mass(round, silent)
        return self._cohort(np.append(ids, silent), np.append(weights, own), notes={"known": int(known.size), **seen})

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Queues by eq. 13 and distances by eq. 5."""
        chosen = np.zeros(state.n_clients, bool)
        chosen[feedback.cohort.ids] = True
        if not feedback.cohort.full:  # in a round with everyone x_i − x_k = 0, and nobody has a reference yet
            state.z, state.q = advance(state.z, state.q, chosen, state.reference, self.delta)
        state.chosen += chosen
        state.rounds += 1
        self._learn(state, feedback.report(self.signal))

    # -- selection, Algorithm 1 ------------------------------------------------------------------------------------

    def _cover(self, state: Memory, round: Round, known: Ids, pool: Ids) -> Covered:
        """Exactly: every known client is covered, every known available one is a candidate."""
        distance = self._table(state, known)
        price = self._price(state, known, distance)
        mass = self._mass(round, known)
        candidates = np.searchsorted(known, pool)
        table = distance[candidates]
        picks = greedy_cover(table, round.budget, price=price[pool], mass=None if self.weights == "count" else mass)
        by = pool[picks][nearest_of(table[picks])] if picture_notes.due(round) else known
        seen = picture_notes.coverage_note(round, known, distance, pool[picks], by)
        return pool[picks], represented_mass(table[picks], mass), seen

    def _sampled(self, state: Memory, round: Round, known: Ids, pool: Ids) -> Covered:
        """Beyond ``exact_up_to``: a sample is covered by the best of the whole pool."""
        references = np.sort(uniformly(known, self._drawn(round), round.rng))
        candidates = np.sort(uniformly(pool, self._drawn(round), round.rng))
        often = np.flatnonzero(state.met & (state.chosen > 0))  # whom fairness is to hold back
        often = often[np.argsort(-state.chosen[often], kind="stable")[: self._drawn(round)]]
        seen = np.unique(np.concatenate([references, candidates, often]))
        price = self._price(state, seen, pairwise(state.rows[seen]))
        mass = self._mass(round, references) * (known.size / references.size)
        ids = sampled_cover(state.rows, pool, candidates, references, round.budget, mass, price)
        return ids, represented_mass(between(state.rows[ids], state.rows[references]), mass), {}

    def _price(self, state: Memory, ids: Ids, distance: Floats) -> Floats:
        """λ · pull (N,), with this round's reference clients sought among ``ids``."""
        known = int(state.met.sum())
        if self.units == "absolute":
            state.epsilon = self.epsilon
        elif ids.size > 1 and known >= 2 * state.judged:
            off = distance[~np.eye(ids.size, dtype=bool)]
            state.epsilon, state.scale, state.judged = float(np.quantile(off, self.epsilon)), float(off.mean()), known
        state.reference = np.arange(state.n_clients)
        state.reference[ids] = ids[reference_clients(distance, state.chosen[ids], state.epsilon)]
        return self.trade_off * state.scale * pulls(state.z, state.q, state.reference)

    def _mass(self, round: Round, ids: Ids) -> Floats:
        """How much each client's own update counts in full participation, 1 on average."""
        if self.weights == "count":
            return np.ones(ids.size)
        sizes, known = np.asarray(round.population.sizes, np.float64), round.population.known
        return np.asarray(sizes[ids] / max(sizes[known].mean(), 1e-300))

    @staticmethod
    def _cohort(ids: Ids, mass: Floats, **rest: Any) -> Cohort:
        total = mass.sum()
        return Cohort(ids, mass / total, **rest) if total > 0 else Cohort.uniform(ids, **rest)

    # -- what is known of updates ----------------------------------------------------------------------------------

    def _drawn(self, round: Round) -> int:
        """How many are covered, and how many are candidates first, beyond ``exact_up_to``."""
        return max(self.sample, MEMBERS * round.budget)

    def _fit(self, state: Memory) -> bool:
        """Whether all pairs are kept; makes room for clients that joined."""
        exact = state.n_clients <= self.exact_up_to
        state.distance = grown(state.distance, state.n_clients, np.nan) if exact else None
        if not exact and state.rows.shape[1] > SHORT:
            state.rows = shortened(state.rows, SHORT).astype(np.float32)
        return exact

    def _learn(self, state: Memory, reading: Reading) -> None:
        """Eq. 5: distances of all pairs that answered together."""
        if not len(reading):
            return
        vectors = reading.values.reshape(len(reading), -1)
        if self.gradient == "unit":
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        short = shortened(vectors, BRIDGE)  # also on the way to SHORT, so that one federation's sketches compare
        if state.distance is not None:
            state.distance[np.ix_(reading.ids, reading.ids)] = pairwise(vectors)
        state.rows = stored(state.rows, reading.ids, short, SHORT if state.distance is None else BRIDGE)
        state.met[reading.ids] = True

    @staticmethod
    def _table(state: Memory, known: Ids) -> Floats:
        """d_ij of the known clients; of pairs that never trained together, from their last updates."""
        if state.distance is None:
            raise RuntimeError("the table is kept up to exact_up_to clients")
        table = state.distance[np.ix_(known, known)]
        missing = np.isnan(table)
        if missing.any():
            table[missing] = pairwise(state.rows[known])[missing]
        return table

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """All variants, and the form for many clients."""
        return [
            {},
            {"gradient": "sum", "weights": "count", "first": "ask"},
            {"gradient": "unit", "units": "absolute", "epsilon": 1.0, "trade_off": 2.0, "delta": 0.1, "sketch": 8},
            {"exact_up_to": 0, "sample": 12},
        ]


def reference_clients(distance: Floats, chosen: Floats, epsilon: float) -> Ids:
    """k_i = argmax_{j: d_ij ≤ ε} |p_i − p_j| (eq. 19), positions; ties go to the lowest, so i may be its own.

    ``chosen`` counts rounds: p is that over t, which changes no argmax but would let rounding break ties.
    """
    gap = np.abs(chosen[:, None] - chosen)
    gap[distance > epsilon * (1 + TOLERANCE)] = -1.0  # ε is often one of the distances
    return np.asarray(np.argmax(gap, axis=1), np.int64)


def pulls(z: Floats, q: Floats, reference: Ids) -> Floats:
    """What choosing c adds to Σ_i (Z_i y_i + Q_i z_i) of eq. 23: (Z − Q)_c less that of all whose reference is c."""
    push = z - q
    return np.asarray(push - np.bincount(reference, weights=push, minlength=push.size))


def advance(z: Floats, q: Floats, chosen: Array, reference: Ids, delta: float) -> tuple[Floats, Floats]:
    """Eq. 13: Z grows where i was chosen and its reference was not, Q the other way round; both shrink by δ."""
    ahead = chosen.astype(np.float64) - chosen[reference]
    return np.maximum(z + ahead - delta, 0.0), np.maximum(q - ahead - delta, 0.0)
