from __future__ import annotations

import polars as pl
import pytest
from tests.leaderboard.rows import table
from workshop.leaderboard_excerpts import best_methods, method_section

from sortition.leaderboard.results import SCHEMA
from sortition.leaderboard.suite import load_suite

SUITE = load_suite()
ROWS = table(SUITE, {"uniform": 0.0, "fedgs": 0.05, "hics": -0.02, "full": 0.08})


def test_a_method_stands_where_its_runs_put_it():
    text = method_section(SUITE, ROWS, "fedgs")
    held, tuning = text.split("On the half *tuning*")
    for part in (held, tuning):
        row = next(line for line in part.splitlines() if line.startswith("| fedgs"))
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        assert cells[1] == "1 of 3 (1.0)"
        assert cells[2].startswith("+5.")
    better = [cell.strip() for cell in next(x for x in held.splitlines() if x.startswith("| fedgs")).split("|")][4]
    assert better == "16/0"


def test_families_where_it_gains_most_and_least():
    poor = [cell.name for cell in SUITE.cell if cell.families["availability"] == "markov"]
    drop = pl.when((pl.col("method") == "fedgs") & pl.col("cell").is_in(poor)).then(0.1).otherwise(0.0)
    rows = ROWS.with_columns((pl.col("auc") - drop).cast(pl.Float32))
    held = method_section(SUITE, rows, "fedgs").split("On the half *tuning*")[0]
    assert "availability: markov (-5." in held or "availability: markov (-4." in held


def test_the_baseline_and_the_reference_are_called_so():
    assert "the baseline" in method_section(SUITE, ROWS, "uniform")
    assert "never ranked" in method_section(SUITE, ROWS, "full")


def test_what_was_not_run_is_said_to_be_so():
    nothing = pl.DataFrame(schema=SCHEMA)
    assert method_section(SUITE, nothing, "fedgs").count("not run") == 2
    assert best_methods(SUITE, nothing).startswith("Not run")
    assert "fedss is not ranked, 0 of 128 runs" in method_section(SUITE, ROWS, "fedss")


def test_variants_stand_beside_their_method():
    rows = table(SUITE, {"uniform": 0.0, "microcosm": 0.03, "microcosm-sizes": 0.01})
    text = method_section(SUITE, rows, "microcosm")
    assert "| microcosm-sizes" in text
    assert "microcosm-bias is not ranked" in text


@pytest.mark.parametrize(
    ("knowledge", "names"),
    [
        ("who is available", ["plain"]),
        ("label counts too", ["labelled", "plain"]),
        ("no label counts, but numbers", ["asking", "plain"]),
        ("no label counts, but single", ["spy", "asking", "plain"]),
        ("everything", ["spy", "labelled", "asking"]),
    ],
)
def test_the_best_are_named_by_what_the_server_may_know(knowledge, names):
    gains = {"uniform": 0.0, "plain": 0.01, "asking": 0.02, "labelled": 0.03, "spy": 0.04, "bad": -0.01}
    rows = table(SUITE, gains).with_columns(
        pl.when(pl.col("method") == "labelled").then(pl.lit("sizes, label_counts")).otherwise("reads").alias("reads"),
        pl.when(pl.col("method") == "asking").then(pl.lit("loss")).otherwise("asks").alias("asks"),
        pl.when(pl.col("method") == "spy").then(pl.lit("update")).otherwise("reports").alias("reports"),
    )
    row = next(line for line in best_methods(SUITE, rows).splitlines() if line.startswith(f"| {knowledge}"))
    assert [part.split("`")[1] for part in row.split("|")[2].split(",")] == names


def test_a_method_is_named_once_in_its_best_variant():
    gains = {"uniform": 0.0, "microcosm": 0.05, "microcosm-estimate": 0.06, "microcosm-bias": 0.04, "fedgs": 0.01}
    text = best_methods(SUITE, table(SUITE, gains))
    row = next(line for line in text.splitlines() if line.startswith("| everything"))
    assert "`microcosm-estimate` (+6" in row or "`microcosm-estimate` (+5" in row
    assert "`microcosm`" not in row
    assert "`fedgs`" in row
    counted = next(line for line in text.splitlines() if line.startswith("| availability: markov"))
    markov = sum(c.half == "held-out" and c.families["availability"] == "markov" for c in SUITE.cell)
    assert counted.split("|")[2].strip() == str(markov)


def test_where_nothing_gains_uniform_is_enough():
    text = best_methods(SUITE, table(SUITE, {"uniform": 0.0, "bad": -0.05}))
    assert "uniform is enough" in text
