from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.greedyfed_literal import gtg_shapley, shapley_by_permutations

from sortition.selectors.greedyfed import shapley


def game(seed, n, rough=1.0):
    """Values of all sets: players add what they are worth, and ``rough`` is what pairs add or take."""
    rng = np.random.default_rng(seed)
    worth, pairs = rng.random(n), rough * rng.normal(size=(n, n))

    def value(players):
        chosen = sorted(players)
        return float(worth[chosen].sum() + sum(pairs[i, j] for i in chosen for j in chosen if i < j))

    return value, worth


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_exact_values_are_the_means_over_all_orders(n):
    value, _ = game(n, n)
    assert shapley.exact_values(value, n) == pytest.approx(shapley_by_permutations(value, n))


@pytest.mark.parametrize("n", [3, 6, 12])
@pytest.mark.parametrize("tolerance", [0.0, 0.5])
def test_gtg_is_its_pseudo_code(n, tolerance):
    value, _ = game(n, n)
    settings = {"between": tolerance, "within": tolerance, "most": 8 * n}
    ours = shapley.gtg_values(value, n, np.random.default_rng(3), **settings)
    rng = np.random.default_rng(3)
    twin = gtg_shapley(value, n, lambda rest: rng.permutation(rest).tolist(), tolerance, tolerance, 8 * n)
    assert ours == pytest.approx(twin)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("marginal_values", "abs(value_of_all - value_so_far) < tolerance", "abs(value_of_all) < tolerance"),
        ("marginal_values", "value_so_far = value_with", "pass"),
        ("gtg_values", "[leader, *followers.tolist()]", "[*followers.tolist(), leader]"),
        ("has_settled", "max(FEWEST, n)", "1"),
        ("has_settled", "/ (np.abs(newest) + 1e-12)", "* 1e-12"),
    ],
)
def test_a_slip_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(shapley, name, slipped(getattr(shapley, name), right, wrong))

    def same(n, rough):
        value, _ = game(n, n, rough)
        rng = np.random.default_rng(3)
        twin = gtg_shapley(value, n, lambda rest: rng.permutation(rest).tolist(), 0.2, 0.2, 40 * n)
        ours = shapley.gtg_values(value, n, np.random.default_rng(3), between=0.2, within=0.2, most=40 * n)
        return np.allclose(ours, twin)

    assert not all(same(n, rough) for n in (3, 6, 12) for rough in (1.0, 0.1))


@pytest.mark.parametrize("n", [4, 6])
def test_gtg_comes_near_to_the_exact_values(n):
    value, _ = game(n, n, rough=0.2)
    ours = shapley.gtg_values(value, n, np.random.default_rng(0), between=0.0, within=0.0, most=400 * n)
    assert ours == pytest.approx(shapley.exact_values(value, n), abs=0.1)


def test_values_add_up_to_the_gain_of_all_and_additive_games_need_one_turn():
    value, worth = game(0, 7, rough=0.0)
    assert shapley.gtg_values(value, 7, np.random.default_rng(0), between=0.0, within=0.0, most=7) == pytest.approx(
        worth
    )
    value, _ = game(1, 7)
    gain = value(frozenset(range(7))) - value(frozenset())
    assert shapley.exact_values(value, 7).sum() == pytest.approx(gain)
    assert shapley.gtg_values(value, 7, np.random.default_rng(0), between=0, within=0, most=70).sum() == pytest.approx(
        gain
    )


def test_a_player_that_adds_nothing_has_no_value_and_equal_ones_have_the_same():
    value = lambda players: float(len(players & {0, 1}) ** 2)  # noqa: E731
    assert shapley.exact_values(value, 3) == pytest.approx([2, 2, 0])


def test_little_gain_is_no_value_and_sets_are_valued_once():
    seen = []

    def value(players):
        seen.append(players)
        return 1e-5 * len(players)

    assert (
        shapley.gtg_values(value, 5, np.random.default_rng(0), between=1e-4, within=1e-4, most=50).tolist() == [0] * 5
    )
    assert len(seen) == 2
    seen.clear()
    shapley.gtg_values(value, 5, np.random.default_rng(0), between=0.0, within=0.0, most=500)
    assert len(seen) == len(set(seen)) <= 2**5
