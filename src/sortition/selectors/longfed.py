"""LongFed: Li et al. 2024, *Emulating full client participation: a long-term client selection strategy* …

| paper | here |
|---|---|
| g_i^t, the client's gradient | the report of the cohort, ``gradient``: per local step, summed, or of unit length |
| d_ij^t, eqs. 4, 5 | ``Memory.distance``: renewed for pairs that trained in one round, else as it was |
| Ē(S) = Σ_i min_{j∈S} d_ij, eq. 3 | the coverage that ``greedy_cover`` minimises |
| a_j = abs(C_j), eq. 1 | ``weights="count"``: abs(C_j)/N; ``"data"``: the share of all data that C_j holds |
| (ε, δ) individual fairness, eq. 7 | ``epsilon``, ``delta`` |
| k_i^t, eq. 19; Z_i, Q_i, eq. 13 | ``reference_clients`` at the start of a round, for both queues; ``advance_queues`` |
| λ, eq. 23 | ``trade_off``, times the drift |
| t = 1: all clients | ``first="everyone"``; or ``"ask"``: updates are asked for, and K are chosen at once |

Deviations: Algorithm 1 as printed computes x from the clients chosen so far, which makes the fairness term the same
for every candidate; here x includes the candidate. a_j is divided by N, for a step of FedAvg's length. By default
clients count by their data, in a_j and in the coverage sum, which then bounds the error against FedAvg's Σ p_i g_i;
with equal sizes nothing changes, with unequal ones full participation is followed better. Only available clients are
candidates, all known ones are to be covered. A newcomer after the first round is asked for its update once; its
distance to clients that it never trained with is that of the last known updates, sketched to 256 numbers. The defaults
of ε, δ and λ are ours, free of scale: ε and λ's unit are estimated anew whenever twice as many clients are known.
Beyond ``exact_up_to`` clients (``_parts.facility_sampled``) distances are between last known sketches of 64 numbers
(staleness per client, not per pair), in every round ``sample`` clients are to be covered and as many are candidates
first, reference clients are sought among these and those chosen most often, and only newcomers among the drawn are
asked, also in round one.
"""

from __future__ import annotations

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
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TIE_TOLERANCE
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.distances import distances_between, pairwise_distances
from sortition.selectors._parts.facility import greedy_cover, nearest_chosen, represented_mass
from sortition.selectors._parts.facility_sampled import (
    SHORT_WIDTH,
    make_room,
    sample_size,
    sampled_cover,
    shorten_rows,
    store_rows,
)

BRIDGE_WIDTH = 256  # numbers that are kept of a client's last update up to exact_up_to clients


@dataclass
class Memory(State):
    """Last updates, distances, how often each was chosen, the two queues, and this round's reference clients."""

    has_update: Array = per_client(False, dtype=bool)
    rows: Array = per_client(width=0, dtype=np.float32)  # (N, width) last updates, sketched
    chosen: Floats = per_client()  # rounds in which each client was chosen
    z: Floats = per_client()  # Z_i
    q: Floats = per_client()  # Q_i
    reference: Ids = per_client(dtype=np.int64)  # k_i
    distance: Floats | None = shared()  # (N, N), NaN where a pair never trained together; None beyond exact_up_to
    rounds: int = shared(0)
    epsilon: float = shared(np.nan)  # in units of distance, once there are distances
    scale: float = shared(1.0)  # what λ is multiplied with
    judged: int = shared(0)  # how many clients were known when ε and the scale were estimated


@dataclass(frozen=True)
class Cover:
    """The chosen clients, which cover all known ones.

    Attributes:
        ids: (k,) the chosen clients.
        mass: (k,) how much mass each of them stands for.
        note: a picture of it, in rounds that have one.
    """

    ids: Ids
    mass: Floats
    note: picture_notes.Note


