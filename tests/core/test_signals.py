from __future__ import annotations

import numpy as np
import pytest

from sortition.core import (
    BIAS_UPDATE,
    DISPERSION,
    GRADIENT,
    HEAD_UPDATE,
    LOSS,
    PRODUCTS,
    STEP_GRADIENT,
    UPDATE,
    InputError,
    Signal,
    make_probe,
)
from sortition.core.signals import fold
from sortition.testing import QuadraticWorld


def test_signals_of_a_client_by_hand():
    world = QuadraticWorld(4)
    (client,) = world.clients(np.array([2]), 0)
    centre = world.centres[2]
    assert LOSS.row(client) == pytest.approx(0.5 * centre @ centre)
    assert GRADIENT.row(client) == pytest.approx(-centre)
    # w after R steps of rate η from 0: c (1 − (1 − η)^R)
    assert UPDATE.row(client) == pytest.approx(centre * (1 - 0.9**3))
    assert STEP_GRADIENT.row(client) == pytest.approx(-centre * (1 - 0.9**3) / 0.3)
    assert BIAS_UPDATE.row(client) == pytest.approx(UPDATE.row(client)[-3:])
    assert HEAD_UPDATE.row(client) == pytest.approx(UPDATE.row(client))
    # the gradients along the path are −c·(1, 0.9, 0.81): their sample variance times ‖c‖²
    assert DISPERSION.row(client) == pytest.approx(np.std([1, 0.9, 0.81], ddof=1) * np.linalg.norm(centre))


def test_products_of_pairs():
    world = QuadraticWorld(5)
    table = PRODUCTS.table(world.clients(np.array([1, 4]), 0))
    counts = world.population.label_counts
    assert table[0, 1] == counts[1] @ counts[4]


def test_sketches_keep_distances():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1000))
    estimates = [np.sum((fold(a, 64, s) - fold(b, 64, s)) ** 2) for s in range(600)]
    true = np.sum((a - b) ** 2)
    assert np.mean(estimates) == pytest.approx(true, rel=0.03)  # unbiased: 0.177 / √600 = 0.007
    assert np.std(estimates) / true < 1.2 * np.sqrt(2 / 64)  # relative variance ≤ 2/dim


def test_a_sketched_signal_has_its_own_name_and_width():
    world = QuadraticWorld(3)
    small = UPDATE.sketch(4)
    assert small.name == "update-sketch4"
    assert small != UPDATE
    assert small.row(world.clients(np.array([0]), 0)[0]).shape == (4,)


@pytest.mark.parametrize("dim", [0, 1.5, True])
def test_bad_sketches(dim):
    with pytest.raises(InputError, match="sketch"):
        UPDATE.sketch(dim)
    with pytest.raises(InputError, match="of a vector signal"):
        LOSS.sketch(3)


def test_the_probe_carries_its_moments():
    signal = make_probe(np.zeros(4), np.ones(4), samples=500)
    assert signal.floats_down == 8
    world = QuadraticWorld(3)
    (client,) = world.clients(np.array([0]), 0)
    # a linear model's mean response to centred noise is near its bias
    assert signal.row(client) == pytest.approx(client.train().update[-3:], abs=0.3)
    with pytest.raises(InputError, match="shape"):
        make_probe(np.zeros(4), np.ones(3))


def test_names_are_wire_safe():
    with pytest.raises(InputError, match=r"Signal\.name"):
        Signal("no spaces", "model", lambda c, _: 0.0)
    with pytest.raises(InputError, match="of must be"):
        Signal("x", "weather", lambda c, _: 0.0)
