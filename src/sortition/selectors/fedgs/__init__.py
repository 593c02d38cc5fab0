"""FedGS: Wang et al. 2023, *FedGS: federated graph-based sampling with arbitrary client availability*.

| paper | here |
|---|---|
| u_k, features of a client (eq. 10) | ``graph``: label counts, given features, updates, responses to noise, products |
| f_sim, V, R, ε, σ² | ``similarity``, ``edges``, ``epsilon``, ``sigma2``: ``graph.Edges`` |
| H, shortest paths (Floyd–Warshall) | ``distances``; ``state.distance`` between the kinds ``state.kind`` of clients |
| v, sampling counts; z_k = 2(v_k − v̄ − M/N) + 1 | ``state.counts``; :func:`costs` |
| α s'Hs/(N(N−1)) − z's/(N−1) (eq. 14, 16) | ``alpha``, ``normalisation="population"``; ``disperse`` |
| τ_max, the solver's time | ``time_limit`` |
| Σ_S n_k θ_k / Σ_S n_k (eq. 18) | ``Cohort.by_size`` |

Deviations:
- The weight of distances is α·2/(M'(M'−1)), the mean over the selected pairs, as released and as Table 2's α needs; the
  paper's 2α/(N(N−1)) is ``normalisation="population"``. Edges are the released ones; the paper's are ``edges="paper"``.
- H is scaled to [0, 1], 1 between clients that no path joins (released). Ties are drawn at random, as eq. 19 assumes.
- The paper assumes that all clients are available at the start. Here a client that is met later is asked then; one that
  never answered is at distance 1 from everybody.
- Beyond ``exact_up_to`` different feature rows paths lead through ``nodes`` sampled clients (``sampled_graph``),
  and the solver chooses among a shortlist: the most remote and least often chosen of all clients, and of every region.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    PRODUCTS,
    UPDATE,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
    per_pair,
    probe,
    shared,
)
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.pair_products import store_products, without_products
from sortition.selectors.fedgs.dispersion import disperse
from sortition.selectors.fedgs.distinct_rows import row_kinds
from sortition.selectors.fedgs.graph import Edges, cosines
from sortition.selectors.fedgs.landmarks import shortlist
from sortition.selectors.fedgs.sampled_graph import SampledGraph

FACTS = {"labels": "label_counts", "features": "features"}
CHUNK = 65_536  # clients that are placed together
Number = Annotated[float, Field(ge=0)]


@dataclass
class Memory(State):
    """Sampling counts, each client's kind (−1: not met), what it sent, and H of kinds.

    Beyond ``exact_up_to`` a kind is a region around a landmark, and there are: how remote each client is, and the map's
    nodes, table and frame (``sampled_graph``).
    """

    counts: Ids = per_client(0, dtype=np.int64)
    kind: Ids = per_client(-1, dtype=np.int64)
    remote: Floats = per_client(1.0, dtype=np.float32)
    features: Floats = per_client(np.nan, dtype=np.float32, width=0)
    distance: Floats | None = shared()
    nodes: Any = shared()
    table: Any = shared()
    frame: Any = shared()


@dataclass
class PairMemory(Memory):
    """The same with the products of pairs (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@method
class FedGS(Selector[Memory]):
    """Clients far apart in their data, each equally often: distances on a graph of clients against sampling counts.

    Attributes:
        alpha: weight of distance against balanced counts; 0 takes the least often chosen.
        graph: what clients are compared by: "labels" or "features" of the population, their "updates", their trained
            models' response to noise ("probe"), or "secure" products of label counts (no security control).
        similarity: "cosine" (released) or "dot" (paper).
        edges: how similarities become edges, "released" or "paper".
        epsilon: similarity that makes an edge; None for 0.01 (released) or 0.1 (paper).
        sigma2: scale of edge lengths; None for 0.1 (released) or 0.01 (paper).
        normalisation: α times the mean distance of the "selected" (released), or over N(N − 1) of the "population".
        noise_size: of "probe", how many numbers an input has.
        noise_mean: of "probe", mean of the server's validation inputs: one number, or one for each of an input's.
        noise_scale: of "probe", their standard deviation.
        sketch: of "updates", numbers that a client projects its update to; None for all of it.
        time_limit: seconds that the solver may take, τ_max.
        exact_up_to: different feature rows up to which each is a node of its own.
        nodes: clients that paths lead through beyond that.
        shortlist: clients the solver then chooses among (≥ 6 M).
    """

    alpha: Number = 1.0
    graph: Literal["labels", "features", "updates", "probe", "secure"] = "labels"
    similarity: Literal["cosine", "dot"] = "cosine"
    edges: Literal["released", "paper"] = "released"
    epsilon: Number | None = None
    sigma2: Annotated[float, Field(gt=0)] | None = None
    normalisation: Literal["selected", "population"] = "selected"
    noise_size: Annotated[int, Field(ge=1)] = 784
    noise_mean: float | Annotated[tuple[float, ...], Field(strict=False)] = 0.0
    noise_scale: Number | Annotated[tuple[Number, ...], Field(strict=False)] = 1.0
    sketch: Annotated[int, Field(ge=1)] | None = 4096
    time_limit: Annotated[float, Field(gt=0)] = 5.0
    exact_up_to: Annotated[int, Field(ge=1)] = 1000
    nodes: Annotated[int, Field(ge=2)] = 5000
    shortlist: Annotated[int, Field(ge=2)] = 800

    memory = Memory
    cite = """@inproceedings{wang2023fedgs,
  title = {{FedGS}: Federated Graph-Based Sampling with Arbitrary Client Availability},
  author = {Wang, Zheng and Fan, Xiaoliang and Qi, Jianzhong and Jin, Haibing and Yang, Peizhen and Shen, Siqi
            and Wang, Cheng},
  booktitle = {AAAI}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes, and what the graph is made of."""
        if self.graph in FACTS:
            return Needs(reads=("sizes", FACTS[self.graph]))
        return Needs(reads=("sizes",), asks=(self.signal,))

    @property
    def signal(self) -> Signal:
        """What clients that were not met before are asked for."""
        if self.graph == "secure":
            return PRODUCTS
        if self.graph == "updates":
            return UPDATE if self.sketch is None else UPDATE.sketch(self.sketch)
        moments = {"noise_mean": np.array(self.noise_mean), "noise_scale": np.array(self.noise_scale)}
        for name, moment in moments.items():
            if moment.size not in (1, self.noise_size):
                raise bad(f"FedGS.{name}", f"one number or noise_size = {self.noise_size}", f"{moment.size} numbers")
        return probe(*(np.full(self.noise_size, moment) for moment in moments.values()))  # type: ignore[arg-type]

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Nobody was chosen, nobody was met."""
        if self.graph != "secure":
            return Memory(n_clients)
        if n_clients > self.exact_up_to:
            raise bad("FedGS.graph", f"other than 'secure' beyond {self.exact_up_to} clients", f"{n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Lines 5 and 6 of Algorithm 1; lines 2 and 3 whenever somebody new is met."""
        unmet = round.available[state.kind[round.available] < 0]
        if isinstance(state, PairMemory):
            unmet = without_products(state.products, round.available)
            if unmet.size:
                self.draw_pairs(state, store_products(state.products, unmet, (yield Measure(self.signal, unmet))))
        elif unmet.size and self.graph in FACTS:
            self.draw(state, round, round.population.known)
        elif unmet.size and len(reading := (yield Measure(self.signal, unmet))):
            state.features = reading.scatter(state.features)
            self.draw(state, round, np.union1d(np.flatnonzero(state.kind >= 0), reading.ids))
        return self.choose(state, round)

    @property
    def rule(self) -> Edges:
        """From feature rows to distances (eq. 10 to 12)."""
        return Edges(self.similarity == "cosine", self.edges, self.epsilon, self.sigma2)

    def rows(self, state: Memory, round: Round, ids: Ids) -> Floats:
        """What these clients are compared by (n, d): their inner products are the similarities."""
        facts = getattr(round.population, FACTS[self.graph]) if self.graph in FACTS else state.features
        return self.rule.placed(facts[ids])

    def draw(self, state: Memory, round: Round, ids: Ids) -> None:
        """Lines 2 and 3: the graph of these clients; on a map, which holds for a while, where there are too many."""
        found = row_kinds(rows := self.rows(state, round, ids[:CHUNK]), self.exact_up_to)
        if found is not None and ids.size > CHUNK:  # the first are of few kinds: all may be
            found = row_kinds(rows := self.rows(state, round, ids), self.exact_up_to)
        if found is not None:
            state.table, (state.kind[ids], first) = None, found
            state.distance = padded(self.rule.distances(rows[first] @ rows[first].T, np.bincount(found[0])))
            return
        unplaced, sampled = ids[state.kind[ids] < 0], self.sampled(state)
        if sampled is None or not sampled.holds(ids.size):
            nodes = self.rows(state, round, uniformly(ids, self.nodes, round.rng))
            sampled, unplaced = SampledGraph.drawn(self.rule, nodes, ids.size, round.rng), ids
            state.nodes, state.table, state.frame, state.distance = sampled.nodes, sampled.table, sampled.frame, None
        for start in range(0, unplaced.size, CHUNK):
            part = unplaced[start : start + CHUNK]
            state.remote[part], state.kind[part] = sampled.places(self.rows(state, round, part))

    def sampled(self, state: Memory) -> SampledGraph | None:
        """The map in use beyond ``exact_up_to``."""
        return None if state.table is None else SampledGraph(self.rule, state.nodes, state.table, state.frame)

    def draw_pairs(self, state: PairMemory, met: Ids) -> None:
        """The same by products of pairs."""
        table = state.products[np.ix_(met, met)]
        table = cosines(table) if self.similarity == "cosine" else table
        state.kind[met] = np.arange(met.size)
        state.distance = padded(self.rule.distances(table, np.ones(met.size, np.int64)))

    def choose(self, state: Memory, round: Round) -> Cohort:
        """Eq. 16: the best min(M, |A_t|) of the available by distance and counts."""
        N, M = round.n_clients, round.places
        pairs = M * (M - 1) if self.normalisation == "selected" else N * (N - 1)
        weight = 2 * self.alpha / max(pairs, 1)
        ids = round.available
        gain = -costs(state.counts, ids, M) / max(N - 1, 1)
        if (sampled := self.sampled(state)) is not None:
            score = gain + weight * (M - 1) * state.remote[ids]  # what each would bring to an average cohort
            at = shortlist(score, state.kind[ids], max(self.shortlist, 6 * M), round.rng)
            ids, gain = ids[at], gain[at]
            row, distance = np.arange(ids.size), self.between(state, round, sampled, ids)
        else:
            row, distance = state.kind[ids], np.ones((1, 1)) if state.distance is None else state.distance
        found = disperse(row, gain, distance, weight, M, round.rng, time_limit=self.time_limit)
        block = distance[np.ix_(row[found.members], row[found.members])]
        mean = (block.sum() - np.trace(block)) / max(M * (M - 1), 1)
        notes: dict[str, Any] = {"distance": float(np.round(mean, 6)), "solver": found.how}
        at = picture_notes.spread_positions(ids.size)
        notes |= picture_notes.graph_note(round, ids[at], distance[np.ix_(row[at], row[at])])
        return Cohort.by_size(ids[found.members], round.population.sizes, notes=notes)

    def between(self, state: Memory, round: Round, sampled: SampledGraph, ids: Ids) -> Floats:
        """H of these clients (n, n) on the sampled graph; 1 from clients that never answered."""
        distance, met = np.ones((ids.size, ids.size)), np.flatnonzero(state.kind[ids] >= 0)
        distance[np.ix_(met, met)] = sampled.distances(self.rows(state, round, ids[met]))
        return distance

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Line 15: whoever was sampled counts, whether the update arrived or not."""
        state.counts[feedback.cohort.ids] += 1

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """All graphs, both edges and both normalisations."""
        return [
            {},
            {"graph": "features", "similarity": "dot", "edges": "paper", "normalisation": "population"},
            {"graph": "updates", "alpha": 2.0, "sketch": 64, "exact_up_to": 10, "nodes": 16, "shortlist": 12},
            {"graph": "probe", "edges": "paper", "epsilon": 0.5, "sigma2": 0.1, "noise_size": 4},
            {"graph": "secure", "similarity": "dot"},
        ]


def padded(H: Floats) -> Floats:
    """H with a last row for those who never answered."""
    return np.pad(H, (0, 1), constant_values=1.0)


def costs(counts: Ids, ids: Ids, places: int) -> Floats:
    """z_k = 2(v_k − v̄ − M/N) + 1 of these clients; v̄ is over all N (eq. 7, 14)."""
    return np.asarray(2 * (counts[ids] - counts.mean() - places / counts.size) + 1)
