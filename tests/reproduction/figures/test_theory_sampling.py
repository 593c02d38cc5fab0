import re

import pytest

from sortition.reproduction.context import Context
from sortition.reproduction.figures import theory_sampling


def rows(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)]


def test_the_lemmas_hold_for_every_budget(tmp_path):
    context = Context("theory", tmp_path, None, 1, None)
    text = theory_sampling.strata_lemmas(context, members=[3, 2], available=[1, 2], budgets=[2, 3], steps=3, rate=0.2)
    found = [[float(cell) for cell in row] for row in rows(text)[2:]]
    assert [row[0] for row in found] == [2, 3]
    for _, simple, eq7, stratified, claim, error, eq13, bound in found:
        assert simple == pytest.approx(eq7, abs=1e-6)
        assert simple > 0.1
        assert stratified == claim == 0
        assert error == pytest.approx(eq13, abs=1e-6)
        assert error < bound


def test_the_term_and_the_gradient_stand_side_by_side(tmp_path):
    said = []
    context = Context("theory", tmp_path, None, 1, None, said.append)
    text = theory_sampling.entropy_and_rate(
        context, alphas=[0.01, 1.0], priors={"even": [1, 1, 1]}, gammas=[0.0, 3.0], rounds=20
    )
    plain, guided = rows(text)[2:]
    assert float(guided[1]) > float(plain[1])
    assert said == ["convergence rate: even"]
    assert "the assumption: negative" in text
