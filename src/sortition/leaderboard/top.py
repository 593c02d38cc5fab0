"""The top of the leaderboard as a short table between two marks of another page, such as the README."""

from __future__ import annotations

from pathlib import Path

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.page import gained, knows, variants_table
from sortition.results.marks import filled
from sortition.results.table import Table

SHOWN = 9  # methods


def top_table(board: Board) -> Table:
    """The best methods by mean rank of AUC, and the baseline."""
    standings = board.standings("auc")
    shown = [one for at, one in enumerate(standings) if at < SHOWN or one.method == BASELINE]
    table = Table("", ["place", "method", "mean rank", "AUC gain", "better/worse", "the server knows"])
    for one in shown:
        cells = [str(1 + standings.index(one)), f"`{one.method}`", f"{one.rank:.2f}"]
        cells += ["–", "–"] if one.method == BASELINE else [gained(one), f"{one.better}/{one.worse}"]
        table.rows.append([*cells, knows(board.runs, one.method)[0]])
    return table


def with_top(text: str, board: Board) -> str:
    """The text with the table between its marks, and below it what its variants are."""
    parts = {"leaderboard": top_table(board), "variants": variants_table(board.runs)}
    return filled(text, {name: table.markdown() for name, table in parts.items()})


def write_top(board: Board, path: Path) -> None:
    """Put them into a file."""
    path.write_text(with_top(path.read_text(encoding="utf-8"), board), encoding="utf-8")
