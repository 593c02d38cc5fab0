"""What every method chooses in a scripted world is stored; a change of behaviour must be meant (--update-golden)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sortition.selectors import discover, find
from sortition.testing import golden_record

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", discover())
def test_chooses_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    now = golden_record(find(name))
    path = GOLDEN / f"{name}.json"
    if request.config.getoption("--update-golden"):
        text = json.dumps(now).replace('{"parameters"', '\n{"parameters"').replace('{"ids"', '\n  {"ids"')
        path.write_text(text + "\n")
    assert path.exists(), f"run pytest {Path(__file__).name} --update-golden, and look at what it stored"
    stored = json.loads(path.read_text())
    assert [run["parameters"] for run in stored] == [run["parameters"] for run in now]
    for then, today in zip(stored, now, strict=True):
        for t, (before, after) in enumerate(zip(then["cohorts"], today["cohorts"], strict=True)):
            assert after["ids"] == before["ids"], f"{then['parameters']}, round {t}"
            assert after["weights"] == pytest.approx(before["weights"], abs=1e-6), f"{then['parameters']}, round {t}"
