from pathlib import Path

import pytest
from typer.testing import CliRunner

import sortition
from sortition import __version__
from sortition.cli import app
from sortition.core.errors import InputError
from sortition.studies.plan import plan, read


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_version():
    assert call("--version").strip() == f"sortition {__version__}"


def test_init_writes_a_study_that_can_be_planned_and_replaces_nothing(tmp_path):
    file = tmp_path / "new" / "mine.toml"
    call("init", file)
    made = plan(read(file))
    assert made.labels == ["uniform", "power-of-choice", "fedgs"]
    assert f"sortition run {file} " in file.read_text(), "the command is the one of this file"
    assert sum(line.count("#") for line in file.read_text().splitlines()) > 10
    file.write_text("mine")
    with pytest.raises(InputError, match="--force"):
        call("init", file)
    assert file.read_text() == "mine"
    call("init", file, "--force")
    assert plan(read(file)).runs


def test_models_lists_every_model_with_its_options():
    output = call("models")
    for text in ("softmax", "mlp", "cnn", "resnet", "char-lstm", "hidden=(64, 30)", "import path"):
        assert text in output


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"study\.toml must hold a study; got an empty file\. 'sortition init'"),
        ("rounds = 3\n", r"study\.toml must have at least one \[\[method\]\]"),
        (
            "cohrot = 3\n[[method]]\nname = 'uniform'\n",
            r"'cohrot'; study\.toml has .*Did you mean 'cohort'",
        ),
    ],
)
def test_errors_name_the_file_and_the_cause(text, match, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=match):
        call("run", file)


def test_a_key_of_data_that_is_nearly_right_is_corrected(tmp_path):
    call("init", file := tmp_path / "study.toml")
    file.write_text(file.read_text().replace("clients = 50", "client = 50"))
    with pytest.raises(InputError, match=r"study\.toml: Unknown key 'client'; data has .*Did you mean 'clients'"):
        call("run", file)


@pytest.mark.parametrize(("name", "hint"), [("fedprox", "proximal = 0.01"), ("FedAvg", "uniform"), ("fedadam", "adam")])
def test_what_is_no_method_says_where_it_is(name, hint):
    with pytest.raises(InputError, match=hint):
        call("show", name)


def test_only_that_matches_nothing_is_an_error(tmp_path):
    call("init", file := tmp_path / "study.toml")
    with pytest.raises(InputError, match=r"--only must be a setting, a method .*fedgs"):
        call("run", file, "--only", "fedsg")


BROKEN = '''
from sortition.core import Selector, State, method


@method
class Broken(Selector[State]):
    """Divides by zero."""

    def select(self, state, round):
        return 1 / 0
'''


def test_check_names_the_line_of_the_method_where_the_library_raised(tmp_path, monkeypatch):
    text = BROKEN.replace("return 1 / 0", "return Cohort.uniform([0, 0])").replace("Broken", "Twice")
    (tmp_path / "twicemethod.py").write_text("from sortition import Cohort\n" + text)
    monkeypatch.syspath_prepend(str(tmp_path))
    output = call("check", "twicemethod:Twice", code=1)
    assert "Cohort.ids must be distinct; got client 0 twice" in output
    assert f"at {tmp_path / 'twicemethod.py'}:11" in output
    assert "at " + str(Path(sortition.__file__).parent) not in output


def test_check_prints_no_traceback_where_the_message_names_the_mistake(tmp_path, monkeypatch):
    choice = "return Cohort.uniform(round.rng.permutation(round.available)[: round.budget])"
    observe = "def observe(self, state, feedback):\n        state.seen = feedback.ids"
    text = BROKEN.replace("return 1 / 0", f"{choice}\n\n    {observe}")
    (tmp_path / "undeclared.py").write_text("from sortition import Cohort\n" + text)
    monkeypatch.syspath_prepend(str(tmp_path))
    output = call("check", "undeclared:Broken", code=1)
    assert "UndeclaredError: State.seen cannot be set" in output
    assert "Traceback" not in output
    assert output.count("State.seen cannot be set") == 1


def test_check_shows_file_line_and_traceback(tmp_path, monkeypatch):
    (tmp_path / "brokenmethod.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    output = call("check", "brokenmethod:Broken", code=1)
    assert f"at {tmp_path / 'brokenmethod.py'}:10" in output
    assert "ZeroDivisionError: division by zero" in output
    assert "return 1 / 0" in output
