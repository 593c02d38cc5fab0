"""Who has just come, and how many of these clients may be chosen."""

import numpy as np
import pytest

from sortition.core.guards.returning import Presence, keep_few_returning, returning_places


class TestPresence:
    def test_at_first_nobody_has_just_come(self):
        assert not Presence(6).has_just_come(np.arange(6), np.arange(6)).any()

    def test_absence_counts_from_the_eighth_round_on(self):
        presence = Presence(6)
        for t in range(8):
            assert not presence.has_just_come(np.array([5]), np.arange(6)).any(), t
            presence.record(np.arange(5))
        assert presence.has_just_come(np.array([5]), np.arange(6)).all()

    def test_who_is_back_for_long_enough_has_settled(self):
        presence = Presence(6)
        for _ in range(40):
            presence.record(np.arange(5))
        rounds = 0
        while presence.has_just_come(np.array([5]), np.arange(6)).any():
            presence.record(np.arange(6))
            rounds += 1
        assert 15 <= rounds <= 25

    def test_where_everybody_comes_and_goes_nobody_has_just_come(self):
        rng = np.random.default_rng(1)
        presence = Presence(400)
        shares = []
        for _ in range(100):
            available = np.flatnonzero(rng.random(400) < 0.5)
            shares.append(presence.has_just_come(available, available).mean())
            presence.record(available)
        assert np.mean(shares) < 0.05

    def test_a_shift_that_relieves_another_has_not_just_come(self):
        presence = Presence(20)
        for _ in range(30):
            presence.record(np.arange(10))
        assert not presence.has_just_come(np.arange(10, 20), np.arange(10, 20)).any()


@pytest.mark.parametrize(("share", "budget", "places"), [(0.2, 10, 2), (0.3, 10, 3), (0.29, 10, 2), (0.05, 10, 1)])
def test_a_share_of_the_places_and_at_least_one(share, budget, places):
    assert returning_places(share, budget) == places


@pytest.mark.parametrize(("n_settled", "budget", "n_newcomers"), [(20, 10, 2), (5, 10, 5), (0, 10, 10)])
def test_few_newcomers_are_kept_unless_places_would_stay_empty(n_settled, budget, n_newcomers):
    just_come = np.array([False] * n_settled + [True] * 15)
    keep = keep_few_returning(just_come, 2, budget, np.random.default_rng(0))
    assert keep[~just_come].all()
    assert keep[just_come].sum() == n_newcomers
