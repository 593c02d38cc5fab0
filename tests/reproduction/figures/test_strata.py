from __future__ import annotations

import re

import pytest

from sortition.reproduction.context import Context
from sortition.reproduction.figures import strata
from sortition.studies.plan import plan
from sortition.studies.runs.runner import execute

DATA = {"name": "digits", "clients": 20, "partition": {"name": "mixed", "ratio": 0.9}}


def cells(markdown):
    rows = [line for line in markdown.splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_strata_fade_with_the_noise(tmp_path):
    page = strata.noise(Context("fedss", tmp_path, None, None, None), data=DATA, epsilon=[0.02, 3.0], most=8, draws=2)
    rows = cells(page)
    assert [row[0] for row in rows] == ["ε", "∞", "3", "3", "0.02", "0.02"]
    agreement = [float(row[-1]) for row in rows[1:]]
    assert agreement[0] == 1
    assert min(agreement[:2]) > max(agreement[3:])
    assert float(rows[2][2]) == pytest.approx(1 / 3, abs=1e-3)  # Laplace's b = 1/ε


def test_stratifying_is_worth_something_where_strata_differ(tmp_path):
    study = {
        "rounds": 3, "cohort": 8, "seeds": 1, "data": DATA, "model": "softmax",
        "local": {"steps": 3, "batch": 8, "lr": 0.1}, "method": [{"name": "fedss"}],
    }  # fmt: skip
    execute(plan(study), tmp_path / "runs", jobs=1)
    page = strata.worth(Context("fedss", tmp_path, tmp_path / "runs", None, None), method="fedss")
    rows = cells(page)[1:]
    assert [row[1] for row in rows] == ["first", "after 3 rounds"]
    for row in rows:
        total, inside, gain, ratio = map(float, row[2:])
        assert 0 < inside < total
        assert gain == pytest.approx(total - inside, rel=0.05)
        assert ratio < 0.8
    assert re.search(r"eqs\. 21 and 11", page)
    assert strata.worth(Context("fedss", tmp_path, None, None, None), method="fedss") == ""
