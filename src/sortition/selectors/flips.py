"""FLIPS: Bhope et al. 2023, *Federated learning using intelligent participant selection*.

Clients are clustered once by their label histograms. Every round represents the clusters equally, and inside a cluster
the clients that were picked least often go first.

| paper | here |
|---|---|
| normalised label distribution of a client | ``label_shares(population.label_counts)`` |
| k-means with Euclidean distance | :func:`cluster` |
| k by the Davies–Bouldin index | ``clusters=None``: the lowest index of k = 2 … ``most``; else ``clusters`` |
| a min-heap of pick counts per cluster | ``state.picks`` and ``take_largest_unsorted`` |
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
from sortition.core.sampling import take_largest_unsorted
from sortition.selectors._parts import picture_notes
from sortition.selectors._parts.centres import count_distinct, nearest_centre, sample_rows
from sortition.selectors._parts.label_privacy import privacy_note, private_label_shares

RESTARTS = 4  # of k-means


@dataclass
class Memory(State):
    """Who belongs to which cluster (−1: not yet known), the centres, and how often each client was picked."""

    cluster: Ids = per_client(-1, dtype=int)
    picks: Ids = per_client(0, dtype=int)
    centres: Array | None = shared()  # (k, labels)
    index: float = shared(0.0)  # Davies–Bouldin index of the clusters


@method
class FLIPS(Selector[Memory]):
    """Gives clusters of label histograms equal places; inside a cluster the least picked clients go first.

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
        """Read sizes for the weights, and label counts once."""
        return Needs(reads=("sizes", "label_counts"))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Give the clusters equal places and fill them with the least picked clients."""
        centres = self._assign_clusters(state, round)
        k = len(centres)
        cluster_of = state.cluster[round.available]
        picks_of_cluster: Array = np.bincount(np.maximum(state.cluster, 0), weights=state.picks, minlength=k)
        quotas = _quotas(
            available=np.bincount(cluster_of, minlength=k),
            picks=picks_of_cluster.astype(np.int64),
            places=round.places,
        )
        chosen = []
        for c in np.flatnonzero(quotas):
            members = round.available[cluster_of == c]
            chosen.append(take_largest_unsorted(members, -state.picks[members], int(quotas[c])))
        ids = np.concatenate(chosen)
        state.picks[ids] += 1
        assigned = np.flatnonzero(state.cluster >= 0)
        notes: dict[str, Any] = {"clusters": k, "davies_bouldin": state.index}
        notes |= picture_notes.grouping_note(round, assigned, state.cluster[assigned])
        notes |= privacy_note(self.epsilon, self.noise, self.delta)
        return Cohort.by_size(ids, round.population.sizes, notes=notes)

    def _assign_clusters(self, state: Memory, round: Round) -> Array:
        """Find the cluster of clients that have none, and return the centres, which are made when first called."""
        known_ids = round.population.known_ids
        newcomers = known_ids[state.cluster[known_ids] < 0]
        if state.centres is None:
            clusters = cluster(
                self._histograms(round, newcomers),
                k=self.clusters,
                largest_k=self.most,
                rng=round.rng,
                sample=self.sample,
            )
            state.cluster[newcomers] = clusters.labels
            state.centres = clusters.centres
            state.index = clusters.index
        elif newcomers.size:
            state.cluster[newcomers] = nearest_centre(self._histograms(round, newcomers), state.centres)
        return state.centres

    def _histograms(self, round: Round, ids: Ids) -> Floats:
        """Return the label distributions of these clients, from counts with noise where ``epsilon`` is set."""
        return private_label_shares(
            round.population.label_counts[ids],
            epsilon=self.epsilon,
            mechanism=self.noise,
            delta=self.delta,
            rng=round.rng,
        )

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover a number of clusters that is chosen, one that is given, and both kinds of noise."""
        return [
            {"most": 4, "sample": 100},
            {"clusters": 4, "sample": 100, "epsilon": 1.0, "noise": "laplace"},
            {"clusters": 3, "sample": 100, "epsilon": 1.0, "noise": "gaussian", "delta": 1e-6},
        ]


def _quotas(available: Array, picks: Ids, places: int) -> Ids:
    """Return the places of each cluster (k,).

    Each place goes to the cluster with the fewest places in this round, then to the one with the fewest picks so far.

    Args:
        available: (k,) available members.
        picks: (k,) picks in earlier rounds.
        places: of the round.
    """
    quotas = np.zeros(len(available), np.int64)
    heap = [(0, int(picks[c]), c) for c in np.flatnonzero(available).tolist()]
    heapq.heapify(heap)
    for _ in range(places):
        places_of_cluster, picks_of_cluster, c = heapq.heappop(heap)
        quotas[c] += 1
        if quotas[c] < available[c]:
            heapq.heappush(heap, (places_of_cluster + 1, picks_of_cluster + 1, c))
    return quotas


@dataclass(frozen=True)
class Clusters:
    """Which cluster each row belongs to (n,), the centres (k, d), and the Davies–Bouldin index (0 for one cluster)."""

    labels: Ids
    centres: Floats
    index: float


def cluster(vectors: Floats, k: int | None, largest_k: int, rng: np.random.Generator, sample: int) -> Clusters:
    """Make ``k`` clusters, or the number from 2 to ``largest_k`` with the lowest Davies–Bouldin index.

    They are fitted on at most ``sample`` rows. There is one cluster where the rows do not differ. The index needs fewer
    clusters than rows.
    """
    rows = sample_rows(vectors, sample, rng)
    n_distinct = count_distinct(rows)
    seed = int(rng.integers(2**31))
    numbers = range(2, min(largest_k, n_distinct, len(rows) - 1) + 1)
    if k is not None:
        fixed = min(k, n_distinct)
        numbers = range(fixed, fixed + 1)

    centres_by_number = {number: _fit_centres(rows, number, seed) for number in numbers if number >= 2}
    if not centres_by_number:
        return Clusters(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    index_by_number = {number: _davies_bouldin(rows, centres) for number, centres in centres_by_number.items()}
    best = min(index_by_number, key=lambda number: (index_by_number[number], number))
    centres = centres_by_number[best]
    labels, centres = _number_by_lowest_client(nearest_centre(vectors, centres), centres)
    return Clusters(labels, centres, index_by_number[best])


def _fit_centres(rows: Floats, k: int, seed: int) -> Floats:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=RESTARTS, max_iter=300, random_state=seed).fit(rows).cluster_centers_)


def _davies_bouldin(rows: Floats, centres: Floats) -> float:
    """Return the index to nine digits, so that it does not depend on the order of a sum; ∞ where it is undefined."""
    from sklearn.metrics import davies_bouldin_score

    labels = nearest_centre(rows, centres)
    n_clusters = len(np.unique(labels))
    if not 2 <= n_clusters < len(rows):
        return float("inf")
    return round(float(davies_bouldin_score(rows, labels)), 9)


def _number_by_lowest_client(labels: Ids, centres: Floats) -> tuple[Ids, Floats]:
    """Return labels (n,) and centres (k, d) with the clusters numbered in the order of their lowest clients.

    So the numbers do not depend on how the clusters were found. A cluster without clients comes last.
    """
    lowest = np.full(len(centres), len(labels))
    np.minimum.at(lowest, labels, np.arange(len(labels)))
    order = np.argsort(lowest, kind="stable")
    new_label: Ids = np.empty(len(centres), np.int64)
    new_label[order] = np.arange(len(centres))
    return new_label[labels], centres[order]
