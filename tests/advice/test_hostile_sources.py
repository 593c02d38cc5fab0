"""Profiles, tables, run folders and logs of somebody else: one error message, no code of theirs, no endless work."""

from __future__ import annotations

import json
import os
import tomllib

import numpy as np
import pytest
import tomli_w
from tests.report.conftest import write_run
from typer.testing import CliRunner

from sortition.advice.read_description import known_federation
from sortition.advice.replay import replay
from sortition.audit.log_file import LogFile
from sortition.cli import app
from sortition.core import Population, Registrar
from sortition.core.errors import InputError, SortitionError
from sortition.selectors import load


@pytest.mark.parametrize("command", ["advise", "replay"])
@pytest.mark.parametrize("key", ["availability", "partition"])
def test_a_profile_runs_no_code_that_the_user_did_not_allow(tmp_path, monkeypatch, command, key):
    (tmp_path / "theirs_of_a_profile.py").write_text("raise RuntimeError('their code ran')")
    monkeypatch.syspath_prepend(tmp_path)
    profile = tmp_path / "profile.toml"
    profile.write_text(f'cohort = 2\nclients = 5\n{key} = {{ name = "theirs_of_a_profile:run" }}\n')
    result = CliRunner().invoke(app, [command, str(profile)])
    assert result.exit_code != 0
    assert "add --allow theirs_of_a_profile" in str(result.exception or result.output)
    allowed = CliRunner().invoke(app, [command, str(profile), "--allow", "theirs_of_a_profile"])
    assert "their code ran" in repr(allowed.exception)


@pytest.mark.parametrize(
    "text",
    [
        "clients = 1000000000000",
        "clients = 5\nrounds = 1000000000000",
        'clients = 5\navailability = { name = "trace", path = 5 }',
        'clients = 5\npartition = { name = "dirichlet", rng = 3 }',
        'label_counts = "/dev/zero"',
        'label_counts = "pipe.csv"',
        'label_counts = "empty.csv"',
        'label_counts = "empty.npz"',
        'label_counts = "number.npy"',
        'label_counts = "nobody.npy"',
        'label_counts = "wide.npy"',
    ],
)
def test_profiles_that_would_fill_the_memory_or_never_end_are_refused(tmp_path, text):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "empty.csv").write_text("first,second\n")
    np.savez(tmp_path / "empty.npz")
    np.save(tmp_path / "number.npy", np.float64(3))
    np.save(tmp_path / "nobody.npy", np.zeros((0, 3)))
    np.save(tmp_path / "wide.npy", np.zeros((1, 5000)))
    (tmp_path / "profile.toml").write_text(f"cohort = 2\n{text}\n")
    with pytest.raises(SortitionError):
        known_federation(tmp_path / "profile.toml")


def test_a_cohort_that_is_none_is_an_input_error(tmp_path):
    np.save(tmp_path / "counts.npy", np.ones((3, 2)))
    with pytest.raises(InputError, match=r"profile\.cohort"):
        known_federation(tmp_path / "counts.npy", cohort=0)


CONFIGS = [
    {"cohort": "x"},
    {"cohort": 0},
    {"cohort": {"a": 1}},
    {"rounds": 2**60},
    {"faults": "x"},
    {"faults": {"before": "x"}},
    {"faults": {"before": 5.0}},
    {"availability": {"path": 3}},
]


@pytest.mark.parametrize("changed", CONFIGS, ids=str)
def test_a_run_with_another_configuration_is_refused(tmp_path, changed):
    home = write_run(tmp_path, "uniform", 0, [0.2, 0.4, 0.6])
    config = tomllib.loads((home / "config.toml").read_text())
    (home / "config.toml").write_text(tomli_w.dumps(config | changed))
    with pytest.raises(SortitionError):
        known_federation(home)


@pytest.mark.parametrize(
    "changed", [{"cohort": [0, 900]}, {"cohort": [1, 1]}, {"cohort": None}, {"weights": [float("nan"), 1.0]}], ids=str
)
def test_a_run_with_impossible_cohorts_is_refused(tmp_path, changed):
    home = write_run(tmp_path, "uniform", 0, [0.2, 0.4, 0.6])
    records = [json.loads(line) | changed for line in (home / "rounds.jsonl").read_text().splitlines()]
    (home / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(SortitionError):
        known_federation(home)


@pytest.mark.parametrize(
    ("first", "others", "facts"),
    [
        ({"clients": 10**12}, {}, None),
        ({"clients": -1}, {}, None),
        ({"clients": 2}, {}, None),
        ({}, {"budget": "x"}, None),
        ({}, {"budget": 0}, None),
        ({}, {}, {"label_counts": [[1], [1, 2]]}),
        ({}, {}, {"label_counts": [[1, 2]]}),
        ({}, {}, {"sizes": "abc"}),
    ],
)
def test_a_log_of_another_form_is_refused(tmp_path, first, others, facts):
    log = LogFile(tmp_path / "audit.jsonl")
    registrar = Registrar(load("uniform"), Population(np.arange(1, 9)))
    log.watch(registrar)
    registrar.finish(registrar.begin(range(8), 3))
    reveal = log.reveal()
    assert replay(known_federation(tmp_path / "audit.jsonl"))[0]
    entries = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    made = [entries[0] | first, *(one | others for one in entries[1:])]
    (tmp_path / "audit.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    reveal.write_text(json.dumps({"facts": facts}))
    with pytest.raises(SortitionError):
        known_federation(tmp_path / "audit.jsonl")
