from __future__ import annotations

import polars as pl
import pytest
from typer.testing import CliRunner
from workshop.leaderboard_page import page_markdown

from sortition.cli import app
from sortition.core.errors import InputError
from sortition.leaderboard import entries, suite, variants

SMALL = """
name = "small"
seeds = 3
clients = 12

[data.digits]
rounds = 3
data = { name = "digits" }
model = { name = "softmax" }
local = { steps = 1, batch = 5, lr = 0.1 }

[[cell]]
name = "a"
half = "tuning"
data = "digits"
partition = { name = "iid" }
availability = { name = "always" }
cohort = 3

[[cell]]
name = "b"
half = "held-out"
quick = true
data = "digits"
partition = { name = "shards", per_client = 2 }
availability = { name = "lognormal" }
cohort = 2
dropout = 0.2
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    path = tmp_path / "suite.toml"
    path.write_text(SMALL)
    whole = suite.load_suite
    monkeypatch.setattr(suite, "load_suite", lambda: whole(path))
    return tmp_path / "out"


def run(*arguments):
    result = CliRunner().invoke(app, ["leaderboard", "-j", "1", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_only_what_is_missing_is_run(small):
    run("-o", small, "--method", "by-size", "-q", "--half", "tuning")
    before = {path: path.stat().st_mtime_ns for path in small.rglob("summary.json")}
    assert len(before) == 2 * 3
    told = run("-o", small, "--method", "by-size", "--method", "microcosm", "-q")
    after = {path: path.stat().st_mtime_ns for path in small.rglob("summary.json")}
    assert len(after) == 2 * 3 * 3
    assert all(after[path] == when for path, when in before.items())
    assert "microcosm: " in told
    assert " of 3 by AUC" in told
    rows = pl.read_parquet(small / "runs.parquet")
    assert rows.height == 18
    assert rows["suite"].n_unique() == 1
    assert "## The half *held-out*" in page_markdown(suite.load_suite(), rows)


def test_a_method_of_ones_own_joins_by_its_import_path(small, tmp_path, monkeypatch):
    (tmp_path / "mine_for_the_board.py").write_text(
        "from sortition.core import Cohort, Selector, method\n"
        "@method\n"
        "class First(Selector):\n"
        "    def select(self, state, round):\n"
        "        return Cohort.uniform(round.available[: round.budget])\n"
    )
    monkeypatch.chdir(tmp_path)
    assert "First: " in run("-o", small, "--method", "mine_for_the_board:First", "-q", "--quick", "--seeds", "2")


def test_show_runs_nothing(small):
    run("-o", small, "--show", "-q")
    assert not list(small.rglob("summary.json"))


def test_the_best_alternative_of_the_tuning_half_runs_on_the_other(small, monkeypatch):
    monkeypatch.setattr(variants, "ALTERNATIVES", ("fedgs,alpha=3.0",))
    run("-o", small, "-q", "--method", "fedgs", "--method", "by-size")
    run("-o", small, "-q", "--tune")
    rows = pl.read_parquet(small / "runs.parquet")
    tuning = rows.filter(pl.col("half") == "tuning")
    means = {label: tuning.filter(pl.col("method") == label)["auc"].mean() for label in ("fedgs", "fedgs,alpha=3.0")}
    best = max(means, key=means.get)
    held = rows.filter((pl.col("half") == "held-out") & (pl.col("method") == best))
    assert held.height == 3
    assert f"{best} of 2" in page_markdown(suite.load_suite(), rows)


def test_all_methods_are_weighed_alike(small, monkeypatch):
    monkeypatch.setattr(entries.selectors, "discover", lambda: ["fedgs", "uniform"])
    monkeypatch.setattr(entries, "VARIANTS", ())
    run("-o", small, "-q")
    run("-o", small, "-q", "--weights", "size")
    rows = pl.read_parquet(small / "runs.parquet")
    text = page_markdown(suite.load_suite(), rows)
    assert "### Weighed alike" in text
    assert "reweight=size" not in text
    assert set(rows["method"]) == {"uniform", "fedgs", "uniform,reweight=size", "fedgs,reweight=size"}


@pytest.mark.parametrize("options", [("--tune", "--half", "tuning"), ("--tune", "--weights", "size")])
def test_what_excludes_each_other_is_refused(small, options):
    with pytest.raises(InputError, match="given --method, --tune or --weights"):
        run("-o", small, *options)
