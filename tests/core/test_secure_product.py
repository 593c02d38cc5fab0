from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core import PRODUCTS, InputError
from sortition.core.secure_product import Holder, draw_mask, secure_product, secure_products
from sortition.testing import QuadraticWorld

numbers = st.integers(-(2**20), 2**20)


@given(st.integers(1, 6).flatmap(lambda d: st.tuples(*[st.lists(numbers, min_size=d, max_size=d)] * 2)))
def test_gives_the_plain_product(pair):
    a, b = (np.array(vector) for vector in pair)
    assert secure_product(Holder(a), Holder(b), a.size) == int(a @ b)


def test_all_messages_pass_the_server_in_the_papers_order():
    heard = []
    secure_product(Holder(np.array([1, 2])), Holder(np.array([3, 4])), 2, lambda *message: heard.append(message))
    assert heard == [
        ("server", "A", "R_a, r_a"),
        ("server", "B", "R_b, r_b"),
        ("A", "server", "Â"),
        ("B", "server", "B̂"),
        ("server", "B", "Â"),
        ("server", "A", "B̂"),
        ("B", "server", "u, v2"),
        ("server", "A", "u"),
        ("A", "server", "v1"),
    ]


def test_masks_are_fresh_and_fill_the_ring():
    drawn = np.concatenate([draw_mask(500), draw_mask(500)])
    assert np.unique(drawn).size == 1000
    assert 0.4 < (drawn > np.uint64(2**63)).mean() < 0.6


def test_it_is_no_security_control():
    """The server made the mask and relays the masked vector: the difference is the client's vector."""
    R = draw_mask(3)
    masked = Holder(np.array([7, 0, 5])).receive(R, np.uint64(0))
    assert (masked - R).tolist() == [7, 0, 5]


def test_the_signal_runs_the_protocol():
    world = QuadraticWorld(5)
    counts = world.population.label_counts
    assert np.array_equal(PRODUCTS.table(world.clients(np.arange(5), 0)), counts @ counts.T)
    assert secure_products([]).shape == (0, 0)


def test_fractions_are_refused():
    with pytest.raises(InputError, match="whole numbers"):
        Holder(np.array([0.5]))
