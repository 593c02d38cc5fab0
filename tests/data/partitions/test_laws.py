"""Each partition has the law of its paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from sortition.core.streams import stream
from sortition.data.partitions import Partition, split
from sortition.data.partitions.dirichlet_qp import minimum_norm

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 600))  # a tenth of Fashion-MNIST


def counts(name: str, clients: int = 100, seed: int = 0, **parameters: object) -> np.ndarray:
    return split(name, LABELS, clients, stream(seed, "split"), **parameters).label_counts(LABELS, 10)


def test_iid() -> None:
    table = counts("iid", clients=7)
    assert sorted(table.sum(axis=1)) == [857] * 6 + [858]  # 6000 = 7 · 857 + 1
    # hypergeometric: mean 85.7, deviation √(857 · 0.1 · 0.9 · 6/7) ≈ 8.1
    assert np.abs(table - 85.7).max() < 5 * 8.1


@pytest.mark.parametrize("per_client", [1, 2])
def test_shards(per_client: int) -> None:
    table = counts("shards", per_client=per_client)  # a label is 600 = 10 or 20 whole shards of 60 or 30
    assert (table.sum(axis=1) == 60).all()
    assert set(np.unique(table)) <= ({0, 60} if per_client == 1 else {0, 30, 60})
    if per_client == 2:  # same label twice: each of 100 clients with chance 19/199
        assert 2 <= (table == 60).sum() <= 20


def test_labels() -> None:
    table = counts("labels", per_client=2)
    assert (np.count_nonzero(table, axis=1) == 2).all()
    assert (np.count_nonzero(table, axis=0) == 20).all()  # balanced: 100 · 2 / 10 holders each
    assert (table.sum(axis=1) == 60).all()


def test_labels_that_do_not_divide_differ_by_one_holder() -> None:
    table = counts("labels", clients=7, per_client=3)  # 21 places for 10 labels
    assert (np.count_nonzero(table, axis=1) == 3).all()
    assert sorted(np.count_nonzero(table, axis=0)) == [2] * 9 + [3]


def test_dirichlet_first_client_has_the_moments_of_its_mixture() -> None:
    """Two equal labels, α = 1: q ~ Beta(½, ½), mean ½, variance 1/8; drawing 50 adds E q(1−q)/50 = 1/400."""
    labels = np.arange(1000) % 2
    shares = [
        split("dirichlet", labels, 20, stream(s, "x"), alpha=1.0).label_counts(labels, 2)[0, 0] / 50 for s in range(400)
    ]
    assert abs(np.mean(shares) - 0.5) < 4 * np.sqrt(0.1275 / 400)
    assert abs(np.var(shares) - 0.1275) < 0.02


def test_dirichlet_extremes() -> None:
    assert np.median(np.count_nonzero(counts("dirichlet", alpha=0.001), axis=1)) == 1
    even = counts("dirichlet", alpha=1e6)  # multinomial: mean 6, deviation √5.4
    assert (even.sum(axis=1) == 60).all()
    assert abs(even[:50].std() - np.sqrt(5.4)) < 0.4
    # α per label is ten times as much in total: less skew
    assert np.count_nonzero(counts("dirichlet", alpha=0.3, per_label=True)) > np.count_nonzero(
        counts("dirichlet", alpha=0.3)
    )


@pytest.mark.parametrize("alpha", [0.05, 0.2, 5.0])
def test_quadratic_programme_is_solved(alpha: float) -> None:
    """Against an independent solver: NNLS of [√w (Qx − d); x] with a large weight w is the same programme."""
    rng = np.random.default_rng(1)
    Q = rng.dirichlet(np.full(6, alpha / 6), 40).T
    d = rng.dirichlet(np.full(6, 20.0))
    x = minimum_norm(Q, d)
    assert x is not None
    assert np.allclose(Q @ x, d, atol=1e-8)
    assert x.min() >= 0
    reference = nnls(np.vstack([1e4 * Q, np.eye(40)]), np.concatenate([1e4 * d, np.zeros(40)]))[0]
    assert np.allclose(x, reference, atol=1e-5)


def test_quadratic_programme_without_solution() -> None:
    assert minimum_norm(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.5])) is None  # nobody holds label 1
    assert minimum_norm(np.array([[0.9, 0.8], [0.1, 0.2]]), np.array([0.5, 0.5])) is None  # outside the cone


def test_dirichlet_qp_uses_all_and_follows_the_mixtures() -> None:
    partition = split("dirichlet-qp", LABELS, 100, stream(0, "split"), alpha=0.2)
    assert partition.notes == ()
    table = partition.label_counts(LABELS, 10)
    assert table.sum(axis=0).tolist() == [600] * 10
    main = np.sort(table, axis=1)[:, -1] / table.sum(axis=1)
    assert np.median(main) > 0.8  # total concentration 0.2: nearly one label each


def test_dirichlet_qp_without_a_fit_says_so() -> None:
    partition = split("dirichlet-qp", np.arange(100) % 10, 2, stream(0, "split"), alpha=0.001, redraws=2)
    assert "no sizes fit" in partition.notes[0]


def test_dirichlet_sizes_are_lognormal_and_mixtures_average_to_the_whole() -> None:
    table = counts("dirichlet-sizes", clients=150, alpha=1.75)
    logs = np.log(table.sum(axis=1))
    assert 0.8 < logs.std() < 1.2  # σ = 1; label shares blur it a little
    assert abs(np.mean(logs) - (np.log(6000 / 150) - 0.5)) < 0.35
    equal = counts("dirichlet-sizes", clients=20, alpha=1e6, sigma=0.0)
    assert np.abs(equal - 30).max() <= 2


def test_dirichlet_blocks() -> None:
    table = counts("dirichlet-blocks", clients=50, alphas=[0.001, 0.01, 0.1, 0.5, 100.0])
    blocks = table.reshape(5, 10, 10)
    assert (blocks.sum(axis=1) == 120).all()  # every block has a fifth of each label
    assert np.median(np.count_nonzero(blocks[0], axis=1)) == 1
    assert np.count_nonzero(blocks[4]) == 100
    assert blocks.sum(axis=2).min() >= 0.2 * 120 * 0.99  # redrawn until the smallest has a fifth of the mean


def test_mixed() -> None:
    table = counts("mixed", ratio=0.8)  # 12 balanced and 48 sorted examples each
    assert (table.sum(axis=1) == 60).all()
    main = np.sort(table, axis=1)[:, -2:].sum(axis=1)
    assert (main >= 48).all()
    assert (table.sum(axis=0) == 600).all()
    assert np.count_nonzero(counts("mixed", ratio=1.0), axis=1).max() <= 2
    assert np.count_nonzero(counts("mixed", ratio=0.0), axis=1).mean() > 9


def test_sizes_of_a_partition_are_those_of_its_parts() -> None:
    partition = Partition((np.array([3, 1]), np.array([0])))
    assert partition.sizes.tolist() == [2, 1]
