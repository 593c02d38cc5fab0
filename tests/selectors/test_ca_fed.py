from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference import ca_fed_literal as literal

from sortition.core import InputError, Population, Reading, Registrar
from sortition.selectors import ca_fed, load
from sortition.selectors.ca_fed import count_moves, estimate_availability, prune


def markov(n, rounds, pi, correlation, rng):
    """Who is available in each round, (rounds, n), of clients that are two-state Markov chains."""
    there = np.zeros((rounds, n), bool)
    now = rng.random(n) < pi
    for t in range(rounds):
        there[t] = now
        stay = correlation * now + (1 - correlation) * pi
        now = rng.random(n) < stay
    return there


def differs(seed, rounds=40, **settings):
    """Whether a run is not the literal twin's; in some rounds nobody is available."""
    rng = np.random.default_rng(seed)
    sizes, losses = rng.integers(5, 50, 9), rng.random((rounds, 9)) * np.linspace(0.2, 3, 9)
    there = markov(9, rounds, rng.random(9), rng.random(9), rng)
    there[4::9], there[5::9] = False, False
    kappa, tol, s = settings.get("bias", 0.3), settings.get("tolerance", 0.0), settings.get("smoothing", 0.2)
    twin = literal.CAFed(sizes.tolist(), kappa, tol, s)
    registrar = Registrar(load("ca-fed", bias=kappa, tolerance=tol, smoothing=s), Population(sizes))
    for t in range(rounds):
        ids = np.flatnonzero(there[t])
        turn = registrar.begin(ids, 3)
        if turn.question is not None:
            turn.answer(Reading(ids, losses[t, ids]))
        expected = twin.round(ids.tolist(), losses[t].tolist())
        ours = dict(zip(turn.cohort.ids.tolist(), turn.cohort.weights.tolist(), strict=True))
        if ours.keys() != expected.keys() or any(abs(ours[k] - expected[k]) > 1e-9 for k in ours):
            return True
        registrar.finish(turn)
    return False


@pytest.mark.parametrize("settings", [{}, {"tolerance": 0.02}, {"bias": 2.0, "smoothing": 0.0}])
@pytest.mark.parametrize("seed", range(3))
def test_chooses_and_weighs_as_the_literal_twin(seed, settings):
    assert not differs(seed, **settings)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (ca_fed, "prune", "(removed_share + share) ** 2", "(removed_share + share)"),
        (ca_fed, "prune", "kept_loss - share_loss) / remaining", "kept_loss - share_loss)"),
        (ca_fed.CAFed, "_learn", "(1 - self.smoothing) * losses.values", "losses.values"),
        (ca_fed.CAFed, "select", "-round_to_tie_grid(np.abs(correlation))", "round_to_tie_grid(np.abs(correlation))"),
        (ca_fed, "count_moves", "moves[:, 0] += rounds - 2", "pass"),
        (ca_fed, "estimate_availability", "counts[:, 0] / from_away", "counts[:, 0] / from_available"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed) for seed in range(6))


def kept(loss, bias, tolerance=0.0):
    """Of four equal clients, the last rarely available and correlated; those that are kept."""
    pi, correlation = np.array([0.9, 0.9, 0.5, 0.1]), np.array([0, 0, 0.5, 0.9])
    order = np.concatenate([np.argsort(-correlation, kind="stable"), np.argsort(pi, kind="stable")])
    return np.flatnonzero(prune(np.full(4, 0.25), np.asarray(loss, float), order, bias, tolerance)).tolist()


def test_the_rare_client_with_a_large_loss_is_left_out_unless_bias_counts_much():
    assert kept([1, 1, 1, 4], 1.0) == [0, 1, 2]
    assert kept([1, 1, 1, 4], 10.0) == [0, 1, 2, 3]
    assert kept([1, 1, 1, 1], 1.0) == [0, 1, 2, 3]  # equal losses: every removal adds bias only
    assert kept([0, 0, 0, 0], 1.0) == [0, 1, 2, 3]  # ε is 0 whoever is left out
    assert len(kept([1, 2, 3, 4], 0.0)) == 1  # without bias all but the best could go, and one stays


def test_weights_are_unbiased_where_nobody_is_left_out():
    rng = np.random.default_rng(0)
    pi, sizes = np.linspace(0.2, 0.9, 8), rng.integers(10, 60, 8)
    there = markov(8, 4000, pi, np.full(8, 0.3), rng)
    for train in ("all", "budget"):
        total = np.zeros(8)
        registrar = Registrar(load("ca-fed", bias=1e9, train=train), Population(sizes))
        for t in range(4000):
            turn = registrar.begin(np.flatnonzero(there[t]), 3)
            if turn.question is not None:
                turn.answer(Reading(turn.question.ids, np.ones(turn.question.ids.size)))
            assert turn.cohort.mass == "expected" or not turn.cohort.ids.size
            if t >= 1000:
                total[turn.cohort.ids] += turn.cohort.weights
            assert train == "all" or turn.cohort.ids.size <= 3
            registrar.finish(turn)
        assert total / 3000 == pytest.approx(sizes / sizes.sum(), rel=0.15)


def test_all_kept_clients_train_whatever_the_budget_is():
    registrar = Registrar(load("ca-fed"), Population(np.ones(10)))
    turn = registrar.begin(np.arange(10), 2)
    turn.answer(Reading(np.arange(10), np.ones(10)))
    assert turn.cohort.full
    assert turn.cohort.ids.size == 10


def test_bad_parameters():
    with pytest.raises(InputError, match=r"CAFed.smoothing must be < 1; got 1.0"):
        load("ca-fed", smoothing=1.0)


def test_estimates_find_the_chain_that_made_the_rounds():
    rng = np.random.default_rng(0)
    pi, correlation = np.array([0.1, 0.5, 0.8]), np.array([0.9, 0.0, 0.5])
    moves, before, now = np.zeros((3, 4), int), np.zeros(3, bool), rng.random(3) < pi
    for t in range(40_000):
        count_moves(moves, before, np.flatnonzero(now), int(t > 0))
        now = rng.random(3) < correlation * now + (1 - correlation) * pi
    found = estimate_availability(moves)
    assert found[0] == pytest.approx(pi, abs=0.03)
    assert found[1] == pytest.approx(correlation, abs=0.03)


def test_rounds_in_which_nobody_was_available_are_counted():
    moves, before = np.zeros((2, 4), int), np.zeros(2, bool)
    count_moves(moves, before, np.array([0]), 0)
    assert not moves.any()  # the first round moves nobody
    count_moves(moves, before, np.array([1]), 3)  # in the two rounds between nobody was available
    assert moves.tolist() == [[2, 0, 1, 0], [2, 1, 0, 0]]
    assert before.tolist() == [False, True]
