"""What the leaderboard says of one method, and which methods it puts first: parts of pages that are not its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE, REFERENCES, VARIANTS
from sortition.leaderboard.page import KINDS, gained
from sortition.leaderboard.ranking import Standing, gains_by_family
from sortition.leaderboard.suite import HALVES, Suite
from sortition.leaderboard.variants import plain_rows
from sortition.results.table import Table

BEST = 3  # methods named in a row
NOT_RUN = "Not run: the file of all runs has too few of them to rank methods."
METHOD = {one["label"]: one["name"] for one in VARIANTS if one["name"] != BASELINE}  # of each variant
Needs = Mapping[str, Any]
KNOWLEDGE: dict[str, Callable[[Needs], bool]] = {
    "who is available, and sizes": lambda one: not (_reads_more(one) or one["asks"] or one["reports"]),
    "label counts too": lambda one: not (_reads_more(one, "label_counts") or one["asks"] or one["reports"]),
    "no label counts, but numbers that clients send (losses, durations)": lambda one: (
        not _reads_more(one) and not one["individual"]
    ),
    "no label counts, but single updates": lambda one: not _reads_more(one),
    "everything": lambda one: True,
}


def _reads_more(one: Needs, *also: str) -> set[str]:
    """The facts that a method reads besides sizes and these."""
    return {fact for fact in one["reads"].split(", ") if fact} - {"sizes", *also}


def method_section(suite: Suite, rows: pl.DataFrame, method: str) -> str:
    """Where a method and its variants stand, on both halves, as Markdown."""
    labels = [method, *(one["label"] for one in VARIANTS if one["name"] == method)]
    parts = []
    for half in reversed(HALVES):
        board = Board(suite, suite.cells(half), plain_rows(rows))
        parts.append(f"On the half *{half}* ({len(board.cells)} federations): {_half(board, labels)}")
    return "\n\n".join(parts) + "\n"


def _half(board: Board, labels: Sequence[str]) -> str:
    if not board.ranked:
        return NOT_RUN[0].lower() + NOT_RUN[1:]
    if labels[0] in REFERENCES:
        return "never ranked, since it goes beyond the budget."
    absent = [label for label in labels if label not in board.ranked]
    table = _standings(board, [label for label in labels if label in board.ranked])
    planned = len(board.cells) * board.suite.seeds
    said = [f"{label} is not ranked, {board.unfinished.get(label, 0)} of {planned} runs" for label in absent]
    words = "; ".join([f"{board.common_seeds} seeds", *said])
    return f"{words}.\n\n{table.markdown()}" if table.rows else f"not run to the end; {words}."


def _standings(board: Board, labels: Sequence[str]) -> Table:
    found = board.standings("auc")
    table = Table("", ["", "place (mean rank)", "AUC gain", "better/worse", "gains most", "gains least", "MB", "ms"])
    for place, one in enumerate(found, 1):
        if one.method in labels:
            most, least = _extremes(board, one.method) if one.method != BASELINE else ("–", "–")
            at = f"{place} of {len(found)} ({one.rank:.1f})"
            table.rows.append([one.method, at, *_gain(one), most, least, *_cost(board.runs, one.method)])
    return table


def _gain(one: Standing) -> tuple[str, str]:
    if one.method == BASELINE:
        return "the baseline", "–"
    return gained(one), f"{one.better}/{one.worse}"


def _points(gain: float) -> str:
    return f"{100 * gain:+.1f}"


def _cost(runs: pl.DataFrame, method: str) -> tuple[str, str]:
    mean = runs.filter(pl.col("method") == method).select("megabytes", "milliseconds").mean().row(0)
    return f"{mean[0]:.1f}", f"{mean[1]:.2f}"


def _extremes(board: Board, method: str) -> tuple[str, str]:
    """The families of scenario in which a method gains most and least."""
    gains = {(kind, name): held[method] for kind, name, held in _by_family(board, [method])}
    best, worst = max(gains, key=lambda at: gains[at]), min(gains, key=lambda at: gains[at])
    return f"{': '.join(best)} ({_points(gains[best])})", f"{': '.join(worst)} ({_points(gains[worst])})"


def _by_family(board: Board, methods: Sequence[str]) -> Iterator[tuple[str, str, dict[str, float]]]:
    values, families = board.values("auc"), {cell.name: cell.families for cell in board.cells}
    for kind in KINDS:
        for name, gains in gains_by_family(values, families, kind, methods).items():
            yield kind, name, gains


def best_methods(suite: Suite, rows: pl.DataFrame) -> str:
    """The methods with the largest AUC gain on the held-out half, by what the server knows and by family."""
    board = Board(suite, suite.cells("held-out"), plain_rows(rows))
    if not board.ranked:
        return NOT_RUN + "\n"
    gains = {one.method: one.gain for one in board.standings("auc") if one.method != BASELINE}
    known = Table("", ["the server may know", "gain most, in points of AUC over uniform"])
    for words, allows in KNOWLEDGE.items():
        known.rows.append([words, _first({name: gains[name] for name in gains if allows(_needs(board.runs, name))})])
    family = Table("", ["federations", "cells", "gain most"])
    for kind, name, held in _by_family(board, list(gains)):
        cells = sum(cell.families[kind] == name for cell in board.cells)
        family.rows.append([f"{kind}: {name}", str(cells), _first(held)])
    seeds = f"{len(board.cells)} federations of the half *held-out*, {board.common_seeds} seeds."
    return "\n\n".join([seeds, known.markdown(), family.markdown()]) + "\n"


def _needs(runs: pl.DataFrame, method: str) -> Needs:
    return runs.filter(pl.col("method") == method).row(0, named=True)


def _first(gains: Mapping[str, float]) -> str:
    """The methods that gain most, each in its best variant."""
    best: dict[str, str] = {}
    for label in sorted((label for label in gains if gains[label] > 0), key=lambda label: -gains[label]):
        best.setdefault(METHOD.get(label, label), label)
    named = [f"`{label}` ({_points(gains[label])})" for label in list(best.values())[:BEST]]
    return ", ".join(named) or "none: uniform is enough"
