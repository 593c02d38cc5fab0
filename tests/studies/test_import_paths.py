"""What Python code can give, a file can name by import path, if the user allows it."""

import hashlib
import sys

import pytest
import tomli_w
from tests.studies.tables import small
from typer.testing import CliRunner

from sortition.cli import app
from sortition.core.errors import InputError, StorageError
from sortition.results import run_folder
from sortition.studies import own_code

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
    monkeypatch.delitem(sys.modules, "given_by_path", raising=False)
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
    assert sorted(run.manifest["python"]) == ["availability.name", "data.name", "data.partition.name"]


def test_options_of_a_function_are_checked(file, tmp_path):
    command = ("run", file, "-o", tmp_path / "runs", "--allow", "given_by_path")
    with pytest.raises(InputError, match=r"Unknown key 'frist'.*Did you mean 'first'"):
        call(*command, "--set", "data.partition.frist=3")


def test_edited_code_is_not_mixed_with_runs_of_before(file, tmp_path):
    command = ("run", file, "-o", tmp_path / "runs", "--allow", "given_by_path", "--jobs", 1, "-q", "--resume")
    assert call(*command).exit_code == 0
    more = (*command, "--set", "seeds=2")
    module = tmp_path / "given_by_path.py"
    module.write_text(MODULE.replace("== 0", "== 1"))
    with pytest.raises(StorageError, match=r"seed-0 was played with other code: .*name stands for has changed.*-o"):
        call(*more)
    with pytest.raises(StorageError, match="was played with other code"):  # though seed 0 is not asked for
        call(*command, "--set", "seeds=[1]")
    assert len(run_folder.find(tmp_path / "runs")) == 1
    module.write_text(MODULE)
    assert call(*more).exit_code == 0
    assert len(run_folder.find(tmp_path / "runs")) == 2


def test_the_file_that_defines_a_name_counts_as_well_as_the_one_that_exports_it(tmp_path, monkeypatch):
    package = tmp_path / "exporting"
    package.mkdir()
    (package / "__init__.py").write_text("from exporting.inner import split\n")
    (package / "inner.py").write_text("def split(labels, clients, rng): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    table = {"data": {"partition": {"name": "exporting:split"}}, "method": {"name": "uniform", "label": "a:b"}}
    before = own_code.fingerprints(table)
    assert list(before) == ["data.partition.name"]
    (package / "inner.py").write_text("def split(labels, clients, rng): return []\n")
    assert own_code.fingerprints(table) != before


def test_base_classes_and_short_names_count(tmp_path, monkeypatch):
    (tmp_path / "basis.py").write_text("class Base: ...\n")
    (tmp_path / "q.py").write_text("from basis import Base\nclass Mine(Base): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = own_code.fingerprints({"method": {"name": "q:Mine"}})
    assert list(before) == ["method.name"]
    (tmp_path / "basis.py").write_text("class Base: x = 1\n")
    assert own_code.fingerprints({"method": {"name": "q:Mine"}}) != before
    assert own_code.fingerprints({"method": {"name": "builtins:dict"}})  # no file, no error


def test_the_audit_says_what_it_could_not_check_and_why(file, tmp_path):
    runs = tmp_path / "runs"
    assert call("run", file, "-o", runs, "--allow", "given_by_path", "--jobs", 1, "-q").exit_code == 0
    told = call("audit", runs)
    assert told.exit_code == 3
    assert "partly" in told.output
    assert "add --allow given_by_path" in " ".join(told.output.split())
    assert call("audit", runs, "--allow", "given_by_path").exit_code == 0
    (tmp_path / "given_by_path.py").write_text(f"{MODULE}\n# edited\n")
    told = call("audit", runs, "--allow", "given_by_path")
    assert told.exit_code == 3
    assert "stands for has changed since" in " ".join(told.output.split())


def test_code_that_the_plan_does_not_name_is_not_imported(file, tmp_path):
    runs, allowed = tmp_path / "runs", ("--jobs", 1, "-q", "--resume", "--allow", "given_by_path")
    assert call("run", file, "-o", runs, *allowed).exit_code == 0
    (runs / "main").rename(runs / "other")  # another setting, of code that is gone
    config = run_folder.find(runs)[0].path / run_folder.CONFIG
    config.write_text(config.read_text().replace("given_by_path:even", "gone:even").replace('"main"', '"other"'))
    assert call("run", file, "-o", runs, *allowed, "--set", "seeds=[1]").exit_code == 0
    assert len(run_folder.find(runs)) == 2


def test_objects_that_do_not_say_their_module_have_a_digest(tmp_path, monkeypatch):
    source = """
class Nameless:
    __module__ = None


built_in = dict().get
instance = Nameless()
"""
    (tmp_path / "nameless.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = hashlib.sha256(source.encode()).hexdigest()
    for name in ("built_in", "instance", "Nameless"):
        assert own_code.source_digest("task.loss", f"nameless:{name}") == expected
