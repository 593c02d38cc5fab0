"""What the leaderboard says on other pages: where one method stands, and which methods gain most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE, REFERENCES, VARIANTS
from sortition.leaderboard.ranks_and_gains import Standing, gains_by_family
from sortition.leaderboard.standings import gain_and_interval, points_text
from sortition.leaderboard.suite import HALVES, Suite
from sortition.leaderboard.variants import plain_rows
from sortition.results.table import Table
from workshop.leaderboard_page import KINDS

METHODS_PER_ROW = 3  # named in a row of the best methods
METHOD_OF_VARIANT = {variant["label"]: variant["name"] for variant in VARIANTS if variant["name"] != BASELINE}
Needs = Mapping[str, Any]  # the columns reads, asks, reports and individual of a run
FamilyGains = Iterator[tuple[str, str, dict[str, float]]]  # kind of family, family, method → gain


def _facts_read(needs: Needs) -> set[str]:
    return {fact for fact in needs["reads"].split(", ") if fact}


def _hears_nothing(needs: Needs) -> bool:
    return not needs["asks"] and not needs["reports"]


# What a server may know, in words → whether that is enough for a method with these needs.
KNOWLEDGE: dict[str, Callable[[Needs], bool]] = {
    "who is available, and sizes": lambda needs: _facts_read(needs) <= {"sizes"} and _hears_nothing(needs),
    "label counts too": lambda needs: _facts_read(needs) <= {"sizes", "label_counts"} and _hears_nothing(needs),
    "no label counts, but numbers that clients send (losses, durations)": lambda needs: (
        _facts_read(needs) <= {"sizes"} and not needs["individual"]
    ),
    "no label counts, but single updates": lambda needs: _facts_read(needs) <= {"sizes"},
    "everything": lambda needs: True,
}


# -- one method -----------------------------------------------------------------------------------------------------


def method_section(suite: Suite, rows: pl.DataFrame, method: str) -> str:
    """Return where a method and its variants stand, on both halves, as Markdown."""
    labels = [method, *(variant["label"] for variant in VARIANTS if variant["name"] == method)]
    paragraphs = []
    for half in reversed(HALVES):
        board = Board(suite, suite.cells(half), plain_rows(rows))
        paragraphs.append(f"On the half *{half}* ({len(board.cells)} federations): {_on_one_half(board, labels)}")
    return "\n\n".join(paragraphs) + "\n"


def _on_one_half(board: Board, labels: Sequence[str]) -> str:
    """Return what follows the words "On the half … :"."""
    if not board.ranked:
        return "not run: the file of all runs has too few of them to rank methods."
    if labels[0] in REFERENCES:
        return "never ranked, since it goes beyond the budget."
    planned = len(board.cells) * board.suite.seeds
    unranked = [label for label in labels if label not in board.ranked]
    finished = [f"{label} is not ranked, {board.unfinished.get(label, 0)} of {planned} runs" for label in unranked]
    words = "; ".join([f"{board.common_seeds} seeds", *finished])
    table = _method_table(board, labels)
    if not table.rows:
        return f"not run to the end; {words}."
    return f"{words}.\n\n{table.markdown()}"


def _method_table(board: Board, labels: Sequence[str]) -> Table:
    """Return the standings of the labels that are ranked."""
    standings = board.standings("auc")
    table = Table("", ["", "place (mean rank)", "AUC gain", "better/worse", "gains most", "gains least", "MB", "ms"])
    for place, standing in enumerate(standings, start=1):
        if standing.method in labels:
            place_and_rank = f"{place} of {len(standings)} ({standing.rank:.1f})"
            table.rows.append(
                [
                    standing.method,
                    place_and_rank,
                    *_gain_cells(board, standing),
                    *_mean_cost(board.runs, standing.method),
                ]
            )
    return table


def _gain_cells(board: Board, standing: Standing) -> list[str]:
    """Return the cells from "AUC gain" to "gains least"."""
    if standing.method == BASELINE:
        return ["the baseline", "–", "–", "–"]
    gain_by_family = {
        f"{kind}: {family}": gains[standing.method]
        for kind, family, gains in _gains_of_families(board, [standing.method])
    }
    best = max(gain_by_family, key=lambda family: gain_by_family[family])
    worst = min(gain_by_family, key=lambda family: gain_by_family[family])
    return [
        gain_and_interval(standing),
        f"{standing.better}/{standing.worse}",
        f"{best} ({points_text(gain_by_family[best])})",
        f"{worst} ({points_text(gain_by_family[worst])})",
    ]


def _mean_cost(runs: pl.DataFrame, method: str) -> list[str]:
    """Return megabytes per run and milliseconds per selection."""
    runs_of_method = runs.filter(pl.col("method") == method)
    megabytes, milliseconds = runs_of_method.select("megabytes", "milliseconds").mean().row(0)
    return [f"{megabytes:.1f}", f"{milliseconds:.2f}"]


def _gains_of_families(board: Board, methods: Sequence[str]) -> FamilyGains:
    values = board.values("auc")
    families_by_cell = {cell.name: cell.families for cell in board.cells}
    for kind in KINDS:
        for family, gains in gains_by_family(values, families_by_cell, kind, methods).items():
            yield kind, family, gains


# -- the best methods -----------------------------------------------------------------------------------------------


def best_methods(suite: Suite, rows: pl.DataFrame) -> str:
    """Return the methods with the largest AUC gain on the held-out half, by what the server knows and by family."""
    board = Board(suite, suite.cells("held-out"), plain_rows(rows))
    if not board.ranked:
        return "Not run: the file of all runs has too few of them to rank methods.\n"
    gains = {standing.method: standing.gain for standing in board.standings("auc") if standing.method != BASELINE}
    parts = [
        f"The {len(board.cells)} federations of the held-out half, with {board.common_seeds} seeds.",
        _best_by_knowledge(board, gains).markdown(),
        _best_by_family(board, list(gains)).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def _best_by_knowledge(board: Board, gains: Mapping[str, float]) -> Table:
    needs = {method: board.runs.filter(pl.col("method") == method).row(0, named=True) for method in gains}
    table = Table("", ["the server may know", "gain most, in points of AUC over uniform"])
    for words, is_enough in KNOWLEDGE.items():
        possible = {method: gain for method, gain in gains.items() if is_enough(needs[method])}
        table.rows.append([words, _largest_gains(possible)])
    return table


def _best_by_family(board: Board, methods: Sequence[str]) -> Table:
    table = Table("", ["federations", "cells", "gain most"])
    for kind, family, gains in _gains_of_families(board, methods):
        n_cells = sum(cell.families[kind] == family for cell in board.cells)
        table.rows.append([f"{kind}: {family}", str(n_cells), _largest_gains(gains)])
    return table


def _largest_gains(gains: Mapping[str, float]) -> str:
    """Name the methods that gain most, each in its best variant."""
    best_label: dict[str, str] = {}
    for label in sorted((label for label in gains if gains[label] > 0), key=lambda label: -gains[label]):
        best_label.setdefault(METHOD_OF_VARIANT.get(label, label), label)
    if not best_label:
        return "none: uniform is enough"
    labels = list(best_label.values())[:METHODS_PER_ROW]
    return ", ".join(f"`{label}` ({points_text(gains[label])})" for label in labels)
