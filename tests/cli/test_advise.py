from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sortition.advice import simulated_ranking as advisor
from sortition.cli import app
from sortition.selectors import load


@pytest.fixture
def profile(tmp_path, monkeypatch):
    few = {"uniform": load("uniform"), "microcosm": load("microcosm")}
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {"hics": "sees single updates"}))
    path = tmp_path / "profile.toml"
    path.write_text("clients = 12\ncohort = 3\nrounds = 4\n")
    return path


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_answer_comes_last_and_says_what_was_left_out(profile):
    told = run("advise", profile, "--seconds", "1")
    assert told.splitlines()[-1].startswith(("Use ", "Uniform is enough", "Undecided"))
    assert "left out, sees single updates: hics" in told


def test_replay_prints_one_row_a_method(profile):
    told = run("replay", profile, "--rounds", "5")
    assert "12 clients, 3 a round, 5 rounds" in told
    assert "microcosm-sizes" in told
    assert "left out, hears loss from clients" in told
