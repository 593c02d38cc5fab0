from __future__ import annotations

import numpy as np
import pytest

from sortition.reproduction.context import Context
from sortition.reproduction.figures import fedgs, fedgs_graphs
from sortition.reproduction.preset import load_preset


def test_edges_are_scored_at_the_best_threshold():
    """Of 3 pairs, 2 are edges. V ≥ 0.05 finds one of them and nothing else: precision 1, recall ½, F1 ⅔.

    V ≥ 0 joins all: precision ⅔, recall 1, F1 0.8, which is more.
    """
    oracle = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]], bool)
    V = np.array([[1, 0.3, 0.0], [0.3, 1, 0.0], [0.0, 0.0, 1]])
    assert fedgs_graphs.best_f1(V, oracle) == pytest.approx([2 / 3, 1, 0.8, 0, 1, 2 / 3])
    V[0, 2] = V[2, 0] = 0.06  # now 0.05 finds both and only them
    assert fedgs_graphs.best_f1(V, oracle)[[0, 1, 2]] == pytest.approx([1, 1, 1])


def test_self_pairs_count_with_both_orders_as_in_the_released_code():
    """Of 9 entries 7 are edges, 3 of them on the diagonal; V ≥ 0.05 finds all but the pair (0, 2)."""
    oracle = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]], bool)
    V = np.array([[1, 0.3, 0.0], [0.3, 1, 0.0], [0.0, 0.0, 1]])
    precision, recall, f1, epsilon, predicted, true = fedgs_graphs.best_f1(V, oracle, self_pairs=True)
    assert (precision, recall, epsilon) == pytest.approx((7 / 9, 1, 0))  # F1 0.875; at 0.05 it would be 0.833
    assert f1 == pytest.approx(0.875)
    assert (predicted, true) == pytest.approx((1, 7 / 9))


def test_the_oracles_join_clients_that_share_a_label():
    counts = np.array([[5, 5, 0], [0, 5, 5], [9, 0, 0]])
    expected = [[True, True, True], [True, True, False], [True, False, True]]
    assert fedgs_graphs.cosine_edges(counts).tolist() == expected
    assert fedgs_graphs.share_edges(counts).tolist() == expected


def test_the_oracles_differ_where_shares_are_spread():
    """Twelve even labels: shares have the inner product 1/12, which is below 0.1; their cosine is 1."""
    even = np.full((2, 12), 3)
    assert not fedgs_graphs.share_edges(even).any()
    assert fedgs_graphs.cosine_edges(even).all()


def test_the_cosine_is_scored_at_every_threshold_and_number_of_steps(tmp_path):
    federation = {
        "data": {"name": "digits", "clients": 8, "partition": {"name": "shards", "per_client": 2}},
        "model": {"name": "mlp", "hidden": [8]},
        "local": {"steps": 2, "batch": 16, "lr": 0.1},
    }
    context = Context("x", tmp_path, None, None, None)
    text = fedgs_graphs.cosine_at_every_threshold(context, federation=federation, steps=[1, 3])
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith(("| 1 ", "| 3 "))]
    assert len(rows) == 2 * len(fedgs_graphs.SCANNED)
    scores = {steps: [row[2:] for row in rows if int(row[0]) == steps] for steps in (1, 3)}
    assert scores[1] != scores[3]  # a federation is shared by local rules; the updates must not be
    joining_all = float(text.split("has the F1 ")[1].split()[0].rstrip(".*"))
    for steps, epsilon, predicted, _precision, recall, f1 in rows:
        if float(epsilon) == 0:
            assert (float(predicted), float(recall)) == (100, 1), steps
            assert float(f1) == pytest.approx(joining_all, abs=1e-3)


def test_a_graph_falls_into_places_of_its_parts():
    joined = np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    place = fedgs_graphs.spectral_layout(joined)
    assert place.shape == (6, 2)
    assert np.ptp(place[:3, 0]) < abs(place[:3, 0].mean() - place[3:, 0].mean())


def test_without_runs_there_is_the_papers_table_alone(tmp_path):
    context = Context("x", tmp_path, None, None, None)
    assert "0.300" in fedgs.best_over_alpha(context, paper={"IDL": {"oracle": 0.3}})
    assert fedgs.counts(context, setting="IDL") == ""
    assert fedgs.partition(context) == ""


@pytest.mark.parametrize("name", ["fedgs-synthetic", "fedgs-fmnist", "fedgs-cifar10", "fedgs-graphs"])
def test_presets_are_whole(name):
    plan = load_preset(name).plan()
    methods = 15 if name == "fedgs-graphs" else 9
    settings = 3 if name == "fedgs-fmnist" else 5
    assert len(plan.runs) == methods * settings * 3
