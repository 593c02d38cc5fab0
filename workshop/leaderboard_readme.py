"""The top of the leaderboard in the README, between two marks."""

from __future__ import annotations

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.our_default import OWN
from sortition.leaderboard.published import (
    Published,
    PublishedRow,
    PublishedTrack,
    PublishedTuned,
    load_published,
)
from sortition.leaderboard.results import read_stored_runs
from sortition.leaderboard.standings import gain_and_interval, what_server_knows
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.variants import plain_rows
from sortition.results.table import Table
from workshop import DOCS, ROOT
from workshop.leaderboard_top import PLACES, best_places
from workshop.marks import fill_marks, wrapped
from workshop.readme_bullets import bullets

KEPT_RUNS = DOCS / "leaderboard.parquet"
SHOWN_TRACKS = {"rounds": "by rounds", "seconds": "by the clock"}
PICTURE = (
    "![The best methods by rounds and by the clock: points of accuracy over uniform sampling, with intervals]"
    "(docs/images/leaderboard-2.svg)"
)
# What the server may know of clients, by information class.
KNOWLEDGE = {"public": "sizes", "scalars": "numbers", "labels": "label counts", "updates": "updates"}
OURS = """\
`{own}` is [our own method](docs/methods/{own}.md) in the form that `auto` uses by default. Sorted by mean rank, not by
gain. *Blue*: separated from uniform by [Wilcoxon's test](docs/leaderboard-rules.md#statistics) over all federations,
corrected for all methods; *grey*: not separated, even if the interval excludes zero. [The board](docs/leaderboard-2.md)
has all methods, all tracks, and the federations where others win."""
UNSEPARATED = (
    "**{track}, no method, ours included, is shown to be better than uniform**: ours gained in {better} of {cells} "
    "federations (p = {p:.2g})."
)
AHEAD = "{track}, our variant `{form}` ranks above it ({gain})."
TUNED = "{track}, all methods tuned, ours gains {gain}, {verdict}."
# Where another method stands before ours, by track: what the track is.
LOST_TRACKS = {"adversaries": "where a tenth of the clients attack", "overlap": "where rounds overlap"}
BEATEN = "{place}, `{other}` gains {other_gain}, ours {gain}"
SINKS = "{place}, ours ends {loss} points below uniform (`{other}`: {other_end})"


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
    """Return the top of suite 2: a picture where both main tracks are complete, else a table, with remarks."""
    complete = [track for track in SHOWN_TRACKS if track in published.tracks]
    if not complete:
        return ""
    parts = [_opening(published, complete)]
    if len(complete) == len(SHOWN_TRACKS):
        parts.append(PICTURE)
    else:
        parts += [_track_table(published.tracks[track]) for track in complete]
    parts.append(wrapped(OURS.format(own=OWN)))
    remarks = [remark(published.tracks[track], SHOWN_TRACKS[track]) for track in complete for remark in REMARKS]
    remarks.append(_lost_tracks(published))
    parts.append("\n".join(wrapped(f"- {remark}", indent="  ") for remark in remarks if remark))
    return "\n\n".join(parts)


def _unseparated(track: PublishedTrack, words: str) -> str:
    """Say that no gain of a track, ours included, is separated from uniform; empty where one is."""
    ours = _row_of(track, OWN)
    if ours is None or ours.p is None or any(row.separated and row.gain > 0 for row in track.rows):
        return ""
    return UNSEPARATED.format(track=words.capitalize(), better=ours.better, cells=track.cells, p=ours.p)


def _ahead(track: PublishedTrack, words: str) -> str:
    """Say which of our other forms stands before our method; empty where none does."""
    for row in track.rows:
        if row.row == OWN:
            return ""
        if row.row.startswith(f"{OWN}-"):
            return AHEAD.format(track=words.capitalize(), form=row.row, gain=f"{row.gain:+z.1f}")
    return ""


