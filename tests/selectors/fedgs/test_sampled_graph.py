"""The map of very many clients: the exact distances where everybody is a node, and when it is drawn anew."""

import numpy as np

from sortition.core.sampling import draw_uniformly
from sortition.selectors.fedgs.graph import Edges
from sortition.selectors.fedgs.sampled_graph import SampledGraph

EDGES = Edges(cosine=True, kind="released")


def drawn(clients: int, nodes: int) -> tuple[np.ndarray, SampledGraph]:
    rng = np.random.default_rng(0)
    rows = EDGES.place_rows(rng.dirichlet(np.full(10, 0.3), clients))
    return rows, SampledGraph.of_nodes(EDGES, rows[draw_uniformly(np.arange(clients), nodes, rng)], clients, rng)


def test_where_everybody_is_a_node_and_a_landmark_distances_are_the_exact_ones():
    rows, sampled = drawn(150, 150)
    exact = EDGES.distances(rows @ rows.T, np.ones(150, int))
    found = sampled.distances(rows)
    assert (found >= exact - 1e-4).all()  # ways are upper bounds
    assert np.quantile(np.abs(found - exact), 0.99) < 1e-3


def test_remote_clients_are_remote_and_live_near_their_landmark():
    rows, sampled = drawn(150, 150)
    remote, home = sampled.locate(rows)
    exact = EDGES.distances(rows @ rows.T, np.ones(150, int))
    assert np.corrcoef(remote, exact.mean(axis=1))[0, 1] > 0.95
    assert ((home >= 0) & (home < sampled.table.shape[1])).all()


def test_a_map_holds_until_twice_as_many_were_met():
    _, sampled = drawn(60, 20)
    assert sampled.nodes.shape == (20, 10)
    assert sampled.is_large_enough(119)
    assert not sampled.is_large_enough(120)
