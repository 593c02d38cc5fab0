import json

import pytest
import tomli_w
from typer.testing import CliRunner

from sortition.cli import app, main
from sortition.core.errors import InputError
from sortition.results import run_folder
from sortition.selectors import discover
from tests.studies.tables import small

MINE = '''
from sortition.core import Cohort, Selector, State, method


@method
class First(Selector[State]):
    """The first who are there."""

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


@method
class Repeats(Selector[State]):
    """Breaks the contract: takes more than it may."""

    def select(self, state, round):
        return Cohort.uniform(round.available)


@method
class Raises(Selector[State]):
    """Breaks the contract: reads what is not there."""

    def select(self, state, round):
        return Cohort.uniform(round.nothing)
'''


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(tomli_w.dumps(small(rounds=2, seeds=1)))
    return path


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "minemodule.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "minemodule"


def test_run_ends_with_a_table_and_resumes(file, tmp_path):
    out = tmp_path / "runs"
    output = call("run", file, "-o", out, "-j", 1, "--set", "method.power-of-choice.d=4")
    assert "power-of-choice" in output
    assert "verdict" in output
    assert str(out) in output.replace("\n", "")
    with pytest.raises(InputError, match="--resume"):
        call("run", file, "-o", out, "-j", 1, "--set", "method.power-of-choice.d=4")
    again = call("run", file, "-o", out, "-j", 1, "--set", "method.power-of-choice.d=4", "--resume", "--quiet")
    assert again == ""
    assert run_folder.find(out)[1].config["method"]["d"] == 4


def test_a_dry_run_says_that_a_limit_is_out_of_reach(file):
    printed = " ".join(call("run", file, "--dry-run", "--only", "uniform", "--set", "until.seconds=1e6").split())
    assert "Note: until: 1,000,000 seconds take about" in printed


def test_dry_run_runs_nothing(file, tmp_path):
    output = call("run", file, "-o", tmp_path / "runs", "--dry-run", "--only", "uniform")
    assert "1 runs" in output
    assert "minutes with" in output
    assert not (tmp_path / "runs").exists()


def test_a_method_of_ones_own_by_import_path(file, tmp_path, mine):
    table = small(rounds=2, seeds=1, method=[{"name": "uniform"}, {"name": f"{mine}:First"}])
    file.write_text(tomli_w.dumps(table))
    with pytest.raises(InputError, match=f"would import and run code of the module '{mine}'.*add --allow {mine}"):
        call("run", file, "-o", tmp_path / "runs", "-j", 1)
    assert "First" in call("run", file, "-o", tmp_path / "runs", "-j", 1, "--allow", mine)
    assert "kept" in call("check", f"{mine}:First")
    assert "BROKEN" in call("check", f"{mine}:Repeats", code=1)


def test_check_prints_the_traceback_of_a_line_once(mine):
    output = call("check", f"{mine}:Raises", code=1)
    assert output.count("BROKEN") > 5
    assert output.count("Traceback") == 1
    assert output.count("minemodule.py:26\n") == output.count("AttributeError: 'Round'") - 1  # each with its place
    assert output.count("The same error as above.") == output.count("BROKEN") - 1


