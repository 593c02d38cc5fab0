"""Payments hold where chosen clients answer, and are missed where a round does not wait for slow ones."""

from __future__ import annotations

import pytest
from campaign.payments import Losses, play

from campaign import payments


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(payments, "ROUNDS", 80)


def test_the_bound_holds_where_everybody_answers():
    paid = play(Losses("everybody answers"), seed=0)
    assert paid.below == 0
    assert paid.never == 0


def test_a_quorum_loses_payments_of_slow_clients():
    paid = play(Losses("quorum 0.7", quorum=0.7), seed=0)
    assert paid.below > 0
    assert paid.slowest < play(Losses("everybody answers"), seed=0).slowest
