"""A folder may hold more runs than a study asks for: its tables are those of the study as it is now."""

from typer.testing import CliRunner

import sortition as so
from sortition.cli import app

STUDY = """
rounds = 1
cohort = 2
seeds = 3
data = { name = "digits", clients = 6, partition = "iid" }
model = "softmax"
local = { steps = 1, batch = 8, lr = 0.1 }
[[method]]
name = "uniform"
"""
BY_SIZE = '[[method]]\nname = "by-size"\n'
ARGUMENTS = {"data": "digits", "clients": 6, "rounds": 1, "cohort": 2, "model": "softmax", "progress": False}


def printed(*arguments):
    result = CliRunner().invoke(app, ["run", *map(str, arguments), "--jobs", "1"])
    assert result.exit_code == 0, result.output
    return result.output


def test_fewer_seeds_and_methods_are_what_is_printed(tmp_path):
    file, out = tmp_path / "study.toml", tmp_path / "runs"
    file.write_text(STUDY + BY_SIZE)
    assert "by-size" in printed(file, "-o", out)
    file.write_text(STUDY)
    told = printed(file, "-o", out, "--set", "seeds=2", "--resume")
    table, _, notes = told.partition("note:")
    assert "by-size" not in table
    assert next(line.split()[1] for line in table.splitlines() if line.strip().startswith("uniform")) == "2"
    assert "The folder holds 4 runs that are not of this study (method by-size, seed 2)" in " ".join(notes.split())


def test_a_part_of_a_study_is_printed_with_its_other_parts(tmp_path):
    file, out = tmp_path / "study.toml", tmp_path / "runs"
    file.write_text(STUDY + BY_SIZE)
    printed(file, "-o", out, "--only", "uniform")
    told = printed(file, "-o", out, "--only", "by-size", "--resume")
    assert "uniform" in told.partition("note:")[0]
    assert "not of this study" not in told


def test_a_result_is_of_what_was_asked(tmp_path):
    so.compare(["uniform", "by-size"], seeds=3, out=tmp_path, **ARGUMENTS)
    result = so.compare(["uniform"], seeds=2, out=tmp_path, **ARGUMENTS)
    assert {(run.method, run.seed) for run in result.runs} == {("uniform", 0), ("uniform", 1)}
    assert any("4 runs that are not of this study" in note for note in result.notes)
    page = result.report(tmp_path / "page.html").read_text()
    assert "by-size" not in page
    assert "by-size" not in result.to_latex()
