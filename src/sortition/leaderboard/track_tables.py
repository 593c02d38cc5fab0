"""The standings of a track in words and tables, for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Sequence

from sortition.leaderboard.entrants import BASELINE
from sortition.leaderboard.inference import SECONDS, CorrectedTest, RowStanding, TrackBoard
from sortition.leaderboard.our_default import OWN, default_against_others
from sortition.leaderboard.standings import points_text
from sortition.leaderboard.tracks import FAMILIES
from sortition.results.table import Table

LEAST_SHOWN = 0.1  # points; a smaller lead is not written as 0.0


def p_text(test: CorrectedTest | None) -> str:
    """Write the adjusted p of a test, and whether it separates."""
    if test is None:
        return "–"
    sign = "" if test.separated else " n.s."
    return f"{test.adjusted:.2g}{sign}"


def standings_table(board: TrackBoard, title: str = "") -> Table:
    """Return a row per method: ranks, gain with its interval, tests, better and worse cells, failures, cost."""
    columns = ["method", "class", "rank", "gain", "95 %", "p, uniform", "p, best other", "end", "better/worse"]
    if board.is_timed:
        columns += ["reached", "rank, seconds"]
    columns += ["failed", "MB", "ms"]
    table = Table(title, columns)
    for standing in board.standings():
        cells = [
            standing.row,
            standing.information,
            f"{standing.ranks['area']:.2f}",
            points_text(standing.gain),
            f"{points_text(standing.low)}, {points_text(standing.high)}",
            p_text(standing.baseline_test),
            p_text(standing.leader_test),
            points_text(standing.end_gain),
            f"{standing.better}/{standing.worse}",
        ]
        if standing.reached is not None:
            n_reached, n_runs = standing.reached
            cells += [f"{n_reached}/{n_runs}", f"{standing.ranks[SECONDS]:.2f}"]
        cells += [str(standing.failures), f"{standing.megabytes:.1f}", f"{standing.milliseconds:.2f}"]
        table.rows.append(cells)
    return table


def family_table(board: TrackBoard) -> Table:
    """Return the mean gain of area by family, a row per method."""
    families = [family for family in FAMILIES if any(cell.family == family for cell in board.cells)]
    counts = {family: sum(cell.family == family for cell in board.cells) for family in families}
    table = Table("", ["method", *(f"{family} ({counts[family]})" for family in families)])
    for standing in board.standings():
        if standing.row != BASELINE:
            table.rows.append([standing.row, *(points_text(standing.by_family[family]) for family in families)])
    return table


def sensitivity_table(board: TrackBoard) -> Table:
    """Return who is first without each data set, and how surely."""
    table = Table("", ["without", "cells", "first", "gain", "separated from uniform", "separated from others"])
    for entry in board.sensitivity():
        table.rows.append(
            [
                entry.left_out,
                str(entry.cells),
                entry.leader,
                points_text(entry.gain),
                "yes" if entry.separated_from_baseline else "no",
                f"{entry.separated_from} of {entry.n_others}",
            ]
        )
    return table


def verdict_sentences(board: TrackBoard) -> list[str]:
    """Say who is first, from whom it is separated and from whom not, and where our own method is beaten."""
    standings = board.standings()
    if len(standings) < 2:
        return []
    sentences = [
        _leader_sentence(standings),
        *_own_method_sentences(board, standings),
        *_default_sentences(board, standings),
    ]
    beaten = [row.row for row in standings if row.baseline_test and row.baseline_test.separated and row.gain < 0]
    if beaten:
        sentences.append(f"Separated from uniform, and worse: {', '.join(beaten)}.")
    sentences += _cap_sentences(board)
    return sentences


def _leader_sentence(standings: Sequence[RowStanding]) -> str:
    """Say who is first, and from how many others it is separated."""
    leader = standings[0]
    followers = standings[1:]
    alike = [row.row for row in followers if row.leader_test and not row.leader_test.separated]
    first = f"First by mean rank is {leader.row} ({points_text(leader.gain)} points over uniform)"
    if not alike:
        against_others = f"separated from all {len(followers)}"
    elif len(alike) == len(followers):
        against_others = "separated from none of them"
    else:
        against_others = f"not separated from {len(alike)} of {len(followers)}: {', '.join(alike)}"
    if leader.baseline_test is None or leader.baseline_test.separated:
        return f"{first}. Tested against every other row, it is {against_others}."
    sentence = (
        f"{first}, not separated from uniform in the tests of all rows against uniform "
        f"(p = {leader.baseline_test.adjusted:.2g}). In the tests of the first row against every other row, it is "
        f"{against_others}."
    )
    if not alike:
        sentence += " The two correct for different sets of tests and may disagree: rely on the first."
    return sentence


def _default_sentences(board: TrackBoard, standings: Sequence[RowStanding]) -> list[str]:
    """Say from which methods of others our default is separated; nothing where it is not separated from uniform."""
    verdict = default_against_others(board)
    ours = next((row for row in standings if row.row == OWN), None)
    if verdict is None or ours is None or ours.baseline_test is None or not ours.baseline_test.separated:
        return []
    sentence = (
        f"{OWN}, which `auto` takes by default, is ahead of, and separated from, {len(verdict.ahead)} of "
        f"{verdict.others} methods of others besides uniform"
    )
    if verdict.largest_p is not None:
        sentence += f" (Wilcoxon over federations, Holm over {verdict.others} tests: p ≤ {verdict.largest_p:.2g})"
    sentence += _rows_clause("not separated", verdict.undecided)
    sentence += _rows_clause("behind", verdict.behind)
    return [f"{sentence}. This comparison is not one of the rules' tests: it was added after the runs."]


def _rows_clause(words: str, rows: Sequence[str]) -> str:
    """Write a clause that names rows; nothing where there is none."""
    if not rows:
        return ""
    return f"; {words}: {', '.join(rows)}"


def _own_method_sentences(board: TrackBoard, standings: Sequence[RowStanding]) -> list[str]:
    """Say where our default, or the best of our rows if it has none, is beaten by a row of others."""
    our_standings = [row for row in standings if row.row.startswith(OWN)]
    other_standings = [row for row in standings if not row.row.startswith(OWN)]
    if not our_standings or not other_standings:
        return []
    ours = next((row for row in our_standings if row.row == OWN), our_standings[0])
    lost = _lost_federations(board, ours.row, [row.row for row in other_standings])
    sentences = []
    if lost:
        sentences.append(
            f"In {len(lost)} of {len(board.cells)} federations {ours.row} is beaten by a method of others: "
            f"{', '.join(lost)}."
        )
    weak = [family for family, gain in ours.by_family.items() if gain <= 0]
    if weak:
        sentences.append(f"{ours.row} does not gain over uniform in {', '.join(weak)} (by family).")
    return sentences


def _lost_federations(board: TrackBoard, ours: str, others: Sequence[str]) -> list[str]:
    """Return the federations in which another method is ahead of ours, with the best of them and its lead."""
    lost = []
    for cell, by_row in board.means("area").items():
        area, best = max((by_row[row], row) for row in others)
        if area > by_row[ours]:
            lost.append(f"{cell} ({best}, {_lead_text(area - by_row[ours])})")
    return lost


def _lead_text(difference: float) -> str:
    """Write by how many points another method is ahead."""
    return f"by {100 * difference:.1f}" if 100 * difference >= LEAST_SHOWN else f"by less than {LEAST_SHOWN}"


def _cap_sentences(board: TrackBoard) -> list[str]:
    """Say whose runs ended with the most rounds that a run may have, before the time budget."""
    capped = [(row, count) for row, count in board.capped.items() if count]
    if not capped:
        return []
    most_first = sorted(capped, key=lambda row_and_count: (-row_and_count[1], row_and_count[0]))
    counts = ", ".join(f"{row} {count}" for row, count in most_first)
    return [
        f"Runs that ended at the cap of {board.suite.most_rounds} R rounds before the time budget, and keep their last "
        f"accuracy from there on, of {board.runs_of_a_row} a row: {counts}. What these rows would gain in the rest of "
        "the time is not known."
    ]
