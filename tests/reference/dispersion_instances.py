"""Instances of FedGS's problem (eq. 16): distances of graphs of label counts, or random ones, and small counts."""

import numpy as np

from sortition.data.synthetic import synthetic
from sortition.selectors.fedgs import graph

FAMILIES = ("random", "two labels", "dirichlet")


def instance(family, n, places, seed, alpha=1.0):
    """(gain (n,), distance (n, n), weight): counts that vary by a few, the released normalisation and edges."""
    rng = np.random.default_rng([seed, n, places])
    if family == "random":
        half = rng.random((n, n))
        distance = (half + half.T) / 2
        np.fill_diagonal(distance, 0.0)
    else:
        if family == "dirichlet":
            rows = rng.dirichlet(np.full(10, 0.3), n)
        elif family == "synthetic":  # the models of the clients of FedGS's Table 2
            rows = synthetic(clients=n).features
        else:
            rows = np.zeros((n, 10))
            for k in range(n):
                rows[k, rng.choice(10, 2, replace=False)] = 300
        single, unit = np.ones(n, int), graph.scale_to_unit(rows)
        similarity = unit @ unit.T
        V = graph.normalise(similarity, *graph.extremes(similarity, single, "released", clip=True))
        distance = graph.path_distances(graph.lengths(V, "released", 0.01, 0.1), single)
    counts = rng.poisson(3.0, n)
    z = 2 * (counts - counts.mean() - places / n) + 1
    return -z / (n - 1), distance, 2 * alpha / (places * (places - 1))
