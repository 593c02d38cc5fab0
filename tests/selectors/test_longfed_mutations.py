"""The comparisons of LongFed and DivFL with their literal twins can fail: each of these slips is caught."""

from __future__ import annotations

import pytest
from tests.mutations import slipped
from tests.selectors import test_divfl, test_longfed

from sortition.selectors import divfl, longfed


def longfed_differs():
    return any(test_longfed.differs(seed, share=share) for seed in range(3) for share in (1.0, 0.6))


def divfl_differs():
    return any(test_divfl.differs(seed, share=share) for seed in range(3) for share in (1.0, 0.5))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("reference_clients", "distance > epsilon * (1 + TIE_TOLERANCE)", "distance >= 1e9"),  # everybody is similar
        ("reference_clients", "np.abs(chosen[:, None] - chosen)", "chosen - chosen[:, None]"),
        ("pulls", "push - np.bincount", "push + np.bincount"),  # the reference is pushed away too
        ("advance_queues", "q - ahead - delta", "q + ahead - delta"),
        ("advance_queues", "z + ahead - delta", "z + ahead"),
        ("greedy_cover", "np.minimum(served, table[best], out=served)", "served[:] = table[best]"),
        ("represented_mass", "nearest_chosen(distance)", "nearest_chosen(-distance)"),
    ],
)
def test_a_slip_in_a_part_of_longfed_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(longfed, name, slipped(getattr(longfed, name), right, wrong))
    assert longfed_differs()


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("observe", "self._learn(state, feedback.report(self.signal))", "pass"),  # distances for ever those of t = 1
        ("observe", "state.chosen += chosen", "state.chosen[:] = chosen"),  # only the last round counts
        ("_learn", "np.ix_(reading.ids, reading.ids)] = pairwise_distances(vectors)", "0, 0] = 0.0"),
        ("_price", "self.trade_off * state.scale", "0 * self.trade_off"),
        ("_cover", "price=price[pool]", "price=price[picks_first(pool)]"),
    ],
)
def test_a_slip_in_longfed_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(longfed, "picks_first", lambda pool: pool[::-1], raising=False)
    monkeypatch.setattr(longfed.LongFed, name, slipped(getattr(longfed.LongFed, name), right, wrong))
    assert longfed_differs()


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_learn", "state.distance[np.ix_(known_ids, reading.ids)] = table.T", "pass"),  # columns stay old
        ("observe", "self._learn(state, feedback.report(self.signal))", "pass"),
        ("_cover", "np.ix_(pool, known_ids)", "np.ix_(pool, pool)"),  # only the available are covered
    ],
)
def test_a_slip_in_divfl_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(divfl.DivFL, name, slipped(getattr(divfl.DivFL, name), right, wrong))
    assert divfl_differs()
