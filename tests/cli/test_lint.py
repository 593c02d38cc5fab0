from __future__ import annotations

from typer.testing import CliRunner

from sortition.cli import app
from sortition.cli.lint import print_findings
from sortition.core import InputError
from sortition.studies.plan import plan, read

STUDY = """
rounds = 60
cohort = 5
seeds = 1
data = { name = "digits", clients = 50, partition = "iid" }
model = "softmax"
local = { steps = 2, lr = 0.1 }
method = [{ name = "uniform" }, { name = "hics" }, { name = "batch-partitioning", batch = 5 }]
"""


def run(*arguments):
    return CliRunner().invoke(app, ["lint", *map(str, arguments)])


def test_the_exit_code_says_whether_a_promise_is_broken():
    broken = run("hics", "batch-partitioning", "--secure-aggregation")
    assert broken.exit_code == 1
    assert "hics: unsound (single-updates): it needs bias-update of single clients" in broken.output
    assert run("batch-partitioning", "--secure-aggregation").exit_code == 0
    assert run("batch-partitioning", "--secure-aggregation", "--strict").exit_code == 1
    assert run("uniform", "--dp", "local").exit_code == 0
    assert isinstance(run("uniform").exception, InputError)
    assert isinstance(run("uniform", "--dp", "much").exception, InputError)


def test_a_study_promises_in_its_own_table(tmp_path, capsys):
    silent, promising = tmp_path / "silent.toml", tmp_path / "promising.toml"
    silent.write_text(STUDY)
    promising.write_text(STUDY + "guards = { minimum = 2 }\nprivacy = { secure_aggregation = true }\n")
    assert isinstance(run(silent).exception, InputError)
    assert run(silent, "--dp", "central").exit_code == 1
    found = run(promising)
    assert found.exit_code == 1
    assert "uniform: unsound (overlapping-sums)" in found.output  # 60 rounds of 50 clients
    assert "batch-partitioning: no promise is broken." in found.output
    print_findings(plan(read(promising)))
    assert "privacy: hics: unsound (label-recovery)" in capsys.readouterr().err
    print_findings(plan(read(silent)))
    assert capsys.readouterr().err == ""
    made = plan(read(promising)).runs[0]
    assert made.table()["privacy"]["secure_aggregation"] is True
    assert "privacy" not in plan(read(silent)).runs[0].table()
