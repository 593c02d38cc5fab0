import numpy as np
import pytest

from sortition.reproduction.theory.enumeration import EveryOutcome
from sortition.reproduction.theory.graph_distance import (
    cone_share,
    exact_weights,
    expected_weights,
    mean_distance,
    update_errors,
)


def test_distance_of_clients_with_one_label_each_and_of_equal_ones():
    assert mean_distance(np.eye(3)) == pytest.approx(2.0)
    assert mean_distance(np.ones((3, 3)) / 3) == pytest.approx(0.0)


def test_distance_is_the_mean_over_pairs():
    shares = np.random.default_rng(0).dirichlet(np.ones(4), 3)
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    pairs = [np.sum((unit[i] - unit[j]) ** 2) for i in range(3) for j in range(3) if i != j]
    assert mean_distance(shares) == pytest.approx(np.mean(pairs))


def test_one_label_each_makes_up_every_mixture():
    mixtures = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    assert cone_share(np.eye(3), mixtures) == 1.0
    narrow = 0.9 * np.full((3, 3), 1 / 3) + 0.1 * np.eye(3)
    assert 0 < cone_share(narrow, mixtures) < 0.2


def test_exact_weights_are_those_of_an_enumeration():
    sizes, draws, total = np.array([10.0, 20.0, 70.0, 5.0]), EveryOutcome(), np.zeros(4)
    for _ in draws.outcomes():
        ids = draws.choice(4, size=2, replace=False)
        total[ids] += draws.chance * sizes[ids] / sizes[ids].sum()
    assert exact_weights(sizes, 2) == pytest.approx(total)


def test_the_formula_is_exact_for_equal_sizes_for_one_and_for_all():
    sizes = np.array([10.0, 20.0, 70.0, 5.0])
    for budget in (1, 4):
        assert expected_weights(sizes, budget) == pytest.approx(exact_weights(sizes, budget))
    assert expected_weights(np.full(4, 7.0), 2) == pytest.approx(np.full(4, 0.25))
    assert not np.allclose(expected_weights(sizes, 2), exact_weights(sizes, 2), rtol=0.01)


def test_update_errors_by_hand():
    gradients = np.array([[2.0, 0.0], [0.0, 1.0]])
    best, alike = update_errors(np.eye(2), [0.75, 0.25], gradients)  # full: (1.5, 0.25); alike: (1, 0.5)
    assert best == pytest.approx(0, abs=1e-12)
    assert alike == pytest.approx(np.hypot(0.5, 0.25) / np.hypot(1.5, 0.25))
    best, alike = update_errors([[1.0, 0.0], [1.0, 0.0]], [0.5, 0.5], gradients)  # nobody has the second type
    assert best == pytest.approx(0.5 / np.hypot(1.0, 0.5))
    assert alike > best