@pytest.mark.parametrize("width", [80, 160])
def test_list_has_every_name_and_every_column_in_one_table(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    output = call("list")
    head = next(line for line in output.splitlines() if line.startswith("method "))
    assert head.split() == ["method", "reads", "asks", "reports", "scales", "secure"]
    assert [name for name in [*discover(), "auto"] if f"\n{name} " not in output] == []
    assert "auto: another name of microcosm." in output
    assert "label_counts?" in output  # what microcosm reads only if all clients give it
    assert_fits(output, width)


@pytest.mark.parametrize("name", ["fedgs", "microcosm"])
def test_show_renders_markdown_within_80_columns(name):
    output = call("show", name)
    text, _, bibtex = output.partition("@")
    assert_fits(text)
    assert "``" not in text
    assert "|--" not in text
    assert "────" in text
    assert bibtex.strip().endswith("}")


def assert_fits(output, width=80):
    lines = output.splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    assert "…" not in output


def test_show_tells_needs_and_bytes():
    output = call("show", "power-of-choice", "--model", "softmax", "--inputs", "20", "--classes", 5, "--rounds", 4)
    # 20·5 + 5 = 105 numbers of 4 bytes: to 2·10 candidates down, from 10 up
    assert "105 numbers" in output
    assert f"{20 * 105 * 4:,}" in output
    assert f"{10 * 105 * 4:,}" in output
    assert "@article{cho2020client" in output
    assert "number of candidates" in output


def test_cite(file):
    assert call("cite", "uniform").startswith("@inproceedings{mcmahan2017")
    assert call("cite", file).count("@") == 2


def test_schema_is_json_and_knows_the_keys():
    known = json.loads(call("schema"))["properties"]
    assert {"rounds", "method", "sweep"} <= known.keys()
    assert [one["type"] for one in known["seeds"]["anyOf"]] == ["integer", "array"]  # seeds = 6, seeds = [0, 5]


def test_reproduce_lists_and_runs(tmp_path):
    assert "availability" in call("reproduce")
    file = tmp_path / "mine.toml"
    tables = {
        "paper": {"title": "Mine"},
        "table": [{"title": "Best", "metric": "best", "paper": {"main": {"full": 1}}}],
    }
    file.write_text(tomli_w.dumps(small(rounds=3, seeds=2) | tables))
    output = call("reproduce", file, "-o", tmp_path, "--rounds", 2, "--seeds", 1, "--only", "uniform", "-j", 1)
    assert "main, paper" in output
    assert "--only uniform --seeds 1 --rounds 2" in (tmp_path / "mine" / "mine.md").read_text()
    call("reproduce", file, "-o", tmp_path, "--page", tmp_path / "docs" / "page.md", "-q", "-j", 1)
    assert "4 finished of 4" in (tmp_path / "docs" / "page.md").read_text()


def test_reproduce_tells_what_the_last_one_lacks_before_the_first_is_played(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path / "nothing"))
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for file, over in zip(files, ({}, {"data": {"name": "cifar100", "clients": 4}}), strict=True):
        file.write_text(tomli_w.dumps(small(rounds=2) | over | {"paper": {"title": "Mine"}}))
    monkeypatch.setattr(
        "sys.argv", ["sortition", "reproduce", *map(str, files), "-o", str(tmp_path / "out"), "-j", "1"]
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "sortition data get cifar100" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_demo_runs_every_method_it_names(tmp_path):
    output = call("demo", "-o", tmp_path / "demo", "-j", 1, "--seeds", 1, "--rounds", 2)
    assert output.strip().splitlines()[-1].startswith("Next: 'sortition init mine.toml'")
    for name in ("uniform", "power-of-choice", "fedcor", "fedgs", "longfed", "hics", "fedss"):
        assert name in output


def test_the_demo_can_be_compared_by_seconds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = call("demo", "--seconds", 5, "-j", 1, "--seeds", 2)
    assert "main: test accuracy" in output
    assert "at 4." in output or "at 5 s" in output  # the last evaluation within five seconds
    for run in run_folder.find(tmp_path / "demo-seconds" / "runs"):
        assert run.config["until"] == {"seconds": 5.0}
        assert run.config["devices"]["speed_spread"] == 1.0
        assert run.records[-1]["clock"] >= 5.0
    page = (tmp_path / "demo-seconds" / "report.html").read_text()
    assert '<option value="seconds" selected' in page
    assert "Devices: speed 100, speed spread 1" in page
    assert not (tmp_path / "demo").exists()
    with pytest.raises(InputError, match="until must be within reach"):
        call("demo", "--seconds", 1e9, "-o", tmp_path / "never")


def test_a_mistake_is_one_line_and_code_2(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sortition", "run", "nothing.toml"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("sortition: The study's file must be one that exists")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "reproduce", "list", "show", "cite", "check", "demo", "schema", "data"])
def test_help_teaches(command):
    assert "Usage" in call(command, "--help")
