"""`make bench-check` fails where a ratio lost more than a quarter, and only there."""

import importlib
import json
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]


@pytest.fixture
def check(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HOME / "benchmarks"))
    module = importlib.import_module("check")
    monkeypatch.setattr(module, "STORED", tmp_path / "ratios.json")
    yield module
    for name in ("check", "engine"):
        sys.modules.pop(name, None)


def played(check, monkeypatch, ratios, *words):
    monkeypatch.setattr(check, "RATIOS", {name: lambda value=value: value for name, value in ratios.items()})
    monkeypatch.setattr(sys, "argv", ["check.py", *words])
    check.main()


def test_a_loss_of_more_than_a_quarter_fails_and_names_what_lost(check, monkeypatch, capsys):
    played(check, monkeypatch, {"training": 4.0, "losses": 1.0}, "--store")
    assert json.loads(check.STORED.read_text()) == {"training": 4.0, "losses": 1.0}
    with pytest.raises(SystemExit, match=r"slower by more than 25%: training$"):
        played(check, monkeypatch, {"training": 2.9, "losses": 0.8})
    assert "stored   4.00×" in capsys.readouterr().out


def test_smaller_losses_gains_and_new_ratios_pass(check, monkeypatch, capsys):
    played(check, monkeypatch, {"training": 4.0}, "--store")
    played(check, monkeypatch, {"training": 3.1, "new": 0.1})
    played(check, monkeypatch, {"training": 9.0})
    assert capsys.readouterr().out.count("stored   4.00×") == 2


def test_the_stored_ratios_are_those_that_are_measured(check):
    assert json.loads((HOME / "benchmarks" / "ratios.json").read_text()).keys() == check.RATIOS.keys()
