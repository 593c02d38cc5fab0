"""The top of the leaderboard in the README, between two marks."""

from __future__ import annotations

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.published import Published, PublishedTrack, load_published
from sortition.leaderboard.standings import gain_and_interval, what_server_knows
from sortition.leaderboard.track_tables import OWN
from sortition.results.table import Table
from workshop.marks import fill_marks
from workshop.readme_bullets import bullets

PLACES = 5  # shown, and the baseline
TRACK_WORDS = {"rounds": "By rounds", "seconds": "By the clock, on devices that differ"}
PICTURE = (
    "![The five best methods by rounds and by the clock: points of accuracy over uniform sampling, with intervals]"
    "(docs/images/leaderboard-2.svg)"
)


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


def top_of_tracks(published: Published) -> str:
    """Return the picture of both main tracks of suite 2 where they are complete, else a table of the one that is."""
    complete = [track for track in TRACK_WORDS if track in published.tracks]
    if len(complete) == len(TRACK_WORDS):
        return PICTURE
    return "\n\n".join(_track_table(published.tracks[track], TRACK_WORDS[track]) for track in complete)


def _track_table(track: PublishedTrack, words: str) -> str:
    """Return the best methods of a track by mean rank, and the baseline; of our own method one row, the default."""
    table = Table("", ["place", "method", "the server knows", "mean rank", "gain", "separated from uniform"])
    for place, row in enumerate(track.rows, start=1):
        is_our_variant = row.row.startswith(OWN) and row.row != OWN
        if is_our_variant or (len(table.rows) >= PLACES and row.row != BASELINE):
            continue
        cells = ["–", "–"]
        if row.row != BASELINE:
            cells = [f"{row.gain:+.1f} [{row.low:+.1f}, {row.high:+.1f}]", "yes" if row.separated else "no"]
        table.rows.append([str(place), f"`{row.row}`", row.information, f"{row.rank:.2f}", *cells])
    return f"{words}, {track.cells} federations that nothing was tuned on:\n\n{table.markdown()}"


def with_top(readme: str, board: Board, published: Published | None = None) -> str:
    """Return the README with the top of the leaderboard, and the bullets that quote it."""
    published = published or load_published()
    top = top_of_tracks(published) or top_table(board).markdown()
    return fill_marks(readme, {"leaderboard": top, "bullets": bullets(board, published)})
