from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Population, Registrar
from sortition.selectors import load


def test_every_available_client_is_equally_likely():
    registrar, hits = Registrar(load("uniform"), Population(np.arange(1, 11))), np.zeros(10)
    for _ in range(1500):
        turn = registrar.begin([0, 2, 4, 6, 8], 2)
        hits[turn.cohort.ids] += 1
        registrar.finish(turn)
    assert hits[::2] / 1500 == pytest.approx([0.4] * 5, abs=0.05)  # m/|A|
    assert hits[1::2].sum() == 0


def test_weights():
    registrar = Registrar(load("uniform"), Population([1, 3]))
    assert sorted(registrar.begin([0, 1], 2).cohort.weights.tolist()) == [0.25, 0.75]
    registrar = Registrar(load("uniform", weights="uniform"), Population(n_clients=2))  # needs to know nothing
    assert registrar.begin([0, 1], 2).cohort.weights.tolist() == [0.5, 0.5]
