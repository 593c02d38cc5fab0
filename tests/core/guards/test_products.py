"""Products between clients have two authors: one client must not get everybody refused, or in quarantine."""

import numpy as np
import pytest

from sortition.core import Guards, Population, Registrar
from sortition.core.guards.answer_screening import screen
from sortition.core.questions import Reading
from sortition.core.signals import PRODUCTS
from sortition.selectors import load

CLIENTS = np.arange(20)
COUNTS = np.random.default_rng(0).integers(1, 20, (20, 5)).astype(float)


def spoilt(entry: float, liar: int, partners: np.ndarray) -> Reading:
    products = COUNTS @ COUNTS.T
    products[liar, partners] = entry
    products[partners, liar] = entry
    return Reading(CLIENTS, products)


@pytest.mark.parametrize("entry", [np.nan, np.inf, 1e18, -1e18, 1e9])
@pytest.mark.parametrize("partners", [CLIENTS, CLIENTS[5:12]], ids=["everybody", "some"])
def test_only_the_client_that_spoils_products_is_refused(entry, partners):
    screened = screen(PRODUCTS, spoilt(entry, 3, partners), CLIENTS, None, Guards(norm=20))
    assert list(screened.rejected) == [3]
    assert not screened.refused_by_comparison
    assert screened.reading.ids.tolist() == [client for client in CLIENTS if client != 3]
    assert np.isnan(screened.reading.values[:, 3]).all()
    others = np.delete(screened.reading.values, 3, axis=1)
    assert np.array_equal(others, np.delete(np.delete(COUNTS @ COUNTS.T, 3, 0), 3, 1))


def test_of_a_single_pair_both_are_refused_and_nobody_is_blamed():
    screened = screen(PRODUCTS, spoilt(np.nan, 3, np.array([7])), CLIENTS, None, Guards())
    assert set(screened.rejected) == set(screened.refused_by_comparison) == {3, 7}


SECURE = [("microcosm", {"by": "secure"}), ("fed-cbs", {"counts": "secure", "labels": 5})]


@pytest.mark.parametrize(("method", "options"), SECURE)
def test_one_client_does_not_bring_the_others_into_quarantine(method, options):
    guards = Guards(strikes=1, quarantine=20)
    registrar = Registrar(load(method, **options), Population(np.full(20, 100)), guards=guards)
    turn = registrar.begin(CLIENTS, budget=5)
    assert turn.question is not None
    assert turn.question.signal == PRODUCTS
    turn.answer(spoilt(np.nan, 3, CLIENTS))
    assert list(turn.rejected) == [3]
    registrar.finish(turn)
    assert np.flatnonzero(registrar.eligibility.quarantined_until > registrar.index).tolist() == [3]
