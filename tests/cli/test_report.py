"""``sortition report``, ``watch`` and ``export`` as a user calls them."""

from __future__ import annotations

import pytest
from tests.report.conftest import study, write_run  # noqa: F401 (study is a fixture)
from typer.testing import CliRunner

from sortition.cli import app
from sortition.core.errors import InputError

runner = CliRunner()


def call(*arguments: object) -> str:
    done = runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_report_goes_into_the_run_folder(study):  # noqa: F811
    assert call("report", study) == f"open: {study / 'runs.html'}\n"
    assert (study / "runs.html").exists()


def test_open_shows_the_page(study, monkeypatch):  # noqa: F811
    shown = []
    monkeypatch.setattr("typer.launch", shown.append)
    call("report", study, "--open")
    assert shown == [(study / "runs.html").resolve().as_uri()]


def test_a_column_needs_figures(study):  # noqa: F811
    with pytest.raises(InputError, match="--column must be given with --figures; got --column alone"):
        call("report", study, "--column", "MB")
    assert not (study / "runs.html").exists()


def test_columns_are_listed_so_that_they_can_be_copied(study, tmp_path):  # noqa: F811
    with pytest.raises(InputError, match="known are 'last 3, %', '− uniform', 'p', 'all rounds, %', "):
        call("report", study, "--figures", tmp_path / "figures", "--column", "Megabytes")


def test_the_margin_decides(tmp_path):
    for seed in range(6):
        write_run(tmp_path / "runs", "uniform", seed, [0.5, 0.5])
        write_run(tmp_path / "runs", "fedgs", seed, [0.5, 0.54 + 0.002 * (-1) ** seed])  # two points on average
    call("report", tmp_path / "runs", "-o", tmp_path / "strict.html")
    call("report", tmp_path / "runs", "-o", tmp_path / "wide.html", "--margin", 3)
    assert "fedgs beats uniform by 2.00 points" in (tmp_path / "strict.html").read_text(encoding="utf-8")
    assert "fedgs and uniform are practically equal" in (tmp_path / "wide.html").read_text(encoding="utf-8")


def test_the_studys_margin_decides_and_the_options_wins(tmp_path):
    runs = tmp_path / "runs"
    for seed in range(6):
        write_run(runs, "uniform", seed, [0.5, 0.5])
        write_run(runs, "fedgs", seed, [0.5, 0.54 + 0.002 * (-1) ** seed])
    (runs / "study.json").write_text('{"title": "", "margin": 3.0}')
    call("report", runs, "-o", tmp_path / "wide.html")
    call("report", runs, "-o", tmp_path / "strict.html", "--margin", 0.5)
    assert "fedgs and uniform are practically equal" in (tmp_path / "wide.html").read_text(encoding="utf-8")
    assert "fedgs beats uniform by 2.00 points" in (tmp_path / "strict.html").read_text(encoding="utf-8")
    call("export", runs, "-o", tmp_path / "tables")
    assert "practically equal" in (tmp_path / "tables" / "comparisons.csv").read_text()
    write_run(tmp_path / "other", "uniform", 0, [0.5], setting="other")
    with pytest.raises(InputError, match=r"must have the same margin; got 0\.5, 3\. Give one with --margin"):
        call("report", runs, tmp_path / "other")


def test_watching_finished_runs_ends_at_once(study):  # noqa: F811
    said = call("watch", study, "--no-serve")
    assert said == f"live: {study / 'runs.html'}\n{study / 'runs.html'}: 4 of 4 runs done, 12 of 12 rounds\n"


def test_export_writes_every_table(study, tmp_path):  # noqa: F811
    made = call("export", study, "--format", "parquet").splitlines()
    assert [path.rsplit("/", 1)[-1] for path in made] == [
        f"{name}.parquet" for name in ("rounds", "runs", "methods", "comparisons")
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="at least one run to export"):
        call("export", tmp_path / "empty")
