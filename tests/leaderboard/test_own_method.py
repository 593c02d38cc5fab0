"""A method of one's own takes part in suite 2: run, tuned and verified by its import path."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.leaderboard.small_tracks import write_suite
from typer.testing import CliRunner

from sortition.cli import app
from sortition.leaderboard.entrants import load_configurations

METHOD = """
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from sortition import Cohort, Selector, method


@method
class Firsts(Selector):
    '''Takes every so-many-th available client.'''

    step: Annotated[int, Field(ge=1)] = 1

    def select(self, state, round):
        return Cohort.uniform(round.available[:: self.step][: round.budget])
        yield
"""


def test_a_class_of_ones_own_is_run_tuned_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_methods_of_suite_2.py").write_text(METHOD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    configurations = tmp_path / "mine.toml"
    configurations.write_text("[alternatives]\nFirsts = [{ step = 2 }, { step = 3 }]\n", encoding="utf-8")
    common = [
        *("leaderboard", "--suite", str(write_suite(tmp_path)), "-o", str(tmp_path / "out"), "--track", "rounds"),
        *("--method", "own_methods_of_suite_2:Firsts", "--configurations", str(configurations)),
    ]
    result = CliRunner().invoke(app, [*common, "--tune"])
    assert result.exit_code == 0, result.output
    assert "rounds, default: Firsts is ranked among 2." in result.output
    assert "rounds: Firsts is tuned to Firsts,step=" in result.output
    assert "rounds, tuned: Firsts is ranked among 2." in result.output
    verified = CliRunner().invoke(app, [*common, "--verify", "--verify-share", "0.3", "--quiet"])
    assert verified.exit_code == 0, verified.output


CNN_CELL = """
[[cell]]
name = "r-tuning-cnn"
track = "rounds"
half = "tuning"
family = "labels"
base = "digits"
study = { model = { name = "cnn" } }
"""


def test_tuning_runs_no_cell_that_neither_decides_nor_is_shown(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    suite.write_text(suite.read_text(encoding="utf-8") + CNN_CELL, encoding="utf-8")
    out = tmp_path / "out"
    options = ["--suite", str(suite), "-o", str(out), "--track", "rounds", "--method", "by-size", "--tune", "--quiet"]
    result = CliRunner().invoke(app, ["leaderboard", *options])
    assert result.exit_code == 0, result.output
    assert {file.stem for file in out.rglob("*.parquet")} == {"r-tuning", "r-first", "r-second"}


def test_a_file_of_configurations_is_added_to_the_suites(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[alternatives]\noort = [{ alpha = 1.0 }]\n[entry]\nmine = { name = "fedgs", alpha = 9.0 }\n')
    own = load_configurations()
    both = own.merge(load_configurations(path))
    assert both.alternatives["oort"] == [{"alpha": 1.0}]
    assert both.alternatives["fedgs"] == own.alternatives["fedgs"]
    assert both.absent == own.absent
    assert "mine" in [entrant.label for entrant in both.defaults()]
