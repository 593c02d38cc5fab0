"""The queue of suite 2 runs what is missing, keeps it, goes on after a stop, and counts failures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.leaderboard.small_tracks import CONFIGURATIONS, METHODS, small_suite, write_suite
from typer.testing import CliRunner

from sortition.cli import app
from sortition.leaderboard import queue, run_rows, run_seconds
from sortition.leaderboard.entrants import Entrant
from sortition.leaderboard.queue import CpuLimit, find_missing_jobs, play_jobs
from sortition.leaderboard.tracks import TrackSuite, load_tracks
from sortition.leaderboard.tuning import SEEDS, tuned_entrant, tuning_cells, tuning_gains
from sortition.studies.runs import runner


def played(suite: TrackSuite, folder: Path, *, track: str = "rounds", seeds: int | None = None) -> pl.DataFrame:
    cells = suite.cells(track)
    play_jobs(suite, find_missing_jobs(suite, cells, METHODS, folder, seeds=seeds), folder)
    return run_rows.read_cells(suite, folder, cells)


def test_missing_runs_are_played_once_and_kept_as_one_small_file_a_cell(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    rows = played(suite, tmp_path / "out", seeds=2)
    assert rows.height == 3 * 3 * 2
    assert set(rows["status"]) == {"done"}
    assert rows["rounds"].unique().to_list() == [6]
    assert all(evaluated.to_list() == [2, 4, 6] for evaluated in rows["evaluated"])
    assert find_missing_jobs(suite, suite.cells("rounds"), METHODS, tmp_path / "out", seeds=2) == []
    files = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.parquet"))
    assert files == [Path("rounds/r-first.parquet"), Path("rounds/r-second.parquet"), Path("rounds/r-tuning.parquet")]
    assert not list((tmp_path / "out" / "work").rglob("rounds.jsonl"))
    (job, *_) = find_missing_jobs(suite, suite.cells("rounds"), METHODS, tmp_path / "out")
    assert list(job.missing_entrants) == [2]


def test_runs_of_time_end_at_the_budget(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    rows = played(suite, tmp_path / "out", track="seconds", seeds=2)
    (cell,) = suite.cells("seconds")
    assert cell.seconds is not None
    for row in rows.iter_rows(named=True):
        assert row["clock"] >= cell.seconds or row["rounds"] == 18
        assert row["clocks"][-1] == row["clock"]


def test_seeds_share_data_and_partition_and_methods_choose_otherwise(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    rows = played(suite, tmp_path / "out", seeds=2).filter(pl.col("cell") == "r-first")
    for seed in (0, 1):
        of_seed = rows.filter(pl.col("seed") == seed)
        assert of_seed["partition"].n_unique() == 1
        assert of_seed["choices"].n_unique() == 3


def test_a_stopped_queue_goes_on_and_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = small_suite(tmp_path)
    whole = played(suite, tmp_path / "whole", seeds=2).drop("milliseconds", "seconds")
    execute = runner.execute
    calls = []

    def stopping(*arguments: object, **options: object) -> runner.Execution:
        execution = execute(*arguments, **options)  # type: ignore[arg-type]
        calls.append(1)
        execution.interrupted = len(calls) == 2
        return execution

    monkeypatch.setattr(runner, "execute", stopping)
    jobs = find_missing_jobs(suite, suite.cells("rounds"), METHODS, tmp_path / "parts", seeds=2)
    assert play_jobs(suite, jobs, tmp_path / "parts").interrupted
    assert len(calls) == 2
    monkeypatch.setattr(runner, "execute", execute)
    assert played(suite, tmp_path / "parts", seeds=2).drop("milliseconds", "seconds").equals(whole)


def test_a_method_that_cannot_work_in_a_cell_fails_there_and_others_do_not(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    (cell,) = [cell for cell in suite.cells("rounds") if cell.name == "r-first"]
    entrants = [METHODS[0], Entrant("fedss", "fedss", {"by": "groups"})]
    outcome = play_jobs(suite, find_missing_jobs(suite, [cell], entrants, tmp_path / "out", seeds=2), tmp_path / "out")
    assert set(outcome.failed) == {("r-first", "fedss", 0), ("r-first", "fedss", 1)}
    rows = run_rows.read_cells(suite, tmp_path / "out", [cell])
    assert dict(rows.group_by("label").agg(pl.first("status")).iter_rows()) == {"uniform": "done", "fedss": "failed"}
    assert "groups" in rows.filter(pl.col("label") == "fedss")["reason"][0]
    assert find_missing_jobs(suite, [cell], entrants, tmp_path / "out", seeds=2) == []
    (again,) = find_missing_jobs(suite, [cell], entrants, tmp_path / "out", seeds=2, retry=True)
    assert again.n_runs == 2


def test_a_run_beyond_the_limit_of_processor_seconds_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = small_suite(tmp_path).model_copy(update={"longest_run": 1e-9})
    monkeypatch.setattr(queue.lockstep, "group_key", lambda run: None)
    (cell,) = [cell for cell in suite.cells("rounds") if cell.name == "r-first"]
    outcome = play_jobs(
        suite, find_missing_jobs(suite, [cell], METHODS[:1], tmp_path / "out", seeds=1), tmp_path / "out"
    )
    (reason,) = outcome.failed.values()
    assert "took more than 1e-09 processor seconds" in reason
    assert CpuLimit(1.0).seconds == 1.0


def test_no_run_is_begun_when_the_time_is_up(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    jobs = find_missing_jobs(suite, suite.cells("rounds"), METHODS, tmp_path / "out")
    outcome = play_jobs(suite, jobs, tmp_path / "out", stop_at=0.0)
    assert (outcome.played, outcome.time_is_up, outcome.interrupted) == (0, True, False)
    arguments = ["leaderboard", "--suite", str(write_suite(tmp_path)), "-o", str(tmp_path / "out"), "--hours", "0"]
    result = CliRunner().invoke(app, [*arguments, "--method", "f3ast", "--quick"])
    assert result.exit_code == 0, result.output
    assert "stopped; the same command goes on" in result.output


def test_the_cheapest_cell_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = small_suite(tmp_path)
    seconds = {"r-tuning": 3.0, "r-first": 2.0, "r-second": 1.0}
    monkeypatch.setattr(queue, "estimated_seconds", lambda suite, cell, row: seconds[cell.name])
    jobs = find_missing_jobs(suite, suite.cells("rounds"), METHODS, tmp_path / "out")
    assert [job.cell.name for job in jobs] == ["r-second", "r-first", "r-tuning"]


def test_tuning_chooses_the_largest_gain_and_the_default_where_none_exceeds_it(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    cells = tuning_cells(suite, "rounds")
    assert [cell.name for cell in cells] == ["r-tuning"]
    candidates = CONFIGURATIONS.candidates(METHODS[1])
    play_jobs(
        suite,
        find_missing_jobs(suite, cells, [METHODS[0], *candidates], tmp_path / "out", seeds=SEEDS),
        tmp_path / "out",
    )
    results = run_rows.read_cells(suite, tmp_path / "out", cells)
    gains = tuning_gains(suite, "rounds", candidates, results)
    chosen = tuned_entrant(suite, "rounds", candidates, results)
    assert len(gains) == 3
    assert chosen is not None
    assert chosen.label == max(gains, key=lambda label: gains[label])
    without = results.filter(pl.col("label") != candidates[2].label)
    assert tuned_entrant(suite, "rounds", candidates, without) is None
    equal = pl.concat(
        [
            results.filter(pl.col("label") == candidates[0].label).with_columns(label=pl.lit(candidate.label))
            for candidate in candidates
        ]
        + [results.filter(pl.col("label") == "uniform")]
    )
    assert tuned_entrant(suite, "rounds", candidates, equal) == candidates[0]


def test_the_command_runs_shows_and_estimates_a_suite(tmp_path: Path) -> None:
    path = str(write_suite(tmp_path))
    out = str(tmp_path / "out")
    common = ["leaderboard", "--suite", path, "-o", out, "--method", "f3ast"]
    result = CliRunner().invoke(app, [*common, "--quick", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "rounds, default: f3ast is ranked among 2." in result.output
    assert "seconds, default: f3ast is ranked among 2." in result.output
    shown = CliRunner().invoke(app, [*common, "--show", "--track", "rounds"])
    assert shown.exit_code == 0, shown.output
    assert "f3ast lacks" in shown.output
    estimate = CliRunner().invoke(app, [*common, "--estimate"])
    assert estimate.exit_code == 0, estimate.output
    assert "hours" in estimate.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--verify"], "--verify must be given with --suite 2"),
        (["--suite", "2", "--weights", "size"], "--weights must be left out in suite 2"),
        (["--suite", "2", "--tune", "--show"], "leaderboard must be given one of --show"),
        (["--suite", "2", "--track", "hours"], "Unknown track 'hours'"),
        (["--suite", "2", "--jobs", "2"], "--jobs must be 1 in suite 2"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["leaderboard", *options])
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


def test_every_cell_of_suite_2_has_a_measured_cost() -> None:
    suite = load_tracks()
    for cell in suite.cell:
        assert cell.name in run_seconds.load_measured_costs()["uniform"], cell.name
        assert (
            run_seconds.estimated_seconds(suite, cell, "ocs")
            > run_seconds.estimated_seconds(suite, cell, "uniform")
            > 0
        )
    assert run_seconds.estimated_seconds(suite, suite.cell[0], "a method of one's own") > 0
