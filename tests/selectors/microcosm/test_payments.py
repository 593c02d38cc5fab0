"""What docs/methods/microcosm.md proves of payments, under availability chosen to break it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped

from sortition.core import Registrar
from sortition.selectors import load
from sortition.selectors.microcosm.payments import MOST_UNITS, Payments, make_payments
from sortition.testing import ScriptedWorld


def always(t, n, rng):
    return np.arange(n)


def at_random(t, n, rng):
    return np.flatnonzero(rng.random(n) < 0.5)


def nights(t, n, rng):
    """Half of the clients by day, half by night, a day being twenty rounds."""
    half = np.arange(n // 2)
    return half if t % 20 < 10 else half + n // 2


def hoarded(t, n, rng):
    """One half comes until its patience is nearly used up, then the other half, then all at once."""
    half = np.arange(n // 2)
    phase = t % 40
    if phase < 11:
        return half
    if phase < 22:
        return half + n // 2
    return np.arange(n)


AVAILABILITY = [always, at_random, nights, hoarded]


def shares_of(kind, n, rng):
    if kind == "equal":
        return np.full(n, 1 / n)
    sizes = rng.lognormal(0, 1, n)
    return sizes / sizes.sum()


def weights_paid(available_at, kind, *, seed, n=40, places=5, rounds=200):
    """Weights (rounds, n) of a server that pays what is forced and else whom it likes; who was available; units."""
    rng = np.random.default_rng(seed)
    p = shares_of(kind, n, rng)
    owing = make_payments(p, places)
    waits = np.zeros((n, MOST_UNITS), np.int32)
    weights = np.zeros((rounds, n))
    was_available = np.zeros((rounds, n), bool)
    for t in range(rounds):
        available = available_at(t, n, rng)
        clients, floors = owing.find_forced(waits, available)
        assert clients.size <= places
        assert floors.sum() <= 1 + 1e-9
        a = np.zeros(n)
        a[clients] = floors
        favourite = available[0]  # gets all that is left
        a[favourite] += 1 - floors.sum()
        ids = np.flatnonzero(a)
        waits = owing.waits_after(waits, available, ids, a[ids])
        weights[t] = a
        was_available[t, available] = True
    return weights, was_available, owing


def least_share_of_due(weights, was_available, owing):
    """The least of weight over a quarter of the due, over clients and stretches in which one is available D times."""
    due = owing.units * owing.value
    least = np.inf
    for client in np.flatnonzero(due):
        paid = np.cumsum(weights[was_available[:, client], client])
        if paid.size > owing.patience:
            in_stretch = paid[owing.patience :] - paid[: -owing.patience]
            least = min(least, float(in_stretch.min() / due[client]))
    return least


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["equal", "unequal"])
@pytest.mark.parametrize("available_at", AVAILABILITY)
def test_whoever_is_available_often_enough_gets_a_quarter_of_its_due(available_at, kind, seed):
    weights, was_available, owing = weights_paid(available_at, kind, seed=seed)
    assert least_share_of_due(weights, was_available, owing) >= 1 - 1e-9


def test_a_queue_that_looks_at_the_available_alone_breaks_the_promise(monkeypatch):
    """Those who are away need places later: leaving them out of the count lets them pile up."""
    wrong = slipped(Payments.find_forced, "slack - 1, slack)[is_unit]", "slack - 1, slack)[is_available_unit]")
    monkeypatch.setattr(Payments, "find_forced", wrong)
    assert least_share_of_due(*weights_paid(hoarded, "equal", seed=0)) < 1


def test_units_are_worth_at_most_a_place_and_fit_into_the_patience():
    p = shares_of("unequal", 60, np.random.default_rng(4))
    owing = make_payments(p, 7)
    assert owing.value.max() <= 1 / 7 + 1e-12
    assert owing.units.sum() <= 7 * owing.patience
    small = p <= MOST_UNITS / 60
    assert (owing.units * owing.value)[small] == pytest.approx((60 * p / 7)[small])


def test_clients_without_data_are_owed_nothing():
    owing = make_payments(np.array([0.5, 0.5, 0.0]), 1)
    assert owing.units.tolist() == [2, 2, 0]
    clients, _ = owing.find_forced(np.full((3, MOST_UNITS), 5, np.int32), np.array([2]))
    assert clients.size == 0


def test_the_method_pays_slow_clients_too():
    """Ten of forty clients take a hundred times as long; they get a quarter of their due in every window."""
    n, places, rounds = 40, 5, 120
    world = ScriptedWorld(n)
    seconds = np.where(np.arange(n) < 30, 1.0, 100.0)
    registrar = Registrar(load("microcosm", by="labels", estimate=False, seconds="observed"), world.population)
    weights = np.zeros((rounds, n))
    slow_rounds = 0
    for t in range(rounds):
        turn = registrar.begin(np.arange(n), places, clock=float(t))
        weights[t, turn.cohort.ids] = turn.cohort.weights
        slow_rounds += bool((turn.cohort.ids >= 30).any())
        registrar.finish(turn, turn.cohort.ids, durations=seconds[turn.cohort.ids])
    p = world.population.sizes / world.population.sizes.sum()
    owing = make_payments(np.asarray(p), places)
    assert least_share_of_due(weights, np.ones((rounds, n), bool), owing) >= 1 - 1e-9
    assert slow_rounds < rounds / 2  # uniform sampling: 77 of 100 rounds wait for one of them
