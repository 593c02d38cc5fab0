from __future__ import annotations

from sortition.core import Population, Registrar
from sortition.selectors import load


def test_everybody_available_trains_whatever_the_budget():
    registrar = Registrar(load("full"), Population([1, 2, 3, 4]))
    cohort = registrar.begin([0, 1, 3], 1).cohort
    assert cohort.full
    assert cohort.ids.tolist() == [0, 1, 3]
    assert cohort.weights.tolist() == [1 / 7, 2 / 7, 4 / 7]
