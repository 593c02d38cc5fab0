"""FLIPS: Bhope et al. 2023, *Federated learning using intelligent participant selection*.

Clients are clustered once by their label histograms. Every round represents the clusters equally, and inside a cluster
the clients that were picked least often go first.

| paper | here |
|---|---|
| normalised label distribution of a client | ``label_shares(population.label_counts)`` |
| k-means with Euclidean distance | ``cluster`` |
| k by the Davies–Bouldin index | ``clusters=None``: the lowest index of k = 2 … ``most``; else ``clusters`` |
| a min-heap of pick counts per cluster | ``state.picks`` and ``leading`` |
| equal representation of clusters in a round | ``_quotas`` |
| aggregation of the base algorithm | weights n_k / Σ_S n_k |

Deviations: the histograms enter a trusted execution environment in the paper; here the server sees them, or, with
``epsilon``, their noised counts. The paper averages the index over repeated runs and looks for an elbow; here each k
has one fit of four restarts and the lowest index wins. With fewer places than clusters, the clusters picked least so
far are served, so all are served over ⌈k/m⌉ rounds. Places of a cluster that has nobody available go to the others.
Ties go to the lowest id. Extra clients for stragglers are the driver's over-selection, not the selector's. Clients that
join later enter the cluster with the nearest centre. Beyond ``sample`` clients the clusters are fitted on a sample.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import leading
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.label_privacy import noisy_counts
from sortition.selectors._parts.shares import label_shares


@dataclass
class Memory(State):
    """Who belongs to which cluster (−1: not yet known), the centres, and how often each client was picked."""

    cluster: Ids = per_client(-1, dtype=int)
    picks: Ids = per_client(0, dtype=int)
    centres: Array | None = shared()  # (k, labels)
    index: float = shared(0.0)


@method
class FLIPS(Selector[Memory]):
    """Clusters of label histograms get equal places; inside a cluster the least picked clients go first.

    Attributes:
        clusters: k; None to choose it by the Davies–Bouldin index.
        most: the largest number of clusters that is tried.
        epsilon: differential privacy of the label counts in a study; clients of a federation add it themselves.
        noise: "laplace" (ε) or "gaussian" (ε, δ).
        delta: δ of the Gaussian mechanism.
        sample: clients on which clusters are fitted where there are more.
    """

    clusters: Annotated[int, Field(ge=1)] | None = None
    most: Annotated[int, Field(ge=1)] = 10
    epsilon: Annotated[float, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    sample: Annotated[int, Field(ge=10)] = 2000

    memory = Memory
    cite = """@inproceedings{bhope2023flips,
  title = {{FLIPS}: Federated Learning using Intelligent Participant Selection},
  author = {Bhope, Rahul Atul and Jayaram, K. R. and Venkatasubramanian, Nalini and Verma, Ashish and Thomas, Gegi},
  booktitle = {International Middleware Conference}, year = {2023}, note = {arXiv:2308.03901}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes for the weights, and label counts, once."""
        return Needs(reads=("sizes", "label_counts"))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Give the clusters equal places and fill them with the least picked clients."""
        self._enrol(state, round)
        here = state.cluster[round.available]
        k = 0 if state.centres is None else len(state.centres)
        total: Array = np.bincount(np.maximum(state.cluster, 0), weights=state.picks, minlength=k)
        quotas = _quotas(np.bincount(here, minlength=k), total.astype(np.int64), round.places)
        pools = [round.available[here == c] for c in np.flatnonzero(quotas)]
        chosen = [leading(pool, -state.picks[pool], int(q)) for pool, q in zip(pools, quotas[quotas > 0], strict=True)]
        ids = np.concatenate(chosen)
        state.picks[ids] += 1
        notes: dict[str, Any] = {"clusters": k, "davies_bouldin": state.index}
        known = np.flatnonzero(state.cluster >= 0)
        notes |= picture_notes.grouping_note(round, known, state.cluster[known])
        if self.epsilon is not None:
            notes |= {"epsilon": self.epsilon, "noise": self.noise}
            notes |= {"delta": self.delta} if self.noise == "gaussian" else {}
        return Cohort.by_size(ids, round.population.sizes, notes=notes)

    def _enrol(self, state: Memory, round: Round) -> None:
        """Make the clusters when first called, and find the cluster of clients that joined later."""
        known = round.population.known
        unmet = known[state.cluster[known] < 0]
        if not unmet.size:
            return
        vectors = self._histograms(round, unmet)
        if state.centres is None:
            made = cluster(vectors, self.clusters, self.most, round.rng, self.sample)
            state.cluster[unmet], state.centres, state.index = made.labels, made.centres, made.index
        else:
            state.cluster[unmet] = nearest(vectors, state.centres)

    def _histograms(self, round: Round, ids: Ids) -> Floats:
        counts = round.population.label_counts[ids]
        if self.epsilon is not None:
            counts = noisy_counts(counts, self.epsilon, self.noise, self.delta, round.rng)
        return label_shares(counts)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """A number of clusters that is chosen, one that is given, and both kinds of noise."""
        return [
            {"most": 4, "sample": 100},
            {"clusters": 4, "sample": 100, "epsilon": 1.0, "noise": "laplace"},
            {"clusters": 3, "sample": 100, "epsilon": 1.0, "noise": "gaussian", "delta": 1e-6},
        ]


def _quotas(available: Array, total: Ids, places: int) -> Ids:
    """Places of each cluster (k,): always to the cluster with the fewest in this round, then with the fewest so far."""
    quotas = np.zeros(len(available), np.int64)
    heap = [(0, int(total[c]), c) for c in np.flatnonzero(available).tolist()]
    heapq.heapify(heap)
    for _ in range(places):
        now, before, c = heapq.heappop(heap)
        quotas[c] += 1
        if quotas[c] < available[c]:
            heapq.heappush(heap, (now + 1, before + 1, c))
    return quotas


RESTARTS = 4


@dataclass(frozen=True)
class Clusters:
    """Which cluster each row belongs to (n,), the centres (k, d), and the index of the choice (0 for one cluster)."""

    labels: Ids
    centres: Floats
    index: float


def cluster(vectors: Floats, k: int | None, most: int, rng: np.random.Generator, sample: int) -> Clusters:
    """``k`` clusters, or the number from 2 to ``most`` with the lowest index, fitted on at most ``sample`` rows.

    One cluster where the rows do not differ. The index needs fewer clusters than rows.
    """
    rows = vectors if len(vectors) <= sample else vectors[np.sort(rng.choice(len(vectors), sample, replace=False))]
    distinct = len(np.unique(np.round(rows, 12), axis=0))
    seed = int(rng.integers(2**31))
    counts = range(2, min(most, distinct, len(rows) - 1) + 1) if k is None else [min(k, distinct)]
    fits = {count: _centres(rows, count, seed) for count in counts if count >= 2}
    if not fits:
        return Clusters(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    indices = {count: _index(rows, centres) for count, centres in fits.items()}
    best = min(indices, key=lambda count: (indices[count], count))
    labels, centres = _numbered(nearest(vectors, fits[best]), fits[best])
    return Clusters(labels, centres, indices[best])


def nearest(vectors: Floats, centres: Floats) -> Ids:
    """The cluster whose centre is nearest to each row; ties, to nine digits, go to the lower number."""
    squares = (centres**2).sum(axis=1) - 2.0 * vectors @ centres.T
    return np.asarray(np.round(squares, 9).argmin(axis=1), np.int64)


def _centres(rows: Floats, k: int, seed: int) -> Floats:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=RESTARTS, max_iter=300, random_state=seed).fit(rows).cluster_centers_)


def _index(rows: Floats, centres: Floats) -> float:
    """The Davies–Bouldin index, to nine digits, so that it does not depend on the order of a sum."""
    from sklearn.metrics import davies_bouldin_score

    labels = nearest(rows, centres)
    found = len(np.unique(labels))
    return round(float(davies_bouldin_score(rows, labels)), 9) if 2 <= found < len(rows) else float("inf")


def _numbered(labels: Ids, centres: Floats) -> tuple[Ids, Floats]:
    """The same clusters, numbered in the order of their lowest client; a cluster without clients comes last."""
    first = np.full(len(centres), len(labels))
    np.minimum.at(first, labels, np.arange(len(labels)))
    order = np.argsort(first, kind="stable")
    number: Array = np.empty(len(centres), np.int64)
    number[order] = np.arange(len(centres))
    return number[labels], centres[order]
