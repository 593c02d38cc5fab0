from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from sortition.core import InputError, Population
from sortition.reproduction.theory import bias
from sortition.reproduction.theory.stratification import bias_of_simple_sampling
from sortition.results.run_folder import Run
from sortition.selectors import load
from sortition.testing import QuadraticWorld
from sortition.testing.play import share_of


def subsets(members, size):
    return list(itertools.combinations(members, size))


def test_lemma_1_exactly_for_simple_random_sampling_and_any_budget():
    # ω = (0, 0, 1, 1), groups {0, 1} and {2, 3}; A^1 = 2, A^2 = 1: A = {0, 1, 2} or {0, 1, 3}, equally likely.
    # Lemma 1: (2/(2·3) − 1/4)·0 + (1/(2·3) − 1/4)·2 = −1/6, whatever S is (Remark 2)
    population, models = Population(np.full(4, 10), groups=[0, 0, 1, 1]), np.array([0.0, 0, 1, 1])
    sets = [(0.5, np.array([0, 1, 2])), (0.5, np.array([0, 1, 3]))]
    for budget in (1, 2, 3):
        weights = bias.expected_weights(load("uniform"), population, sets, budget)
        assert bias.bias(weights, np.full(4, 0.25), models) == pytest.approx(-1 / 6)
    assert bias_of_simple_sampling([0, 0, 1, 1], [0, 1, 2], models) == pytest.approx(-1 / 6)


def test_lemma_2_exactly_for_stratified_sampling():
    # 9 clients of equal size, groups of 4, 3 and 2; all A with A^k = (3, 1, 2), each equally likely
    groups = np.array([0] * 4 + [1] * 3 + [2] * 2)
    population = Population(np.full(9, 7), groups=groups)
    sets = [
        np.array(a + b + c) for a, b, c in itertools.product(subsets(range(4), 3), subsets(range(4, 7), 1), [(7, 8)])
    ]
    likely = [(1 / len(sets), s) for s in sets]
    for budget in (3, 4, 5, 6):
        weights = bias.expected_weights(load("fedss", by="groups"), population, likely, budget)
        assert weights == pytest.approx(np.full(9, 1 / 9), abs=1e-12)
    simple = bias.expected_weights(load("uniform"), population, likely, 4)
    lemma = [bias_of_simple_sampling(groups, sets[0], row) for row in np.eye(9)]
    assert simple - 1 / 9 == pytest.approx(np.array(lemma))  # Lemma 1 again, client by client
    assert np.abs(simple - 1 / 9).max() > 0.03


def test_the_exact_error_is_that_of_all_samples():
    # two of (0, 1, 5), equally likely: means 0.5, 2.5 and 3 around 2
    population, models = Population(np.full(3, 4)), np.array([[0.0], [1.0], [5.0]])
    found = bias.expected_error(load("uniform"), population, [(1.0, np.arange(3))], 2, models, np.array([2.0]))
    assert found == pytest.approx((1.5**2 + 0.5**2 + 1.0) / 3)


def test_unequal_sizes_make_a_ratio_estimator_with_a_small_bias():
    population = Population([10, 20, 60, 10], groups=[0, 0, 0, 1])
    weights = bias.expected_weights(load("fedss", by="groups"), population, [(1.0, np.arange(4))], 3)
    assert weights.sum() == pytest.approx(1)
    assert weights[3] == pytest.approx(0.1)  # the stratum's mass is exact
    # two of three: pairs (10, 20), (10, 60), (20, 60) → client 0: 0.9·(1/3 + 1/7)/3
    assert weights[0] == pytest.approx(0.9 * (1 / 3 + 1 / 7) / 3)


def test_a_method_that_asks_is_for_simulation():
    with pytest.raises(InputError, match="asks nothing"):
        bias.expected_weights(load("power-of-choice", variant="rpow-d"), Population([1, 2]), [(1.0, np.arange(2))], 1)


def test_simulation_agrees_with_the_exact_figure():
    world = QuadraticWorld(12, kinds=3)
    always = lambda t: np.arange(12)  # noqa: E731
    found = bias.simulate_weights(load("by-size"), world, always, rounds=800, budget=3)
    share = world.population.sizes / world.population.sizes.sum()
    assert (np.abs(found.mean - share) < 4.5 * found.error).all()  # E[a] = p for multinomial sampling


def test_stratified_sampling_removes_what_unequal_availability_adds():
    world = QuadraticWorld(30, kinds=3)
    rate = np.array([0.95, 0.5, 0.35])[world.kinds]  # nobody of a kind: 0.65^10 = 1 % of rounds
    who = lambda t: np.flatnonzero(some_numbers(t) < rate)  # noqa: E731
    sizes = world.population.sizes / world.population.sizes.sum()
    kinds = np.eye(3)[world.kinds]
    found = {
        name: np.abs(
            bias.bias(bias.simulate_weights(load(name), world, who, rounds=300, budget=6).mean, sizes, kinds)
        ).sum()
        for name in ("uniform", "fedss")
    }
    assert found["uniform"] > 0.25
    assert found["fedss"] < 0.02


def some_numbers(t):
    return np.random.default_rng(t).random(30)


def test_every_round_may_have_other_people():
    world = QuadraticWorld(20, kinds=4)
    found = bias.simulate_weights(load("fedss"), world, share_of(world, 0.3), rounds=50, budget=5)
    assert found.rounds.sum(axis=1) == pytest.approx(np.ones(len(found.rounds)))


@pytest.fixture
def run(tmp_path):
    """Two clients, one label each, 30 and 10 examples; four rounds."""
    (tmp_path / "config.toml").write_text('setting = "main"\nseed = 0\n')
    np.savez(tmp_path / "federation.npz", sizes=np.array([30, 10]), label_counts=np.array([[30, 0], [0, 10]]))
    rounds = [([0], [1.0], None), ([0, 1], [0.5, 0.5], None), ([0, 1], [0.5, 0.5], [1]), ([], [], None)]
    lines = [json.dumps({"round": t, "cohort": c, "weights": w, "answered": a}) for t, (c, w, a) in enumerate(rounds)]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    return Run(tmp_path)


def test_metrics_of_a_run(run):
    # aggregates (1, 0), (.5, .5) and, client 0 being silent, (0, 1): mean (.5, .5) against (.75, .25)
    assert bias.recorded_weights(run).tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
    assert bias.label_bias(run) == pytest.approx(25)
    assert bias.client_bias(run) == pytest.approx(25)
    squares = 2 * np.array([0.25**2, 0.25**2, 0.75**2])
    assert bias.round_error(run) == pytest.approx(100 * np.sqrt(squares.mean()))
    assert bias.chance_bias(run) == pytest.approx(100 * 0.5 * np.sqrt(2 / np.pi / 3))  # each label's sd is 0.5
