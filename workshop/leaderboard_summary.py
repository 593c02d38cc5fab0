"""docs/leaderboard-2.md: the standings of suite 2 in Markdown, for readers without a browser's program."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sortition import selectors
from sortition.leaderboard.entrants import BASELINE, Configurations, load_configurations
from sortition.leaderboard.inference import RowStanding, TrackBoard
from sortition.leaderboard.our_default import OWN
from sortition.leaderboard.published import PublishedTrack, published_track
from sortition.leaderboard.run_rows import read_cells
from sortition.leaderboard.standings import points_text
from sortition.leaderboard.track_boards import DEFAULT, TUNED, boards_by_title
from sortition.leaderboard.track_tables import LEAST_SHOWN, family_table, sensitivity_table, verdict_sentences
from sortition.leaderboard.tracks import TRACKS, TrackSuite, load_tracks
from sortition.results.statistics import LEVEL
from sortition.results.table import Table
from workshop import DOCS
from workshop.leaderboard_readme import knowledge_text
from workshop.leaderboard_site import RESULTS

PAGE = DOCS / "leaderboard-2.md"
PRELIMINARY = (
    "**Preliminary**: runs are missing in {n_unfinished} of {n_rows} rows. Ranks and tests are of the finished rows "
    "alone, corrected for fewer rows than in the end, and will change."
)
QUESTIONS = {  # of the tracks
    "rounds": "Who learns faster, round by round?",
    "seconds": "Who learns faster by the clock, on devices that differ?",
    "overlap": "Who learns faster by the clock where rounds overlap?",
    "adversaries": "Who keeps learning where a tenth of the clients attack?",
}
INTRODUCTION = """# Leaderboard

![Points of accuracy over uniform sampling, by rounds and by the clock: our default, the best methods of others and\
 uniform sampling](images/leaderboard-2.svg)

Which clients should train next? Every method ran with its default parameters in federations that were fixed
beforehand, with five seeds each (three where clients train a CNN). The figures are of the held-out ones, on which
nothing was tuned. *Gain*: points of accuracy, averaged over the run, over uniform sampling, with a 95 % interval.
`microcosm` and its variants are ours, as are the federations; nobody else has run them again yet.

{answers}

<a href="_static/leaderboard-2.html">**Open the board**</a>: all rows and columns, to sort and filter, with the curves
of every federation and downloads. It is one file that works without a network. What is compared, how, and who may join:
[the rules](leaderboard-rules.md). [Suite 1](leaderboard.md) is older, and counts rounds.
"""
WORDS = """## What the words mean

