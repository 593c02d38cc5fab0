"""The page docs/leaderboard.md: standings on both halves of the suite, by family of scenario, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.ranks_and_gains import gains_by_family, rank_over_cells
from sortition.leaderboard.standings import points_text, standings_table
from sortition.leaderboard.suite import HALVES, Suite
from sortition.leaderboard.variants import candidate_labels, choose_tuned_labels, plain_rows, tuned_rows, weighed_rows
from sortition.results.table import Table
from sortition.selectors import VARIANTS, discover, variant_entry
from workshop.leaderboard_diagram import draw_diagram

KINDS = ("data", "partition", "availability", "cohort", "dropout")
METHODS_BY_FAMILY = 8  # columns of the tables by family
INTRODUCTION = """# Leaderboard, suite 1: by rounds

Which selection method should one use where all devices are equally fast? The suite `{version}` has {cells} frozen
federations of {clients} clients, in which every method ran with its default parameters. [Suite 2](leaderboard-2.md) is
newer: it asks by the clock, too, on other federations and under [rules](leaderboard-rules.md) by which others can join.
[What the words mean](#what-the-words-mean) stands below the tables.
"""
DEFINITIONS = """## What the words mean

A federation, or cell, is data × partition × availability × cohort × dropout. A seed is one partition, initial model,
availability and order of batches, shared by all methods.

**AUC** is the mean test accuracy over the rounds of a run: who learns faster stands higher. **Last 10** is the mean
over the last ten rounds. A *gain* is a method's figure minus that of uniform sampling on the same seeds, in points of
accuracy, averaged over cells; its interval takes the cells as a sample. *Better/worse* counts the cells where the
difference from uniform is significant at 5 % (paired t, Holm's correction over all methods and cells of the table).
*MB* (all traffic of a run), *passes* (over clients' data, a round) and *ms* (of the selection itself, a round) are
means over cells.

Microcosm's defaults were chosen on the half *tuning* and frozen before any run of the half *held-out*. One change came
later, for safety and without a look at results: a client that is silent twice running has had its turn; the cells with
dropouts were run with it. All rows of Microcosm here are of its first edition: today's defaults would need
`learn_ledger = false`, `repay_mixture = false`, `seconds = "ignored"` and `estimate = false` (`true` for `-estimate`)
to choose as it did. The other methods have the defaults of their papers or of their files. `microcosm` is what
`auto` resolves to where label counts are given; `-estimate` also reads sketches of updates, `-updates` and `-bias` read
sketches or the output layer's bias in place of label counts, `-sizes` reads sizes alone. These variants are
parameters of one method. This is how to write them in a study (in Python: `so.load("microcosm", by="updates")`):

{variants}

What the suite does not show: all devices are equally fast, so methods that choose by speed (FedCS, TiFL, Oort's system
factor, CS-UCB-Q) cannot gain by it, and FedCS is uniform sampling here. Batch partitioning pays for privacy over
rounds, which accuracy does not show.

`make leaderboard` writes this page.
"""
WHY_ABSENT = {  # method → why it has no runs
    "full": "trains everybody, beyond the budget, and is never ranked",
    "greedyfed": "the server evaluates models of many subsets of every cohort, which takes far longer than a round",
    "poisson": "it is uniform sampling with cohorts of random size, for privacy budgets",
}
JOIN = """## Join

```
sortition leaderboard --method mymethods.neglected:Neglected -o runs/leaderboard
```

runs what is missing and says where the method stands. `--quick` runs six cells in some minutes, `--half tuning` the
half that methods may be tuned on. `--tune` runs the methods' alternatives on the half *tuning* and the best of them on
the half *held-out*; `--weights size` runs all methods weighed alike.

Whoever changes a cell changes the suite's name: results of two suites never mix.
"""
TUNED = """### Tuned

Each method of this table has the parameters that did best on the half *tuning*, by mean AUC: {chosen}. Those without an
alternative have their defaults. The runs of both halves are in the file of all runs.
"""
WEIGHED = """### Weighed alike

A method chooses whom, and how much each update weighs. Here every cohort is weighed by its clients' sizes (`reweight =
"size"`), uniform's too, so that only the choice differs.
"""


def page_markdown(suite: Suite, rows: pl.DataFrame, picture: str | None = None) -> str:
    """Return the whole page as Markdown; ``picture`` is the diagram's address, where there is one."""
    plain = plain_rows(rows)
    parts = [INTRODUCTION.format(version=suite.version, cells=len(suite.cell), clients=suite.clients).rstrip()]
    for half in reversed(HALVES):
        board = Board(suite, suite.cells(half), plain)
        parts.append(f"## The half *{half}*")
        parts += _standings_parts(board)
        if half == "held-out" and board.ranked and picture:
            parts.append(f"![Critical-difference diagram]({picture})")
        parts += _methods_without_runs(board)
        if half == "held-out" and board.ranked:
            parts += ["### By family of scenario", *(table.markdown() for table in _family_tables(board))]
            parts += _tuned_and_weighed_parts(suite, rows)
    definitions = DEFINITIONS.format(variants=variants_table(plain).markdown()).rstrip()
    parts += [definitions, "## The cells", _cells_table(suite).markdown(), JOIN]
    return "\n\n".join(parts).rstrip() + "\n"


def variants_table(rows: pl.DataFrame) -> Table:
    """Return the variants that have runs, each as an entry of a study."""
    methods_with_runs = set(rows["method"])
    table = Table("", ["variant", "in a study"])
    for label in VARIANTS:
        if label in methods_with_runs:
            table.rows.append([f"`{label}`", f"`{variant_entry(label)}`"])
    return table


def _tuned_and_weighed_parts(suite: Suite, rows: pl.DataFrame) -> Iterator[str]:
    """Yield the sections on tuned methods and on methods weighed alike, on the held-out half, where they have run."""
    cells = suite.cells("held-out")
    best_by_method = choose_tuned_labels(suite, rows)
    if best_by_method:
        board = Board(suite, cells, tuned_rows(suite, rows))
        if board.ranked:
            labels = [
                f"{label} of {len(candidate_labels()[method])}" for method, label in sorted(best_by_method.items())
            ]
            yield TUNED.format(chosen=", ".join(labels)).strip()
            yield from _standings_parts(board)
    board = Board(suite, cells, weighed_rows(rows, "size"))
    if board.ranked:
        yield WEIGHED.strip()
        yield from _standings_parts(board)


def _standings_parts(board: Board) -> Iterator[str]:
    """Yield the table of standings, who is not finished, and which mean ranks differ."""
    n_cells = len(board.cells)
    if not board.ranked:
        yield f"Not run: {board.runs.height} runs are finished, too few to rank methods on {n_cells} cells."
        return
    yield f"{n_cells} cells, {board.common_seeds} of {board.suite.seeds} seeds, {board.runs.height} runs."
    yield standings_table(board).markdown()
    if board.unfinished:
        planned = n_cells * board.suite.seeds
        counts = [f"{method} ({count} of {planned} runs)" for method, count in board.unfinished.items()]
        yield f"Not finished, hence not ranked: {', '.join(counts)}."
    ranks = rank_over_cells(board.values("auc"), board.ranked)
    yield (
        f"Mean ranks by AUC that are {ranks.critical:.2f} or more apart differ significantly at 5 % (Nemenyi; "
        f"Friedman's test that all rank alike: p = {ranks.p:.1g})."
    )


def _methods_without_runs(board: Board) -> Iterator[str]:
    """Yield which methods have no runs in these cells, and why where there is a reason."""
    methods_with_runs = set(board.runs["method"])
    absent = []
    for name in discover():
        if name in methods_with_runs:
            continue
        reason = f" ({WHY_ABSENT[name]})" if name in WHY_ABSENT else ""
        absent.append(f"`{name}`{reason}")
    if methods_with_runs and absent:
        yield f"Without runs here: {', '.join(absent)}."


def _family_tables(board: Board) -> Iterator[Table]:
    """Yield a table per kind of family, with the AUC gains of the best methods over uniform."""
    values = board.values("auc")
    families_by_cell = {cell.name: cell.families for cell in board.cells}
    methods = [standing.method for standing in board.standings("auc") if standing.method != BASELINE]
    shown_methods = methods[:METHODS_BY_FAMILY]
    for kind in KINDS:
        table = Table("", [kind, "cells", "best", *shown_methods])
        for family, gains in gains_by_family(values, families_by_cell, kind, methods).items():
            best = max(gains, key=lambda method: gains[method])
            n_cells = sum(families_by_cell[cell][kind] == family for cell in values)
            shown_gains = [points_text(gains[method]) for method in shown_methods]
            table.rows.append([family, str(n_cells), f"{best} ({points_text(gains[best])})", *shown_gains])
        yield table


def _cells_table(suite: Suite) -> Table:
    table = Table("", ["cell", "half", *KINDS])
    for cell in suite.cell:
        table.rows.append([cell.name, cell.half, *(cell.families[kind] for kind in KINDS)])
    return table


def write_page(suite: Suite, rows: pl.DataFrame, path: Path) -> None:
    """Write the page, and beside it the diagram of the held-out half where methods are ranked."""
    board = Board(suite, suite.cells("held-out"), plain_rows(rows))
    picture = None
    path.parent.mkdir(parents=True, exist_ok=True)
    if board.ranked:
        values = board.values("auc")
        title = f"Mean rank by AUC, {len(values)} held-out cells, {board.common_seeds} seeds"
        ranks = rank_over_cells(values, board.ranked)
        diagram_path = path.parent / "images" / f"{path.stem}.svg"
        diagram_path.parent.mkdir(parents=True, exist_ok=True)
        diagram_path.write_text(draw_diagram(ranks.ranks, ranks.critical, title))
        picture = f"images/{diagram_path.name}"
    path.write_text(page_markdown(suite, rows, picture))
