"""The page: standings on the held-out half, on the tuning half, by family of scenario, and what is not finished."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from sortition.leaderboard.board import Board
from sortition.leaderboard.diagram import diagram
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.ranking import Standing, gains_by_family, ranking
from sortition.leaderboard.suite import HALVES, Suite
from sortition.leaderboard.variants import candidates, plain_rows, tuned, tuned_rows, weighed_rows
from sortition.results.table import Table
from sortition.selectors import VARIANTS, discover, variant_entry

FIGURES = {"auc": "AUC", "last": "last 10"}
KINDS = ("data", "partition", "availability", "cohort", "dropout")
SHOWN = 8  # methods in the tables by family
INTRODUCTION = """# Leaderboard

*Written by `sortition leaderboard`; do not edit.* Which selection method should one use? Methods with their default
parameters on the frozen suite `{version}`: {cells} federations of {clients} clients, each data × partition ×
availability × cohort × dropout. A seed is one partition, initial model, availability and order of batches, shared by
all methods.

**AUC** is the mean test accuracy over the rounds of a run: who learns faster stands higher. **Last 10** is the mean
over the last ten rounds. A *gain* is a method's figure minus that of uniform sampling on the same seeds, in points of
accuracy, averaged over cells; its interval takes the cells as a sample. *Better/worse* counts the cells where the
difference from uniform is significant at 5 % (paired t, Holm's correction over all methods and cells of the table).
*MB* (all traffic of a run), *passes* (over clients' data, a round) and *ms* (of the selection itself, a round) are
means over cells.

Microcosm's defaults were chosen on the half *tuning* and frozen before any run of the half *held-out*. One change came
later, for safety and without a look at results: a client that is silent twice running has had its turn; the cells with
dropouts were run with it. The other methods have the defaults of their papers or of their files. `microcosm` is what
`auto` resolves to where label counts are given; `-estimate` also reads sketches of updates, `-updates` and `-bias` read
sketches or the output layer's bias in place of label counts, `-sizes` reads sizes alone. These variants are
parameters of one method; in a study's list `method` they are (in Python: `so.load("microcosm", by="updates")`):

{variants}

What the suite does not show: all devices are equally fast, so methods that choose by speed (FedCS, TiFL, Oort's system
factor, CS-UCB-Q) cannot gain by it, and FedCS is uniform sampling here. Batch partitioning pays for privacy over
rounds, which accuracy does not show.
"""
ABSENT = {  # why a method has no runs
    "full": "trains everybody, beyond the budget, and is never ranked",
    "greedyfed": "the server evaluates models of many subsets of every cohort, which takes far longer than a round",
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


def page(suite: Suite, rows: pl.DataFrame, picture: str | None = None) -> str:
    """The whole page as Markdown; ``picture`` is the diagram's address, where there is one."""
    plain = plain_rows(rows)
    counts = {"version": suite.version, "cells": len(suite.cell), "clients": suite.clients}
    parts = [INTRODUCTION.format(**counts, variants=variants_table(plain).markdown())]
    for half in reversed(HALVES):
        board = Board(suite, suite.cells(half), plain)
        parts += [f"## The half *{half}*", *_half(board, picture if half == "held-out" else None)]
        parts += _absent(board)
        if half == "held-out" and board.ranked:
            parts += ["### By family of scenario", *(table.markdown() for table in _families(board))]
            parts += _further(suite, rows)
    return "\n\n".join([*parts, "## The cells", _cells(suite).markdown(), JOIN]).rstrip() + "\n"


def variants_table(rows: pl.DataFrame) -> Table:
    """The variants that have runs, each as an entry of a study."""
    ran = set(rows["method"])
    return Table(
        "", ["variant", "in a study"], [[f"`{one}`", f"`{variant_entry(one)}`"] for one in VARIANTS if one in ran]
    )


def _further(suite: Suite, rows: pl.DataFrame) -> Iterator[str]:
    """The tuned methods and the methods weighed alike, on the held-out half, where they have run."""
    cells, chosen = suite.cells("held-out"), tuned(suite, rows)
    if chosen and (board := Board(suite, cells, tuned_rows(suite, rows))).ranked:
        named = ", ".join(f"{label} of {len(candidates()[name])}" for name, label in sorted(chosen.items()))
        yield TUNED.format(chosen=named).strip()
        yield from _half(board, None)
    if (board := Board(suite, cells, weighed_rows(rows, "size"))).ranked:
        yield WEIGHED.strip()
        yield from _half(board, None)


def _half(board: Board, picture: str | None) -> Iterator[str]:
    planned = len(board.cells) * board.suite.seeds
    if not board.ranked:
        yield f"Not run: {board.runs.height} runs are finished, too few to rank methods on {len(board.cells)} cells."
        return
    table = standings_table(board)
    yield f"{len(board.cells)} cells, {board.common_seeds} of {board.suite.seeds} seeds, {board.runs.height} runs."
    yield table.markdown()
    if board.unfinished:
        left = ", ".join(f"{name} ({count} of {planned} runs)" for name, count in board.unfinished.items())
        yield f"Not finished, hence not ranked: {left}."
    ranks = ranking(board.values("auc"), board.ranked)
    yield (
        f"Mean ranks by AUC that are {ranks.critical:.2f} or more apart differ significantly at 5 % (Nemenyi; "
        f"Friedman's test that all rank alike: p = {ranks.p:.1g})."
    )
    if picture:
        yield f"![Critical-difference diagram]({picture})"


def _absent(board: Board) -> Iterator[str]:
    """Which methods have no runs in these cells, and why where there is a reason."""
    ran = set(board.runs["method"])
    names = [f"`{name}`" + (f" ({ABSENT[name]})" if name in ABSENT else "") for name in discover() if name not in ran]
    if ran and names:
        yield f"Without runs here: {', '.join(names)}."


def standings_table(board: Board) -> Table:
    """One row a method: ranks, gains, better and worse, worst cell, cost, what it knows."""
    by = {figure: {one.method: one for one in board.standings(figure)} for figure in FIGURES}
    columns = ["method"]
    columns += [f"rank, {name}" for name in FIGURES.values()] + [f"{name} gain" for name in FIGURES.values()]
    columns += [f"better/worse, {name}" for name in FIGURES.values()]
    table = Table("", [*columns, "worst cell by AUC", "MB", "passes", "ms", "knows", "secure aggregation"])
    for method in by["auc"]:
        ours = [by[figure][method] for figure in FIGURES]
        cells = [method, *(f"{one.rank:.2f}" for one in ours)]
        cells += [gained(one) for one in ours]
        cells += [f"{one.better}/{one.worse}" for one in ours]
        cells += [f"{100 * ours[0].worst_gain:+.1f} {ours[0].worst}" if method != BASELINE else "–"]
        table.rows.append([*cells, *_cost(board.runs, method), *knows(board.runs, method)])
    return table


def gained(one: Standing) -> str:
    """A gain with its interval, in points."""
    if not math.isfinite(one.gain):
        return "diverged"
    return f"{100 * one.gain:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def _cost(rows: pl.DataFrame, method: str) -> list[str]:
    means = rows.filter(pl.col("method") == method).select("megabytes", "passes", "milliseconds").mean().row(0)
    return [f"{value:.{digits}f}" for value, digits in zip(means, (1, 1, 2), strict=True)]


def knows(rows: pl.DataFrame, method: str) -> list[str]:
    """What a method reads, asks and has reported, and whether it works with secure aggregation."""
    one = rows.filter(pl.col("method") == method).row(0, named=True)
    heard = [words + one[key] for key, words in (("asks", "asks "), ("reports", "with updates: ")) if one[key]]
    known = [*([one["reads"]] if one["reads"] else []), *heard]
    return ["; ".join(known).replace("_", " ") or "nothing", "no" if one["individual"] else "yes"]


def _families(board: Board) -> Iterator[Table]:
    """AUC gains over uniform, of the best methods, by each kind of family."""
    values, families = board.values("auc"), {cell.name: cell.families for cell in board.cells}
    methods = [one.method for one in board.standings("auc") if one.method != BASELINE]
    for kind in KINDS:
        table = Table("", [kind, "cells", "best", *methods[:SHOWN]])
        for name, gains in gains_by_family(values, families, kind, methods).items():
            best = max(gains, key=lambda method: gains[method])
            count = sum(families[cell][kind] == name for cell in values)
            shown = [f"{100 * gains[method]:+.1f}" for method in methods[:SHOWN]]
            table.rows.append([name, str(count), f"{best} ({100 * gains[best]:+.1f})", *shown])
        yield table


def _cells(suite: Suite) -> Table:
    table = Table("", ["cell", "half", *KINDS])
    for cell in suite.cell:
        table.rows.append([cell.name, cell.half, *(cell.families[kind] for kind in KINDS)])
    return table


def write_page(suite: Suite, rows: pl.DataFrame, path: Path) -> Path:
    """Write the page, and beside it the diagram of the held-out half where methods are ranked."""
    board, picture = Board(suite, suite.cells("held-out"), plain_rows(rows)), None
    if board.ranked:
        values = board.values("auc")
        title = f"Mean rank by AUC, {len(values)} held-out cells, {board.common_seeds} seeds"
        ranks = ranking(values, board.ranked)
        drawn = diagram(ranks.ranks, ranks.critical, title)
        target = path.parent / "images" / f"{path.stem}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(drawn)
        picture = f"images/{target.name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(suite, rows, picture))
    return path


def standing_of(board: Board, methods: Sequence[str]) -> list[str]:
    """Where these methods stand, a line each."""
    found = {name: board.standings(figure) for figure, name in FIGURES.items()}
    return [
        f"{method}: {' and '.join(_place(method, name, found[name]) for name in found)}."
        if method in board.ranked
        else f"{method}: not ranked yet, {board.unfinished.get(method, 0)} runs in these cells."
        for method in methods
    ]


def _place(method: str, figure: str, found: Sequence[Standing]) -> str:
    at = next(at for at, one in enumerate(found) if one.method == method)
    cells = f"better in {found[at].better} cells, worse in {found[at].worse}"
    return f"{at + 1} of {len(found)} by {figure} ({100 * found[at].gain:+.1f} points, {cells})"