def _tuned(track: PublishedTrack, words: str) -> str:
    """Say what ours gains where every method is tuned; empty where that is unknown or not separated from uniform."""
    tuned = track.tuned
    if tuned is None or not tuned.row.separated:
        return ""
    undecided = [_gain_of_other(tuned, row, gain) for row, gain in tuned.undecided.items()]
    behind = [_gain_of_other(tuned, row, gain) for row, gain in tuned.behind.items()]
    clauses = []
    if undecided:
        clauses.append(f"not separated from {', '.join(undecided)}")
    if behind:
        clauses.append(f"beaten by {', '.join(behind)}")
    verdict = " and ".join(clauses) or "ahead of every method of others, and separated from it"
    return TUNED.format(track=words.capitalize(), gain=f"{tuned.row.gain:+z.1f}", verdict=verdict)


def _gain_of_other(tuned: PublishedTuned, row: str, gain: float) -> str:
    """Return a method with its gain, and that most of its runs were cut short, if so."""
    text = f"`{row}` ({gain:+z.1f}"
    if tuned.capped[row] > tuned.runs / 2:
        text += "; most runs [cut](docs/leaderboard-rules.md#what-is-measured)"
    return f"{text})"


def _lost_tracks(published: Published) -> str:
    """Say on which other tracks a method of others is before ours, or ours ends below uniform; empty on none."""
    clauses = []
    for name, place in LOST_TRACKS.items():
        track = published.tracks.get(name)
        ours = None if track is None else _row_of(track, OWN)
        if track is None or ours is None:
            continue
        others = [row for row in track.rows if not row.row.startswith(OWN)]
        best = max(others, key=lambda row: row.gain)
        best_at_end = max(others, key=lambda row: row.end_gain)
        if best.gain > ours.gain:
            gains = {"other_gain": f"{best.gain:+z.1f}", "gain": f"{ours.gain:+z.1f}"}
            clauses.append(BEATEN.format(place=place, other=best.row, **gains))
        elif ours.end_gain < 0:
            end = {"loss": f"{-ours.end_gain:.1f}", "other_end": f"{best_at_end.end_gain:+z.1f}"}
            clauses.append(SINKS.format(place=place, other=best_at_end.row, **end))
    if not clauses:
        return ""
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


REMARKS = (_unseparated, _ahead, _tuned)


def _row_of(track: PublishedTrack, name: str) -> PublishedRow | None:
    """Return the row of a method; None where the track has none."""
    return next((row for row in track.rows if row.row == name), None)


def _opening(published: Published, tracks: list[str]) -> str:
    """Say what the picture or the table is of."""
    counts = " and ".join(f"{published.tracks[track].cells} {SHOWN_TRACKS[track]}" for track in tracks)
    return wrapped(
        "Gain over uniform sampling, in points of mean accuracy over the run (not of final accuracy), with 95 % "
        f"intervals, in held-out federations, {counts}:"
    )


def _track_table(track: PublishedTrack) -> str:
    """Return the best methods of a track by mean rank, and the baseline; our own method is one row, its default."""
    table = Table("", ["place", "method", "gain", "separated from uniform", "the server knows"])
    for place in best_places(track):
        row = place.row
        cells = ["–", "–"]
        if row.row != BASELINE:
            cells = [row.gain_text, "yes" if row.separated else "no"]
        name = f"`{row.row}` (ours)" if row.row == OWN else f"`{row.row}`"
        table.rows.append([str(place.number), name, *cells, knowledge_text(row.information)])
    return table.markdown()


def knowledge_text(information: str) -> str:
    """Return an information class in words."""
    return ", ".join(KNOWLEDGE[part] for part in information.split(", "))


def with_top(readme: str, board: Board, published: Published | None = None) -> str:
    """Return the README with the top of the leaderboard, and the bullets that quote it."""
    published = published or load_published()
    top = top_of_tracks(published) or top_table(board).markdown()
    return fill_marks(readme, {"leaderboard": top, "bullets": bullets(board, published)})


def write_top() -> None:
    """Write these parts of the README from the kept runs of suite 1 and the published standings of suite 2."""
    suite = load_suite()
    board = Board(suite, suite.cells("held-out"), plain_rows(read_stored_runs(KEPT_RUNS)))
    readme = ROOT / "README.md"
    readme.write_text(with_top(readme.read_text(encoding="utf-8"), board), encoding="utf-8")
