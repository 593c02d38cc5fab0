"""FedGS: Wang et al. 2023, *FedGS: federated graph-based sampling with arbitrary client availability*.

| paper | here |
|---|---|
| u_k, features of a client (eq. 10) | ``graph``: label counts, given features, updates, responses to noise, products |
| f_sim, V, R, ε, σ² | ``similarity``, ``edges``, ``epsilon``, ``sigma2``: ``graph.Edges`` |
| H, shortest paths (Floyd–Warshall) | ``path_distances``; ``state.distance`` of the kinds ``state.kind`` of clients |
| v, sampling counts; z_k = 2(v_k − v̄ − M/N) + 1 | ``state.counts``; :func:`costs` |
| α s'Hs/(N(N−1)) − z's/(N−1) (eq. 14, 16) | ``alpha``, ``normalisation="population"``; ``disperse`` |
| τ_max, the solver's time | ``time_limit`` |
| Σ_S n_k θ_k / Σ_S n_k (eq. 18) | ``Cohort.by_size`` |

Deviations:
- The weight of distances is α·2/(M'(M'−1)), the mean over the selected pairs, as released and as Table 2's α needs; the
  paper's 2α/(N(N−1)) is ``normalisation="population"``. Edges are the released ones; the paper's are ``edges="paper"``.
- H is scaled to [0, 1], 1 between clients that no path joins (released). Ties are drawn at random, as eq. 19 assumes.
- The paper assumes that all clients are available at the start. Here a client that comes later is asked then; one that
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
    make_probe,
    method,
    per_client,
    per_pair,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.pair_products import find_without_products, store_products
from sortition.selectors.fedgs.dispersion import disperse
from sortition.selectors.fedgs.distinct_rows import group_equal_rows
from sortition.selectors.fedgs.graph import Edges, cosines
from sortition.selectors.fedgs.landmarks import shortlist
from sortition.selectors.fedgs.sampled_graph import SampledGraph

FACT_OF_GRAPH = {"labels": "label_counts", "features": "features"}
CHUNK = 65_536  # clients that are placed together
Number = Annotated[float, Field(ge=0)]


@dataclass
class Memory(State):
    """Sampling counts, the kinds of clients, what they sent, and H of kinds.

    Beyond ``exact_up_to`` a kind is a region around a landmark, and nodes, table and frame are those of a
    ``SampledGraph``.
    """

    counts: Ids = per_client(0, dtype=np.int64)  # v
    kind: Ids = per_client(-1, dtype=np.int64)  # −1: not yet in the graph
    remote: Floats = per_client(1.0, dtype=np.float32)  # mean distance to the landmarks
    features: Floats = per_client(np.nan, dtype=np.float32, width=0)  # (N, d) what clients sent
    distance: Floats | None = shared()  # (C + 1, C + 1) H of kinds; the last row is of clients outside the graph
    nodes: Array | None = shared()
    table: Array | None = shared()
    frame: Array | None = shared()


@dataclass
class PairMemory(Memory):
    """What ``Memory`` holds, and the products of pairs (N, N); NaN where two clients never met."""

    products: Floats = per_pair(np.nan)


@dataclass(frozen=True)
class Candidates:
    """The clients among whom the solver chooses, and how far they are apart.

    Attributes:
        ids: (n,) the clients.
        gain: (n,) −z_k/(N − 1).
        row: (n,) each one's row of ``distance``.
        distance: (C, C) H.
    """

    ids: Ids
    gain: Floats
    row: Ids
    distance: Floats


@method
class FedGS(Selector[Memory]):
    """Chooses clients whose data are far apart, each equally often: distances on a graph against sampling counts.

    Attributes:
        alpha: weight of distance against balanced counts; 0 takes the least often chosen.
        graph: by what clients are compared: "labels" or "features" of the population, their "updates", their trained
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
        """Read the sizes, and read or ask for what the graph is made of."""
        if self.graph in FACT_OF_GRAPH:
            return Needs(reads=("sizes", FACT_OF_GRAPH[self.graph]))
        return Needs(reads=("sizes",), asks=(self.signal,))

    @property
    def signal(self) -> Signal:
        """The question to clients whose data for the graph are missing; unused where the graph is made of facts."""
        if self.graph == "secure":
            return PRODUCTS
        if self.graph == "updates" and self.sketch is None:
            return UPDATE
        if self.graph == "updates" and self.sketch is not None:
            return UPDATE.sketch(self.sketch)
        return make_probe(
            self._moment("noise_mean", self.noise_mean),
            self._moment("noise_scale", self.noise_scale),
        )

    def _moment(self, name: str, value: float | tuple[float, ...]) -> Floats:
        """Return a moment of the probe's noise, one for each of an input's numbers."""
        moment = np.array(value)
        if moment.size not in (1, self.noise_size):
            raise bad(f"FedGS.{name}", f"one number or noise_size = {self.noise_size}", f"{moment.size} numbers")
        return np.full(self.noise_size, moment)

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Start with no counts and no graph."""
        if self.graph != "secure":
            return Memory(n_clients)
        if n_clients > self.exact_up_to:
            raise bad("FedGS.graph", f"other than 'secure' beyond {self.exact_up_to} clients", f"{n_clients} clients")
        return PairMemory(n_clients)

    def select(self, state: Memory, round: Round) -> Asking:
        """Follow lines 5 and 6 of Algorithm 1; lines 2 and 3 whenever somebody new is available."""
        newcomers = round.available[state.kind[round.available] < 0]
        if isinstance(state, PairMemory):
            without_products = find_without_products(state.products, round.available)
            if without_products.size:
                answer = yield Measure(self.signal, without_products)
                self.build_graph_of_pairs(state, store_products(state.products, without_products, answer))
        elif newcomers.size and self.graph in FACT_OF_GRAPH:
            self.build_graph(state, round, round.population.known_ids)
        elif newcomers.size:
            reading = yield Measure(self.signal, newcomers)
            if len(reading):
                state.features = reading.scatter(state.features)
                self.build_graph(state, round, np.union1d(np.flatnonzero(state.kind >= 0), reading.ids))
        return self.choose(state, round)

    @property
    def rule(self) -> Edges:
        """How distances follow from feature rows (eq. 10 to 12)."""
        return Edges(
            cosine=self.similarity == "cosine",
            kind=self.edges,
            epsilon=self.epsilon,
            sigma2=self.sigma2,
        )

    def feature_rows(self, state: Memory, round: Round, ids: Ids) -> Floats:
        """Return the rows of these clients (n, d) whose inner products are their similarities."""
        if self.graph in FACT_OF_GRAPH:
            return self.rule.place_rows(getattr(round.population, FACT_OF_GRAPH[self.graph])[ids])
        return self.rule.place_rows(state.features[ids])

    def build_graph(self, state: Memory, round: Round, ids: Ids) -> None:
        """Build the graph of these clients (lines 2 and 3).

        Where they are of too many kinds, they are located on a sampled graph, which is used until twice as many clients
        are known.
        """
        rows = self.feature_rows(state, round, ids[:CHUNK])
        kinds = group_equal_rows(rows)
        if kinds.first_row.size <= self.exact_up_to and ids.size > CHUNK:  # the first are of few kinds: all may be
            rows = self.feature_rows(state, round, ids)
            kinds = group_equal_rows(rows)
        if kinds.first_row.size <= self.exact_up_to:
            nodes = rows[kinds.first_row]
            state.kind[ids] = kinds.of_row
            state.distance = pad_distances(self.rule.distances(nodes @ nodes.T, kinds.members))
            state.table = None
            return
        sampled = self._sampled_graph(state)
        if sampled is not None and sampled.is_large_enough(ids.size):
            self._locate(state, round, sampled, ids[state.kind[ids] < 0])
            return
        nodes = self.feature_rows(state, round, draw_uniformly(ids, self.nodes, round.rng))
        sampled = SampledGraph.of_nodes(self.rule, nodes, ids.size, round.rng)
        state.nodes = sampled.nodes
        state.table = sampled.table
        state.frame = sampled.frame
        state.distance = None
        self._locate(state, round, sampled, ids)

    def _locate(self, state: Memory, round: Round, sampled: SampledGraph, ids: Ids) -> None:
        """Find where these clients are on the sampled graph: how remote, and near which landmark."""
        for start in range(0, ids.size, CHUNK):
            part = ids[start : start + CHUNK]
            state.remote[part], state.kind[part] = sampled.locate(self.feature_rows(state, round, part))

    def _sampled_graph(self, state: Memory) -> SampledGraph | None:
        """Return the sampled graph, which is used beyond ``exact_up_to`` kinds; None where there is none."""
        if state.nodes is None or state.table is None or state.frame is None:
            return None
        return SampledGraph(edges=self.rule, nodes=state.nodes, table=state.table, frame=state.frame)

    def build_graph_of_pairs(self, state: PairMemory, ids: Ids) -> None:
        """Build the graph of these clients by products of pairs."""
        similarity = state.products[np.ix_(ids, ids)]
        if self.similarity == "cosine":
            similarity = cosines(similarity)
        state.kind[ids] = np.arange(ids.size)
        state.distance = pad_distances(self.rule.distances(similarity, np.ones(ids.size, np.int64)))

    def choose(self, state: Memory, round: Round) -> Cohort:
        """Choose the best min(M, |A_t|) of the available by distance and counts (eq. 16)."""
        N = round.n_clients
        M = round.places
        n_pairs = M * (M - 1) if self.normalisation == "selected" else N * (N - 1)
        weight = 2 * self.alpha / max(n_pairs, 1)
        candidates = self._candidates(state, round, weight)
        ids = candidates.ids
        row = candidates.row
        solution = disperse(
            kind=row,
            gain=candidates.gain,
            distance=candidates.distance,
            weight=weight,
            places=M,
            rng=round.rng,
            time_limit=self.time_limit,
        )
        chosen = row[solution.members]
        block = candidates.distance[np.ix_(chosen, chosen)]
        mean_distance = (block.sum() - np.trace(block)) / max(M * (M - 1), 1)
        notes: picture_notes.Note = {"distance": float(np.round(mean_distance, 6)), "solver": solution.solver}
        positions = picture_notes.spread_positions(ids.size)
        notes |= picture_notes.graph_note(
            round, ids[positions], candidates.distance[np.ix_(row[positions], row[positions])]
        )
        return Cohort.by_size(ids[solution.members], round.population.sizes, notes=notes)

    def _candidates(self, state: Memory, round: Round, weight: float) -> Candidates:
        """Return all available clients or, on a sampled graph, a shortlist of them."""
        ids = round.available
        M = round.places
        gain = -costs(state.counts, ids, M) / max(round.n_clients - 1, 1)
        sampled = self._sampled_graph(state)
        if sampled is None:
            distance = np.ones((1, 1)) if state.distance is None else state.distance
            return Candidates(ids=ids, gain=gain, row=state.kind[ids], distance=distance)
        score = gain + weight * (M - 1) * state.remote[ids]  # what each would bring to an average cohort
        best = shortlist(score, state.kind[ids], max(self.shortlist, 6 * M), round.rng)
        return Candidates(
            ids=ids[best],
            gain=gain[best],
            row=np.arange(best.size),
            distance=self._distances_between(state, round, sampled, ids[best]),
        )

    def _distances_between(self, state: Memory, round: Round, sampled: SampledGraph, ids: Ids) -> Floats:
        """Return H of these clients (n, n) on the sampled graph; 1 from clients that never answered."""
        distance = np.ones((ids.size, ids.size))
        placed = np.flatnonzero(state.kind[ids] >= 0)
        distance[np.ix_(placed, placed)] = sampled.distances(self.feature_rows(state, round, ids[placed]))
        return distance

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Count all who were sampled, whether their update arrived or not (line 15)."""
        state.counts[feedback.cohort.ids] += 1

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all graphs, both edges and both normalisations."""
        return [
            {},
            {"graph": "features", "similarity": "dot", "edges": "paper", "normalisation": "population"},
            {"graph": "updates", "alpha": 2.0, "sketch": 64, "exact_up_to": 10, "nodes": 16, "shortlist": 12},
            {"graph": "probe", "edges": "paper", "epsilon": 0.5, "sigma2": 0.1, "noise_size": 4},
            {"graph": "secure", "similarity": "dot"},
        ]


def pad_distances(H: Floats) -> Floats:
    """Return H with one more row and column, of ones, for clients that never answered."""
    return np.pad(H, (0, 1), constant_values=1.0)


def costs(counts: Ids, ids: Ids, places: int) -> Floats:
    """Return z_k = 2(v_k − v̄ − M/N) + 1 of these clients; v̄ is over all N (eq. 7, 14)."""
    return np.asarray(2 * (counts[ids] - counts.mean() - places / counts.size) + 1)
