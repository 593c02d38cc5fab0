from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.leaderboard.rows import table

from sortition.leaderboard import ranks_and_gains
from sortition.leaderboard.board import Board
from sortition.leaderboard.standings import gain_and_interval
from sortition.leaderboard.suite import load_suite

SUITE = load_suite()


def board(gains, **options):
    return Board(SUITE, SUITE.cells("held-out"), table(SUITE, gains, **options))


def test_methods_stand_by_their_mean_rank_with_gains_and_counts():
    found = board({"uniform": 0.0, "good": 0.05, "bad": -0.04, "same": 0.0}).standings("auc")
    assert [one.method for one in found][:1] == ["good"]
    by = {one.method: one for one in found}
    cells = len(SUITE.cells("held-out"))
    assert by["good"].rank == 1.0
    assert (by["good"].better, by["good"].worse) == (cells, 0)
    assert (by["bad"].better, by["bad"].worse) == (0, cells)
    assert (by["uniform"].better, by["uniform"].worse, by["uniform"].gain) == (0, 0, 0.0)
    assert by["good"].gain == pytest.approx(0.05, abs=0.002)
    assert by["good"].low < 0.05 < by["good"].high
    assert by["same"].better + by["same"].worse == 0


def test_nothing_unfinished_is_ranked():
    """A method with fewer seeds, or without a cell, is reported; the others are compared on all their seeds."""
    rows = table(SUITE, {"uniform": 0.0, "good": 0.05, "other": 0.01, "late": 0.2, "partial": 0.3})
    first = SUITE.cells("held-out")[0].name
    rows = rows.filter(~((rows["method"] == "late") & (rows["seed"] > 1)))
    rows = rows.filter(~((rows["method"] == "partial") & (rows["cell"] == first)))
    seen = Board(SUITE, SUITE.cells("held-out"), rows)
    assert seen.ranked == ["uniform", "good", "other"]
    assert seen.unfinished == {"late": 2 * 16, "partial": 4 * 15}
    assert seen.common_seeds == 4
    assert Board(SUITE, SUITE.cells("held-out"), rows.filter(rows["method"] != "uniform")).ranked == []


def test_rows_of_another_suite_do_not_count():
    rows = table(SUITE, {"uniform": 0.0, "good": 0.05}).with_columns(suite=ranks_and_gains.pl.lit("suite-0"))
    assert Board(SUITE, SUITE.cell, rows).ranked == []


def test_the_reference_is_never_ranked():
    assert "full" not in board({"uniform": 0.0, "full": 0.3, "good": 0.1}).ranked


def test_better_and_worse_are_corrected_over_all_methods_and_cells():
    """Thirty methods like uniform in sixteen cells: 480 tests, of which 24 alone would be significant at 5 %."""
    alike = {"uniform": 0.0, **{f"m{i}": 0.0 for i in range(30)}}
    found = board(alike, seeds=5, noise=0.01).standings("auc")
    assert sum(one.better + one.worse for one in found) == 0


def test_a_run_that_diverged_ranks_last_and_spoils_no_other_rank():
    rows = table(SUITE, {"uniform": 0.0, "good": 0.05, "broken": 0.02})
    first = SUITE.cells("held-out")[0].name
    here = (rows["cell"] == first) & (rows["method"] == "broken") & (rows["seed"] == 0)
    rows = rows.with_columns(auc=ranks_and_gains.pl.when(here).then(float("nan")).otherwise(rows["auc"]))
    found = {one.method: one for one in Board(SUITE, SUITE.cells("held-out"), rows).standings("auc")}
    assert found["good"].rank == 1.0
    assert found["broken"].rank == pytest.approx((15 * 2 + 3) / 16)
    assert found["good"].gain == pytest.approx(0.05, abs=0.002)
    assert found["broken"].worst == first
    assert np.isnan(found["broken"].gain)
    assert gain_and_interval(found["broken"]) == "diverged"


def test_two_seeds_rank_nobody():
    assert board({"uniform": 0.0, "good": 0.05}, seeds=2).ranked == []


def test_friedman_tells_a_difference_from_none():
    seen = board({"uniform": 0.0, "good": 0.05, "bad": -0.05})
    assert ranks_and_gains.rank_over_cells(seen.values("auc"), seen.ranked).p < 1e-4
    noise = board({"uniform": 0.0, "a": 0.0, "b": 0.0})
    assert ranks_and_gains.rank_over_cells(noise.values("auc"), noise.ranked).p > 0.01


def test_the_interval_is_students():
    x = np.array([0.1, 0.3, 0.2, 0.4])
    expected = stats.t.interval(0.95, 3, x.mean(), stats.sem(x))
    assert ranks_and_gains.mean_interval(x) == pytest.approx(expected)
    assert ranks_and_gains.mean_interval(x[:1]) == (-np.inf, np.inf)


def test_families_group_the_cells():
    seen = board({"uniform": 0.0, "good": 0.05})
    families = {cell.name: cell.families for cell in SUITE.cell}
    gains = ranks_and_gains.gains_by_family(seen.values("auc"), families, "dropout", ["good"])
    assert gains.keys() == {"dropouts", "no dropouts"}
    assert gains["dropouts"]["good"] == pytest.approx(0.05, abs=0.005)
