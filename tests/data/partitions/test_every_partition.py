"""What holds for all partitions, found by name: a new file is tested without an edit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core.errors import InputError
from sortition.core.streams import stream
from sortition.data.partitions import discover, rule, split

ALPHAS = st.floats(-3, 2).map(lambda power: 10.0**power)  # 0.001 … 100
PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "dirichlet": st.fixed_dictionaries({"alpha": ALPHAS, "per_label": st.booleans()}),
    "dirichlet-qp": st.fixed_dictionaries({"alpha": ALPHAS, "redraws": st.integers(0, 3)}),
    "dirichlet-sizes": st.fixed_dictionaries({"alpha": ALPHAS, "sigma": st.floats(0, 3)}),
    "dirichlet-blocks": st.fixed_dictionaries({"alphas": st.lists(ALPHAS, min_size=1, max_size=4)}),
    "labels": st.fixed_dictionaries({"per_client": st.integers(1, 4)}),
    "shards": st.fixed_dictionaries({"per_client": st.integers(1, 4)}),
    "mixed": st.fixed_dictionaries({"ratio": st.floats(0, 1), "blocks": st.integers(1, 3)}),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, np.ndarray, int, int, dict[str, Any]]:
    name = draw(st.sampled_from(discover()))
    n = draw(st.integers(1, 300))
    labels = stream(draw(st.integers(0, 99)), "labels").integers(0, draw(st.integers(1, 12)), n)
    clients = draw(st.integers(1, min(n, 60)))
    return name, labels, clients, draw(st.integers(0, 99)), draw(PARAMETERS.get(name, st.just({})))


@given(cases())
def test_every_example_is_given_once_and_seeds_repeat(case: tuple[str, np.ndarray, int, int, dict[str, Any]]) -> None:
    name, labels, clients, seed, parameters = case
    try:
        partition = split(name, labels, clients, stream(seed, "split"), **parameters)
    except InputError:  # only where the demand cannot be met
        assert name in ("labels", "shards", "mixed", "dirichlet-blocks")
        return
    assert len(partition) == clients
    assert sorted(np.concatenate(partition.indices)) == list(range(len(labels)))
    assert partition.sizes.min() >= 1
    assert partition.digest == split(name, labels, clients, stream(seed, "split"), **parameters).digest


@pytest.mark.parametrize("name", discover())
def test_seeds_differ_and_labels_need_not_be_dense(name: str) -> None:
    labels = np.repeat([3, 7, 20], 40)  # labels without examples play no part
    first, second = (split(name, labels, 6, stream(seed, "split")) for seed in (0, 1))
    assert first.digest != second.digest
    assert first.label_counts(labels, 21).sum(axis=0)[[3, 7, 20]].tolist() == [40, 40, 40]


@pytest.mark.parametrize("alpha", [0.001, 0.01, 1.0])
@pytest.mark.parametrize("name", ["dirichlet", "dirichlet-qp", "dirichlet-sizes", "dirichlet-blocks"])
@pytest.mark.parametrize("clients", [1, 2, 500])
def test_small_alpha_terminates(name: str, alpha: float, clients: int) -> None:
    """A known defect elsewhere: redrawing for ever at small α."""
    parameters = {"alphas": [alpha]} if name == "dirichlet-blocks" else {"alpha": alpha}
    assert split(name, np.arange(5000) % 10, clients, stream(0, "split"), **parameters).sizes.sum() == 5000


@pytest.mark.parametrize(
    ("name", "labels", "clients", "parameters", "message"),
    [
        ("iid", [0, 1], 3, {}, "partition.clients must be at most 2"),
        ("iid", [0, 1], 0, {}, "partition.clients must be a whole number ≥ 1; got 0."),
        ("iid", [], 1, {}, "partition.labels must be a non-empty list"),
        ("iid", [0.5], 1, {}, "partition.labels"),
        ("iid", [0], 1, {"alpha": 1}, "Unknown key 'alpha'"),
        ("dirichlet", [0], 1, {"alpha": 0.0}, "partition dirichlet.alpha must be > 0"),
        ("dirichlet", [0], 1, {"alpha": float("nan")}, "finite"),
        ("dirichlet", [0], 1, {"alpha": "much"}, "a number"),
        ("dirichlet-qp", [0], 1, {"alpha": -1.0}, "> 0"),
        ("dirichlet-sizes", [0], 1, {"sigma": -1.0}, "≥ 0"),
        ("dirichlet-blocks", [0, 1], 2, {"alphas": [0.1, 0.0]}, "alphas must be > 0"),
        ("dirichlet-blocks", [0, 1], 1, {"alphas": [0.1, 0.2]}, "at most 1 values"),
        ("dirichlet-blocks", [0], 1, {"alphas": []}, "at least 1"),
        ("mixed", [0], 1, {"ratio": 1.5}, "partition mixed.ratio must be ≤ 1"),
        ("mixed", [0, 1, 0, 1], 2, {"ratio": 0.5, "blocks": 2}, "mixed.blocks must be at most 1"),
        ("shards", [0, 1, 2], 2, {"per_client": 2}, "shards.per_client must be at most 1"),
        ("shards", [0], 1, {"per_cleint": 2}, "Did you mean 'per_client'"),
        ("labels", [0, 1], 1, {"per_client": 3}, "at most 2, the labels that occur"),
        ("labels", [0, 1, 2], 2, {"per_client": 1}, "at least 2, or labels are lost"),
        ("labels", [0, 0, 0, 0, 1], 4, {"per_client": 2}, "The rarest label has 1"),
        ("shard", [0], 1, {}, "Unknown partition 'shard'.*Did you mean 'shards'"),
    ],
)
def test_mistakes(name: str, labels: list[float], clients: int, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(name, np.asarray(labels), clients, stream(0, "split"), **parameters)


def test_names() -> None:
    assert discover() == [
        *("dirichlet", "dirichlet-blocks", "dirichlet-qp", "dirichlet-sizes", "iid", "labels", "mixed", "shards"),
    ]
    assert rule("dirichlet_qp").model_dump() == {"alpha": 0.2, "redraws": 20}


def test_empty_clients_take_from_the_largest_and_it_is_told() -> None:
    # one label, α tiny: all in one block goes to few clients
    partition = split("dirichlet-blocks", np.zeros(100, int), 20, stream(0, "split"), alphas=[0.001])
    assert partition.sizes.min() == 1
    assert any("left empty" in note for note in partition.notes)
