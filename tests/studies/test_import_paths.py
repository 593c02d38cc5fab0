"""What Python code can give, a file can name by import path, if the user allows it."""

import pytest
import tomli_w
from tests.studies.tables import small
from typer.testing import CliRunner

from sortition.cli import app
from sortition.core.errors import InputError
from sortition.results import run_folder

MODULE = """
import numpy as np
from sortition.data import load


def split(labels, clients, rng, first=0):
    return np.array_split(np.arange(first, len(labels)), clients)


def even(t, clients, rng):
    return np.arange(clients) % 2 == 0


def digits():
    return load("digits")
"""
DATA = {"name": "given_by_path:digits", "clients": 6, "partition": {"name": "given_by_path:split", "first": 7}}


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "given_by_path.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = small(data=DATA, availability="given_by_path:even", rounds=2, seeds=1, method=[{"name": "uniform"}])
    (tmp_path / "study.toml").write_text(tomli_w.dumps(table))
    return tmp_path / "study.toml"


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_file_names_functions_that_the_user_allows(file, tmp_path):
    with pytest.raises(InputError, match="add --allow given_by_path"):
        call("run", file, "-o", tmp_path / "runs")
    result = call("run", file, "-o", tmp_path / "runs", "--allow", "given_by_path", "--jobs", 1, "-q")
    assert result.exit_code == 0, result.output
    run = run_folder.find(tmp_path / "runs")[0]
    held = run.federation()
    assert held["availability"][0].tolist() == [True, False] * 3
    assert held["sizes"].sum() == 1438 - 7  # digits holds a fifth for testing
    assert "python" not in run.manifest


def test_options_of_a_function_are_checked(file, tmp_path):
    command = ("run", file, "-o", tmp_path / "runs", "--allow", "given_by_path")
    with pytest.raises(InputError, match=r"Unknown key 'frist'.*Did you mean 'first'"):
        call(*command, "--set", "data.partition.frist=3")
