"""The top of the leaderboard in the README, between two marks."""

from __future__ import annotations

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.standings import gain_and_interval, what_server_knows
from sortition.results.table import Table
from workshop.marks import fill_marks
from workshop.readme_bullets import bullets

PLACES = 5  # shown, and the baseline


def top_table(board: Board) -> Table:
    """Return the best methods by mean rank of AUC, and the baseline."""
    table = Table("", ["place", "method", "mean rank", "AUC gain", "better/worse", "the server knows"])
    for place, standing in enumerate(board.standings("auc"), start=1):
        if place > PLACES and standing.method != BASELINE:
            continue
        gain = "–"
        better_and_worse = "–"
        if standing.method != BASELINE:
            gain = gain_and_interval(standing)
            better_and_worse = f"{standing.better}/{standing.worse}"
        table.rows.append(
            [
                str(place),
                f"`{standing.method}`",
                f"{standing.rank:.2f}",
                gain,
                better_and_worse,
                what_server_knows(board.runs, standing.method),
            ]
        )
    return table


def with_top(readme: str, board: Board) -> str:
    """Return the README with the top of the leaderboard, and the bullets that quote it."""
    return fill_marks(readme, {"leaderboard": top_table(board).markdown(), "bullets": bullets(board)})
