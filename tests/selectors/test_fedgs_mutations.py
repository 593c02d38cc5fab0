"""The comparisons with the literal twin can fail: each of these slips in the fast code is caught by them."""

from __future__ import annotations

from itertools import product

import pytest
from tests.mutations import slipped
from tests.selectors import test_fedgs
from tests.selectors.fedgs import test_dispersion

from sortition.selectors import fedgs
from sortition.selectors.fedgs import dispersion, graph

GRAPH = [
    ("lengths", "exponent = V * V", "exponent = V"),  # the paper's exponent in the released edges
    ("lengths", "np.greater_equal(V, epsilon)", "np.greater_equal(V, 0)"),  # ε is never read
    ("path_distances", "2 * between.min", "between.min"),  # half a detour between clients of one kind
    ("path_distances", "np.ma.masked_invalid(between)", "between"),  # short edges are lost
    ("extremes", "[np.isfinite(similarity)]", "[~np.eye(len(similarity), dtype=bool)]"),  # the diagonal does not count
]
METHOD = [
    (fedgs, "costs", "counts[ids] - counts.mean()", "-counts[ids]"),  # the most often chosen first
    (fedgs.FedGS, "choose", "M * (M - 1) if", "N * (N - 1) if"),  # the paper's weight in place of the released one
    (fedgs.FedGS, "observe", "+= 1", "= 1"),
]
SOLVER = [
    ("_exchange", " - self.pair[leaving]", ""),  # row sums are not maintained
    ("_swap", "sums[row, members] - diagonal[members]", "sums[row, members]"),  # a member is far from itself
    ("_swap", " - self.pair[members]", " - 0 * self.pair[members]"),  # the pair that is torn apart still counts
]


def ids(slips):
    return [f"{slip[-3]}-{i}" for i, slip in enumerate(slips)]


@pytest.mark.parametrize(("name", "right", "wrong"), GRAPH, ids=ids(GRAPH))
def test_a_slip_in_the_graph_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(graph, name, slipped(getattr(graph, name), right, wrong))
    variants = product(range(3), ("cosine", "dot"), ("released", "paper"), ("labels", "features"), (None, 0.9))
    assert any(test_fedgs.graph_differs(*variant) for variant in variants)


@pytest.mark.parametrize(("owner", "name", "right", "wrong"), METHOD, ids=ids(METHOD))
def test_a_slip_in_the_method_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(test_fedgs.differs(seed, {"alpha": 3.0}, n=12, M=4) for seed in range(4))


@pytest.mark.parametrize(("name", "right", "wrong"), SOLVER, ids=ids(SOLVER))
def test_a_slip_in_the_solver_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(dispersion.Search, name, slipped(getattr(dispersion.Search, name), right, wrong))
    assert any(test_dispersion.improvable(seed) for seed in range(12))