- *Gain* is the mean difference of *area* from uniform sampling, in points; families of federations weigh equally. Area
  is the mean accuracy over the rounds, or over the time budget. *At the end*: the same of the last evaluations. By the
  clock, area favours methods with short rounds a little ([how much](leaderboard-rules.md#what-is-measured)).
- *Separated from uniform*: Wilcoxon's test over the federations of the track, with Holm's correction for all rows, at
  5 %. With few federations and many rows it separates only what is clear; on the tracks with six and with four it can
  separate nothing.
- *Mean rank*: the mean place by area over the federations; 1 is best. *Better, worse*: in how many federations a method
  is ahead of uniform sampling, and behind.
- *The server knows*: clients' sizes; *numbers* are what single clients send, such as losses and durations; *updates*
  are those of single clients, which secure aggregation hides.
- A *family* is what makes clients differ: labels, sizes, features, noise (wrong labels), or a natural federation.
- The name of a federation gives its track, data, model where it is not the usual one, partition, availability, and what
  is special: `r-fashion-cnn-2shards-ln` is by rounds, on Fashion-MNIST, with a CNN, two shards a client and lognormal
  availability.

The suite's full name is `{version}`. `make leaderboard-2` writes this page.
"""
NO_BREAK = "\N{NO-BREAK SPACE}"
NOT_RUN = "No row of this track is finished: {runs} runs are stored."
DETAILS = """<details>
<summary>{title}</summary>

{text}

</details>"""


def summary_page(suite: TrackSuite, configurations: Configurations, results: pl.DataFrame) -> str:
    """Return the whole page as Markdown: the answers, then a section per track, then what the words mean."""
    boards = {track: boards_by_title(suite, track, configurations, results) for track in TRACKS}
    parts = [INTRODUCTION.format(answers=_answers_table(boards).markdown())]
    for track, boards_of_track in boards.items():
        parts += [f"## Track *{track}*", QUESTIONS[track]]
        runs_of_track = results.filter(pl.col("track") == track).height
        if not any(board.complete for board in boards_of_track.values()):
            parts.append(NOT_RUN.format(runs=runs_of_track))
        for title, board in boards_of_track.items():
            if board.complete:
                parts += _board_parts(title, board, default=boards_of_track[DEFAULT])
        parts.append(DETAILS.format(title="The federations", text=_cells_table(suite, track).markdown()))
    parts.append(WORDS.format(version=suite.version))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _answers_table(boards: dict[str, dict[str, TrackBoard]]) -> Table:
    """Return which row leads each track, and where our own method stands in its default form."""
    table = Table("", ["question", "leads", "shown to be better than uniform", "our default", "federations"])
    for track, boards_of_track in boards.items():
        board = boards_of_track[DEFAULT]
        if len(board.complete) > 1:
            content = published_track(board)
            leader = content.rows[0]
            table.rows.append(
                [
                    f"[{QUESTIONS[track]}](#track-{track})",
                    f"{_linked(leader.row)} {_unbroken(leader.gain_text)}",
                    "yes" if leader.separated else "no",
                    _our_place(content),
                    str(content.cells),
                ]
            )
    return table


def _our_place(track: PublishedTrack) -> str:
    """Return the place and the gain of our method in its default form."""
    for place, row in enumerate(track.rows, start=1):
        if row.row == OWN:
            return f"place {place}, {_unbroken(row.gain_text)}"
    return "–"


def _unbroken(gain_text: str) -> str:
    """Return a gain with its interval, which no line break may part."""
    return gain_text.replace(" ", NO_BREAK)


def _board_parts(title: str, board: TrackBoard, default: TrackBoard) -> Iterator[str]:
    yield f"### {title.capitalize()} parameters"
    if title == TUNED:
        yield _tuning_sentences(board, default)
    if board.unfinished:
        n_unfinished = len(board.unfinished)
        yield PRELIMINARY.format(n_unfinished=n_unfinished, n_rows=n_unfinished + len(board.complete))
    yield _standings_table(board).markdown()
    yield f"{len(board.cells)} held-out federations, {board.runs.height} runs, {len(board.complete)} rows."
    yield "\n".join(f"- {sentence}" for sentence in verdict_sentences(board))
    if board.unfinished:
        lacking = [f"{row} (lacks {count} runs)" for row, count in board.unfinished.items()]
        yield f"Not finished, hence without a rank: {', '.join(lacking)}."
    if board.over_cap:
        yield f"Without a rank, since they took more hours than the rules allow: {', '.join(board.over_cap)}."
    yield _nemenyi_sentences(board)
    yield DETAILS.format(title="Gains by family of federations", text=family_table(board).markdown())
    sensitivity = f"{sensitivity_table(board).markdown()}\n\n{_least_cells_sentence(len(board.complete) - 1)}"
    yield DETAILS.format(title="Who leads without one data set", text=sensitivity)


def _tuning_sentences(board: TrackBoard, default: TrackBoard) -> str:
    """Say how configurations were chosen, and whom that helped."""
    before = {standing.row: standing for standing in default.standings()}
    rows = [standing for standing in board.standings() if standing.row in before and standing.row != BASELINE]
    n_same = sum(standing.configuration == before[standing.row].configuration for standing in rows)
    worse = [standing.row for standing in rows if 100 * (standing.gain - before[standing.row].gain) <= -LEAST_SHOWN]
    sentences = [
        "Every method takes the best of up to four configurations, chosen on other federations with three seeds and "
        f"without a CNN ([the rule](leaderboard-rules.md#default-and-tuned)). {n_same} of {len(rows)} rows keep their "
        "default."
    ]
    if worse:
        sentences.append(f"On the held-out federations these gain less than with their default: {', '.join(worse)}.")
    return " ".join(sentences)


def _nemenyi_sentences(board: TrackBoard) -> str:
    """Say which mean ranks differ by Nemenyi's test, and whether uniform's does from any better one."""
    ranking = board.ranking()
    sentences = (
        f"Mean ranks that are {ranking.critical:.2f} or more apart differ by Nemenyi's test at 5 % "
        f"(Friedman: p = {ranking.p:.1g})."
    )
    lead = ranking.ranks[BASELINE] - min(ranking.ranks.values())
    if lead < ranking.critical:
        sentences += f" By it, no method is separated from uniform and better: the first is {lead:.2f} ahead."
    return sentences


def _least_cells_sentence(n_tests: int) -> str:
    """Say below how many federations Wilcoxon's test separates nothing: its smallest p is 2 / 2ⁿ over n of them."""
    n_cells = math.floor(math.log2(2 * n_tests / LEVEL)) + 1
    return (
        f"Corrected for {n_tests} tests, Wilcoxon's test can separate nothing in fewer than {n_cells} federations, "
        "whatever the gain."
    )


def _standings_table(board: TrackBoard) -> Table:
    """Return a row per method with the columns that a page has room for; the board has them all."""
    columns = [
        "method",
        "the server knows",
        "mean rank",
        "gain",
        "at the end",
        "separated from uniform",
        "better, worse",
    ]
    table = Table("", columns)
    for standing in board.standings():
        figures = ["–", "–", "–", "–"]
        if standing.row != BASELINE:
            figures = _comparison_cells(standing)
        table.rows.append(
            [
                _linked(standing.row),
                knowledge_text(standing.information),
                f"{standing.ranks['area']:.2f}",
                *figures,
            ]
        )
    return table


def _comparison_cells(standing: RowStanding) -> list[str]:
    """Return the cells that compare a row with uniform sampling."""
    test = standing.baseline_test
    separated = "–"
    if test is not None:
        separated = f"{'yes' if test.separated else 'no'}, p = {test.adjusted:.2g}"
    gain = _unbroken(f"{points_text(standing.gain)} [{points_text(standing.low)}, {points_text(standing.high)}]")
    return [gain, points_text(standing.end_gain), separated, f"{standing.better}, {standing.worse}"]


def _linked(row: str) -> str:
    """Return the name of a row, with a link to its method's page where we have one."""
    name = OWN if row.startswith(OWN) else row
    return f"[{row}](methods/{name}.md)" if name in selectors.discover() else f"`{row}`"


def _cells_table(suite: TrackSuite, track: str) -> Table:
    table = Table("", ["federation", "half", "family", "data", "model", "clients", "cohort", "budget"])
    for cell in suite.cell:
        if cell.track != track:
            continue
        setting = suite.setting(cell)
        budget = f"{cell.seconds:g} s" if cell.seconds is not None else f"{setting['rounds']} rounds"
        clients = setting["data"].get("clients", "all")
        table.rows.append(
            [
                cell.name,
                cell.half,
                cell.family,
                suite.data_of(cell),
                str(setting["model"]["name"]),
                str(clients),
                str(setting["cohort"]),
                budget,
            ]
        )
    return table


def write_summary(results_folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Write the page from stored results."""
    suite = load_tracks()
    results = read_cells(suite, results_folder, suite.cell)
    page.write_text(summary_page(suite, load_configurations(), results), encoding="utf-8")