@method
class LongFed(Selector[Memory]):
    """Chooses clients whose updates cover everybody's; similar clients are chosen similarly often.

    Attributes:
        epsilon: how near two clients are similar: a quantile of the distances at first, or a distance.
        delta: how far the selection frequencies of similar clients may differ.
        trade_off: λ, the weight of fairness: in mean distances, or absolute.
        units: "relative" (ours) or "absolute" (the paper's), of epsilon and trade_off.
        gradient: "per-step" (update / (−lr · steps)), "sum" (the update), "unit" (its direction).
        weights: the "data" of the clients that each stands for, or their "count" (the paper's; the same if sizes are).
        first: in the first round "everyone" trains, or everyone is asked ("ask") and K are chosen.
        sketch: clients send projections to this many numbers; None for whole updates.
        exact_up_to: N up to which all pairwise distances are kept.
        sample: beyond that, how many clients are covered, and how many are candidates first, in a round (≥ 10 K).
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
        """The vector by which clients are compared."""
        vector = STEP_GRADIENT if self.gradient == "per-step" else UPDATE
        if self.sketch is None:
            return vector
        return vector.sketch(self.sketch)

    @property
    def needs(self) -> Needs:
        """Take the updates (or sketches) of the cohort and of newcomers; read sizes, if weights follow the data."""
        return Needs(
            reads=("sizes",) if self.weights == "data" else (),
            asks=(self.signal,),
            reports=(self.signal,),
        )

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Start without any update."""
        if self.units == "relative" and self.epsilon > 1:
            raise bad("LongFed.epsilon", "a quantile ≤ 1", self.epsilon, 'units = "absolute" takes distances.')
        return Memory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Follow Algorithm 2, lines 5 to 9."""
        available = round.available
        keeps_pairs = make_room(state, self.exact_up_to, unknown=np.nan)
        if keeps_pairs and state.rounds == 0 and self.first == "everyone":
            return self._cohort(available, self._mass(round, available), full=True)
        askable = available
        if not keeps_pairs:
            askable = np.sort(draw_uniformly(available, sample_size(self.sample, round.budget), round.rng))
        newcomers = askable[~state.has_update[askable]]
        if newcomers.size:
            updates = yield Measure(self.signal, newcomers)
            self._learn(state, updates)
        pool = available[state.has_update[available]]
        if pool.size == 0:
            state.reference = np.arange(state.n_clients)
            return Cohort.uniform(draw_uniformly(available, round.places, round.rng), notes={"known": 0})
        cover = self._cover(state, round, pool) if keeps_pairs else self._cover_sample(state, round, pool)
        unknown = available[~state.has_update[available]]
        substitutes = draw_uniformly(unknown, round.places - cover.ids.size, round.rng)
        return self._cohort(
            np.append(cover.ids, substitutes),
            np.append(cover.mass, self._mass(round, substitutes)),  # unknown clients stand for themselves
            notes={"known": int(np.count_nonzero(state.has_update)), **cover.note},
        )

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Advance the queues by eq. 13, and learn distances by eq. 5."""
        chosen = np.zeros(state.n_clients, bool)
        chosen[feedback.cohort.ids] = True
        if not feedback.cohort.full:  # in a round with everyone x_i − x_k = 0, and nobody has a reference yet
            state.z, state.q = advance_queues(
                state.z, state.q, chosen=chosen, reference=state.reference, delta=self.delta
            )
        state.chosen += chosen
        state.rounds += 1
        self._learn(state, feedback.report(self.signal))

    # -- selection, Algorithm 1 ------------------------------------------------------------------------------------

    def _cover(self, state: Memory, round: Round, pool: Ids) -> Cover:
        """Choose, of all known available clients, those that cover all known clients."""
        known_ids = np.flatnonzero(state.has_update)
        distance = self._distances(state, known_ids)
        price = self._price(state, known_ids, distance)
        mass = self._mass(round, known_ids)
        table = distance[np.searchsorted(known_ids, pool)]
        picks = greedy_cover(table, round.budget, price=price[pool], mass=None if self.weights == "count" else mass)
        chosen = pool[picks]
        note: picture_notes.Note = {}
        if picture_notes.is_due(round):
            representatives = chosen[nearest_chosen(table[picks])]
            note = picture_notes.coverage_note(round, known_ids, distance, chosen=chosen, by=representatives)
        return Cover(chosen, represented_mass(table[picks], mass), note)

    def _cover_sample(self, state: Memory, round: Round, pool: Ids) -> Cover:
        """Choose clients that cover a sample of the known ones, where there are more than ``exact_up_to``.

        They are chosen among some candidates first; then everybody in the pool may take the place of a chosen one.
        """
        known_ids = np.flatnonzero(state.has_update)
        size = sample_size(self.sample, round.budget)
        references = np.sort(draw_uniformly(known_ids, size, round.rng))
        candidates = np.sort(draw_uniformly(pool, size, round.rng))
        ever_chosen = np.flatnonzero(state.has_update & (state.chosen > 0))
        most_chosen = ever_chosen[np.argsort(-state.chosen[ever_chosen], kind="stable")[:size]]  # to be held back
        compared = np.unique(np.concatenate([references, candidates, most_chosen]))
        mass = self._mass(round, references) * (known_ids.size / references.size)
        ids = sampled_cover(
            rows=state.rows,
            pool=pool,
            candidates=candidates,
            references=references,
            k=round.budget,
            mass=mass,
            price=self._price(state, compared, pairwise_distances(state.rows[compared])),
        )
        return Cover(ids, represented_mass(distances_between(state.rows[ids], state.rows[references]), mass), {})

    def _price(self, state: Memory, ids: Ids, distance: Floats) -> Floats:
        """Return λ · pull (N,), with this round's reference clients sought among ``ids``."""
        n_known = int(state.has_update.sum())
        if self.units == "absolute":
            state.epsilon = self.epsilon
        elif ids.size > 1 and n_known >= 2 * state.judged:
            off_diagonal = distance[~np.eye(ids.size, dtype=bool)]
            state.epsilon = float(np.quantile(off_diagonal, self.epsilon))
            state.scale = float(off_diagonal.mean())
            state.judged = n_known
        state.reference = np.arange(state.n_clients)
        state.reference[ids] = ids[reference_clients(distance, state.chosen[ids], state.epsilon)]
        return self.trade_off * state.scale * pulls(state.z, state.q, state.reference)

    def _mass(self, round: Round, ids: Ids) -> Floats:
        """Return how much each client's own update counts in full participation, 1 on average."""
        if self.weights == "count":
            return np.ones(ids.size)
        sizes = np.asarray(round.population.sizes, np.float64)
        mean_size = sizes[round.population.known_ids].mean()
        return np.asarray(sizes[ids] / max(mean_size, 1e-300))

    @staticmethod
    def _cohort(ids: Ids, mass: Floats, *, full: bool = False, notes: picture_notes.Note | None = None) -> Cohort:
        """Weigh clients by their mass; equally, where all have none."""
        total = mass.sum()
        if total > 0:
            return Cohort(ids, mass / total, full=full, notes=notes or {})
        return Cohort.uniform(ids, full=full, notes=notes or {})

    # -- what is known of updates ----------------------------------------------------------------------------------

    def _learn(self, state: Memory, reading: Reading) -> None:
        """Store the updates of those who answered, and the distances of all their pairs (eq. 5)."""
        if not len(reading):
            return
        vectors = reading.values.reshape(len(reading), -1)
        if self.gradient == "unit":
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        # sketched to BRIDGE_WIDTH also on the way to SHORT_WIDTH, so that one federation's sketches compare
        bridge = shorten_rows(vectors, BRIDGE_WIDTH)
        if state.distance is not None:
            state.distance[np.ix_(reading.ids, reading.ids)] = pairwise_distances(vectors)
        width = SHORT_WIDTH if state.distance is None else BRIDGE_WIDTH
        state.rows = store_rows(state.rows, reading.ids, bridge, width)
        state.has_update[reading.ids] = True

    @staticmethod
    def _distances(state: Memory, known_ids: Ids) -> Floats:
        """Return d_ij of the known clients; of pairs that never trained together, from their last updates."""
        if state.distance is None:
            raise RuntimeError("the table is kept up to exact_up_to clients")
        table = state.distance[np.ix_(known_ids, known_ids)]
        unknown = np.isnan(table)
        if unknown.any():
            table[unknown] = pairwise_distances(state.rows[known_ids])[unknown]
        return table

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all variants, and the form for many clients."""
        return [
            {},
            {"gradient": "sum", "weights": "count", "first": "ask"},
            {"gradient": "unit", "units": "absolute", "epsilon": 1.0, "trade_off": 2.0, "delta": 0.1, "sketch": 8},
            {"exact_up_to": 0, "sample": 12},
        ]


def reference_clients(distance: Floats, chosen: Floats, epsilon: float) -> Ids:
    """Return positions k_i = argmax_{j: d_ij ≤ ε} |p_i − p_j| (eq. 19); ties go to the lowest, so i may be its own.

    ``chosen`` counts rounds: p is that over t, which changes no argmax but would let rounding break ties.
    """
    gap = np.abs(chosen[:, None] - chosen)
    gap[distance > epsilon * (1 + TIE_TOLERANCE)] = -1.0  # ε is often one of the distances
    return np.asarray(np.argmax(gap, axis=1), np.int64)


def pulls(z: Floats, q: Floats, reference: Ids) -> Floats:
    """Return what choosing c adds to Σ_i (Z_i y_i + Q_i z_i) of eq. 23.

    It is (Z − Q)_c less that of all clients whose reference is c.
    """
    push = z - q
    return np.asarray(push - np.bincount(reference, weights=push, minlength=push.size))


def advance_queues(z: Floats, q: Floats, chosen: Array, reference: Ids, delta: float) -> tuple[Floats, Floats]:
    """Return Z and Q after a round (eq. 13).

    Z grows where i was chosen and its reference was not, Q the other way round; both shrink by δ.
    """
    ahead = chosen.astype(np.float64) - chosen[reference]  # x_i − x_k
    return np.maximum(z + ahead - delta, 0.0), np.maximum(q - ahead - delta, 0.0)
