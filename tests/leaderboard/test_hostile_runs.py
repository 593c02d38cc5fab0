"""A table of runs, or a run's folder, that somebody else made or damaged."""

from __future__ import annotations

import json
import os

import polars as pl
import pytest
from tests.report.conftest import write_run

from sortition.core import StorageError
from sortition.leaderboard import run_rows
from sortition.leaderboard.results import SCHEMA, read_stored_runs, run_row
from sortition.results.run_folder import Run


def test_a_table_that_is_none_is_refused(tmp_path):
    path = tmp_path / "runs.parquet"
    pl.DataFrame(schema=SCHEMA).write_parquet(path)
    sound = path.read_bytes()
    assert read_stored_runs(path).schema == SCHEMA
    damaged = sound[: len(sound) // 2] + bytes(20) + sound[len(sound) // 2 + 20 :]
    for content in (b"", b"PAR1xxxxPAR1", sound[:-9], damaged):
        path.write_bytes(content)
        with pytest.raises(StorageError, match="no table of a leaderboard's runs"):
            read_stored_runs(path)
    pl.DataFrame({"suite": [1]}).write_parquet(path)
    with pytest.raises(StorageError, match="no table of a leaderboard's runs"):
        read_stored_runs(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StorageError, match="it is not a file"):
        read_stored_runs(path)


@pytest.mark.parametrize("summary", [{}, {"figures": {}}, {"figures": {}, "rounds": 3, "totals": {"passes": "x"}}])
def test_a_run_without_the_figures_is_refused(tmp_path, summary):
    home = write_run(tmp_path, "uniform", 0, [0.2, 0.4])
    (home / "summary.json").write_text(json.dumps({"status": "done", **summary}))
    with pytest.raises(StorageError, match="no finished run of a leaderboard"):
        run_row(Run(home))


@pytest.mark.parametrize(
    "column",
    [
        {"accuracies": pl.Series([[0.5] * 6_000_000], dtype=pl.List(pl.Float32))},
        {"reason": pl.Series(["x" * 80_000_000])},
    ],
)
def test_a_small_file_of_a_cell_that_unpacks_to_very_much_is_refused(tmp_path, column):
    path = tmp_path / "cell.parquet"
    run_rows.rows_table([{"suite": "2"}]).with_columns(**column).write_parquet(path)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(StorageError, match="more than the 67,108,864 that its size allows"):
        run_rows.read_rows(path)
