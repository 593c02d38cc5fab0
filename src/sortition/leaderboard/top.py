"""The top of the leaderboard as a short table between two marks of another page, such as the README."""

from __future__ import annotations

from pathlib import Path

from sortition.core.errors import bad
from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.page import knows
from sortition.results.table import Table

FIRST, LAST = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
SHOWN = 9  # methods


def top_table(board: Board) -> Table:
    """The best methods by mean rank of AUC, and the baseline."""
    standings = board.standings("auc")
    shown = [one for at, one in enumerate(standings) if at < SHOWN or one.method == BASELINE]
    table = Table("", ["place", "method", "mean rank", "AUC gain", "better/worse", "the server knows"])
    for one in shown:
        gain = f"{100 * one.gain:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"
        cells = [str(1 + standings.index(one)), f"`{one.method}`", f"{one.rank:.2f}"]
        cells += ["–", "–"] if one.method == BASELINE else [gain, f"{one.better}/{one.worse}"]
        table.rows.append([*cells, knows(board.runs, one.method)[0]])
    return table


def with_top(text: str, board: Board) -> str:
    """The text with the table between the two marks."""
    before, first, rest = text.partition(FIRST)
    _, last, after = rest.partition(LAST)
    if not (first and last):
        raise bad("The page", f"one with the lines {FIRST} and {LAST}", "one without")
    return f"{before}{FIRST}\n{top_table(board).markdown()}\n{LAST}{after}"


def write_top(board: Board, path: Path) -> None:
    """Put the table into a file."""
    path.write_text(with_top(path.read_text(encoding="utf-8"), board), encoding="utf-8")
