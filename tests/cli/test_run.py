"""What is told of runs: where they are, and which failed."""

from pathlib import Path

import pytest
import typer

from sortition.cli.exit_codes import exit_for
from sortition.cli.run import print_summary
from sortition.cli.shared_options import console
from sortition.studies.runs.runner import Execution


def test_a_log_is_named_only_where_there_is_one(tmp_path, capsys):
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    (tmp_path / "with" / "failure.log").write_text("why")
    failed = {str(tmp_path / name): "Disk full." for name in ("with", "without")}
    with pytest.raises(typer.Exit):
        exit_for(Execution(Path(tmp_path), failed), "")
    told = capsys.readouterr().err
    assert f"with: Disk full. (log: {tmp_path}/with/failure.log)" in told
    assert "without: Disk full.\n" in told


def test_brackets_and_colons_of_a_folder_are_printed_as_they_are(tmp_path, capsys):
    out = tmp_path / "r[bold]x:smile:"
    out.mkdir()
    print_summary(out, console(), out / "[red].html")
    told = capsys.readouterr().out
    assert f"runs: {out}\n" in told
    assert f"open: {out}/[red].html\n" in told
