from __future__ import annotations

from tests.leaderboard.rows import table

from sortition.leaderboard.results import SCHEMA, read_stored_runs, write_runs
from sortition.leaderboard.suite import load_suite


def test_runs_are_kept_sorted_and_small(tmp_path):
    rows = table(load_suite(), {f"m{number}": 0.0 for number in range(14)}, seeds=8)
    write_runs(rows.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "a.parquet")
    write_runs(rows, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert (tmp_path / "a.parquet").stat().st_size < 400_000
    assert (
        read_stored_runs(tmp_path / "a.parquet").schema == read_stored_runs(tmp_path / "none.parquet").schema == SCHEMA
    )
