"""The bullets at the README's top: what Sortition does, each with a figure from the results and a link."""

from __future__ import annotations

import re

from sortition import selectors
from sortition.leaderboard.board import Board
from sortition.leaderboard.published import Published, PublishedTrack, load_published
from sortition.leaderboard.standings import gain_and_interval
from sortition.reproduction.index import load_items
from workshop import DOCS
from workshop.marks import wrapped

OUR_METHOD = "microcosm"
GRADES_NOT_RUN = ("right-cut", "cut", "absent")  # of claims: too little was run to say
PLACES = {  # outside of the simulator
    "Flower": "docs/flower.md",
    "NVFlare": "docs/nvflare.md",
    "your own server": "docs/start/server-loop.md",
}
NUMBERS = {3: "three", 4: "four", 5: "five"}
SELECTION_COST = re.compile(r"choosing 100 of a million clients cost\? \| (\S+ m?s \(\S+\)) to (\S+ m?s \(\S+\))")
BULLETS = """\
- **{n_methods} methods**: published ones, baselines and one of ours, each beside [its source](docs/methods/index.md).
  **{n_papers} papers, claim by claim**: of {n_claims} claims {n_right} hold here, {n_differ} differ ({n_explained} for
  a reason we measured), and {n_open} [were tested too little or not at all](docs/reproduction/README.md).
- **Equal conditions**: all methods get the same data, clients and availability; [paired statistics](docs/statistics.md)
  with 95 % intervals then call each one better, worse, equal or undecided.
- **A default to start with**: {gain}
- **One method, {n_places} places**: the same code runs in the simulator and in {places}; methods that cannot run in
  one of them stop with an error that says why.
- **For large federations and untrusted clients**: choosing 100 of [a million clients](docs/scale.md) takes {fastest} to
  {slowest} a round once it is set up; methods see only what they [declare](docs/methods/index.md), and clients
  may [withhold](docs/privacy.md) facts and answers; [guards](docs/guards.md), once switched on, limit what
  [hostile clients](docs/faults.md) can do.
"""
GAIN = (
    "`auto` runs our own method. In {n_cells} [simulated federations](docs/leaderboard.md) on which nothing was tuned, "
    "it gained {gain} points over uniform sampling, in accuracy averaged over the run."
)
GAIN_BY_CLOCK = (
    "`auto` runs our own method, [Microcosm](docs/methods/microcosm.md), which uses label counts, sketches of updates "
    "and training times. In {n_cells} [simulated federations](docs/leaderboard-2.md) of fast and slow devices, on "
    "which nothing was tuned, it gained {gain} points over uniform sampling in the same time, in accuracy averaged "
    "over the run (`{other}`, the best of others: {other_gain}{tuned}), and {end_gain} at the end (`{other_at_end}`: "
    "{other_end}). {by_rounds}"
)
BY_ROUNDS = "Compared by rounds, it is not shown to be better."
NO_GAIN = "`auto`, [our own method](docs/methods/microcosm.md)."


def bullets(board: Board, published: Published | None = None) -> str:
    """Return the bullets as Markdown; a gain is quoted where our method has been run."""
    grades = [claim.grade for item in load_items() for claim in item.claims]
    fastest, slowest = _selection_cost()
    links = [f"[{name}]({page})" for name, page in PLACES.items()]
    text = BULLETS.format(
        n_methods=len(selectors.discover()),
        n_papers=len({item.paper for item in load_items() if item.claims}),
        n_claims=len(grades),
        n_right=grades.count("right"),
        n_differ=grades.count("explained") + grades.count("different"),
        n_explained=grades.count("explained"),
        n_open=sum(grades.count(grade) for grade in GRADES_NOT_RUN),
        gain=_gain_by_clock(published or load_published()) or _gain_by_rounds(board) or NO_GAIN,
        n_places=NUMBERS[len(PLACES) + 1],
        places=f"{', '.join(links[:-1])} or {links[-1]}",
        fastest=fastest,
        slowest=slowest,
    )
    return "\n".join(f"- {wrapped(bullet, indent='  ')}" for bullet in text.removeprefix("- ").split("\n- "))


def _selection_cost() -> tuple[str, str]:
    """Return what choosing among a million clients takes with the fastest and the slowest method, as scale.md says."""
    match = SELECTION_COST.search((DOCS / "scale.md").read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit("docs/scale.md no longer says what choosing 100 of a million clients costs")
    return match.group(1), match.group(2)


def _gain_by_clock(published: Published) -> str:
    """Quote the track of seconds where our method is separated from uniform there."""
    track = published.tracks.get("seconds")
    if track is None:
        return ""
    rows = {row.row: row for row in track.rows}
    ours = rows.get(OUR_METHOD)
    others = [row for row in track.rows if not row.row.startswith(OUR_METHOD)]
    if ours is None or not (ours.separated and ours.gain > 0):
        return ""
    best = max(others, key=lambda row: row.gain)
    best_at_end = max(others, key=lambda row: row.end_gain)
    return GAIN_BY_CLOCK.format(
        n_cells=track.cells,
        gain=ours.gain_text,
        other=best.row,
        other_gain=f"{best.gain:+z.1f}",
        tuned=_once_tuned(track, best.row),
        end_gain=f"{ours.end_gain:+z.1f}",
        other_at_end=best_at_end.row,
        other_end=f"{best_at_end.end_gain:+z.1f}",
        by_rounds=_by_rounds(published),
    ).rstrip()


def _once_tuned(track: PublishedTrack, other: str) -> str:
    """Say what the best of others gains once every method is tuned, if ours is not separated from it then."""
    if track.tuned is None or other not in track.tuned.undecided:
        return ""
    return f"; both tuned: {track.tuned.undecided[other]:+z.1f}, ours {track.tuned.row.gain:+z.1f}, undecided"


def _by_rounds(published: Published) -> str:
    """Say that our method is not separated from uniform by rounds; empty where it is, or was not run."""
    track = published.tracks.get("rounds")
    if track is not None and any(row.row == OUR_METHOD and not row.separated for row in track.rows):
        return BY_ROUNDS
    return ""


def _gain_by_rounds(board: Board) -> str:
    """Quote suite 1; nothing without runs of our method."""
    for standing in board.standings("auc"):
        if standing.method == OUR_METHOD:
            gain = gain_and_interval(standing)
            return GAIN.format(n_cells=len(board.values("auc")), gain=gain)
    return ""
