"""Forged results of suite 2 are rejected: swapped labels, edited records, copied seeds, other federations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.leaderboard.small_tracks import CONFIGURATIONS, METHODS, small_suite, write_suite
from typer.testing import CliRunner

from sortition.cli import app
from sortition.leaderboard import run_rows
from sortition.leaderboard.queue import find_missing_jobs, play_jobs
from sortition.leaderboard.tracks import TrackSuite
from sortition.leaderboard.verify import Report, draw_rows, verify

Forge = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrackSuite, Path]:
    folder = tmp_path_factory.mktemp("honest")
    suite = small_suite(folder)
    cells = [cell for cell in suite.cell if cell.quick]
    play_jobs(suite, find_missing_jobs(suite, cells, METHODS, folder, seeds=2), folder)
    return suite, folder


@pytest.fixture
def results(honest: tuple[TrackSuite, Path], tmp_path: Path) -> tuple[TrackSuite, Path]:
    suite, folder = honest
    for path in folder.rglob("*.parquet"):
        copy = tmp_path / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return suite, tmp_path


def checked(suite: TrackSuite, folder: Path, *, share: float = 1.0) -> Report:
    cells = [cell for cell in suite.cell if cell.quick]
    return verify(suite, folder, CONFIGURATIONS, cells=cells, share=share, seed=5)


def forge(folder: Path, change: Forge, cell: str = "rounds/r-first") -> None:
    path = folder / f"{cell}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


def is_row(label: str, seed: int = 0) -> pl.Expr:
    return (pl.col("label") == label) & (pl.col("seed") == seed)


def test_honest_results_are_verified(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    report = checked(suite, folder)
    assert report.problems == []
    assert report.has_passed
    assert (report.rows, len(report.rerun)) == (12, 12)


def test_a_tenth_is_drawn_by_the_verifiers_seed() -> None:
    rows = [{"seed": seed} for seed in range(100)]
    assert len(draw_rows(rows, 0.1, 0)) == 10
    assert draw_rows(rows, 0.1, 0) == draw_rows(rows, 0.1, 0) != draw_rows(rows, 0.1, 1)
    assert len(draw_rows(rows[:3], 0.1, 0)) == 1


def test_swapped_labels_are_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    names = {"power-of-choice": "f3ast", "f3ast": "power-of-choice"}

    def swap(rows: pl.DataFrame) -> pl.DataFrame:
        swapped = pl.col("label").replace(names)
        return rows.with_columns(label=swapped, row=pl.col("row").replace(names))

    forge(folder, swap)
    problems = checked(suite, folder).problems
    assert any('f3ast is {"name": "f3ast"} in the suite' in problem for problem in problems)

    def swap_all(rows: pl.DataFrame) -> pl.DataFrame:
        histories = rows.filter(is_row("f3ast")).select("choices", "accuracies")
        return rows.with_columns(
            choices=pl.when(is_row("power-of-choice")).then(pl.lit(histories["choices"][0])).otherwise("choices")
        )

    suite, folder = results
    forge(folder, swap)  # back
    forge(folder, swap_all)
    assert checked(suite, folder).problems == ["r-first, power-of-choice, seed 0: other clients were chosen."]


def test_edited_accuracies_are_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    better = pl.col("accuracies").list.eval(pl.element() + 0.01)
    forge(
        folder, lambda rows: rows.with_columns(accuracies=pl.when(is_row("f3ast")).then(better).otherwise("accuracies"))
    )
    assert checked(suite, folder).problems == [
        "r-first, f3ast, seed 0: the curve differs, stored less played again by +1.00 points on average, by up to 1.00."
    ]


def test_edited_clocks_are_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    faster = pl.col("clocks").list.eval(pl.element() * 0.99)
    forge(
        folder,
        lambda rows: rows.with_columns(clocks=pl.when(is_row("f3ast", 1)).then(faster).otherwise("clocks")),
        cell="seconds/s-first",
    )
    assert checked(suite, folder).problems == ["s-first, f3ast, seed 1: the clock differs."]


def test_a_copied_seed_is_rejected_without_playing(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results

    def copy(rows: pl.DataFrame) -> pl.DataFrame:
        copied = rows.filter(is_row("f3ast", 0)).with_columns(seed=pl.lit(1, pl.Int32))
        return pl.concat([rows.filter(~is_row("f3ast", 1)), copied])

    forge(folder, copy)
    report = checked(suite, folder)
    assert "r-first, f3ast: the seeds 0, 1 have one and the same history." in report.problems
    assert any("data or partition are not those of uniform" in problem for problem in report.problems)
    assert report.rerun == []
    assert not report.has_passed


def test_a_cut_curve_a_longer_run_and_missing_rounds_are_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    cut = pl.col("accuracies").list.head(2)
    forge(folder, lambda rows: rows.with_columns(accuracies=pl.when(is_row("f3ast")).then(cut).otherwise("accuracies")))
    forge(
        folder,
        lambda rows: rows.with_columns(
            rounds=pl.when(is_row("f3ast", 1)).then(pl.lit(9, pl.Int32)).otherwise("rounds")
        ),
        cell="seconds/s-first",
    )
    problems = checked(suite, folder).problems
    assert len(problems) == 2
    assert all("the curve must have the" in problem for problem in problems)


def test_rows_of_another_federation_cell_or_suite_are_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    forge(
        folder,
        lambda rows: rows.with_columns(
            federation=pl.when(is_row("f3ast")).then(pl.lit("0" * 64)).otherwise("federation")
        ),
    )
    (folder / "seconds" / "s-first.parquet").write_bytes((folder / "rounds" / "r-first.parquet").read_bytes())
    problems = checked(suite, folder).problems
    assert "r-first, f3ast, seed 0: the federation is not that of the cell." in problems
    assert "s-first, uniform, seed 0: it is of the cell r-first of the track rounds." in problems
    forge(folder, lambda rows: rows.with_columns(suite=pl.lit("small-00000000")))
    assert any("it is of the suite small-00000000" in problem for problem in checked(suite, folder).problems)


def test_a_configuration_that_the_suite_does_not_state_is_rejected(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    tuned = pl.lit('{"d": 10, "name": "power-of-choice"}')
    forge(
        folder,
        lambda rows: rows.with_columns(
            configuration=pl.when(is_row("power-of-choice")).then(tuned).otherwise("configuration")
        ),
    )
    problems = checked(suite, folder).problems
    assert len(problems) == 1
    assert 'power-of-choice is {"name": "power-of-choice"} in the suite' in problems[0]
    forge(folder, lambda rows: rows.with_columns(information=pl.lit("public")))
    assert any("its information class is scalars, not public" in problem for problem in checked(suite, folder).problems)


def test_a_run_that_is_said_to_have_failed_must_fail_again(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    failed = pl.lit(run_rows.FAILED)
    forge(folder, lambda rows: rows.with_columns(status=pl.when(is_row("f3ast")).then(failed).otherwise("status")))
    assert checked(suite, folder).problems == [
        "r-first, f3ast, seed 0: it is stored as failed; played again it is done."
    ]


def test_methods_with_the_same_choices_are_noted(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    choices = pl.read_parquet(folder / "rounds" / "r-first.parquet").filter(is_row("uniform"))["choices"][0]
    forge(
        folder,
        lambda rows: rows.with_columns(choices=pl.when(is_row("f3ast")).then(pl.lit(choices)).otherwise("choices")),
    )
    assert checked(suite, folder).notes == ["f3ast, uniform made the same choices in 1 cells: r-first."]


def test_the_command_exits_with_1_where_results_are_forged(results: tuple[TrackSuite, Path], tmp_path: Path) -> None:
    _, folder = results
    path = str(write_suite(tmp_path))
    arguments = ["leaderboard", "--suite", path, "-o", str(folder), "--verify", "--verify-share", "0.2", "--quiet"]
    honest = CliRunner().invoke(app, arguments)
    assert honest.exit_code == 0, honest.output
    assert "verified: small-" in honest.output
    forge(folder, lambda rows: rows.with_columns(choices=pl.lit("0" * 64)))
    assert CliRunner().invoke(app, [*arguments[:-3], "--verify-share", "1.0", "--quiet"]).exit_code == 1


def test_a_hint_on_processors_comes_only_where_nothing_else_is_wrong(results: tuple[TrackSuite, Path]) -> None:
    suite, folder = results
    better = pl.col("accuracies").list.eval(pl.element() + 0.01)
    forge(
        folder, lambda rows: rows.with_columns(accuracies=pl.when(is_row("f3ast")).then(better).otherwise("accuracies"))
    )
    assert checked(suite, folder).may_be_rounding
    forge(folder, lambda rows: rows.with_columns(data=pl.when(is_row("f3ast")).then(pl.lit("x")).otherwise("data")))
    report = checked(suite, folder)
    assert report.problems
    assert not report.may_be_rounding
