"""Where our own method, as `auto` takes it by default, stands among the methods of others."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.leaderboard.entrants import BASELINE
from sortition.leaderboard.inference import TrackBoard

OWN = "microcosm"  # rows of our own method begin with it


@dataclass(frozen=True)
class DefaultAgainstOthers:
    """Our default against every method of others but the baseline: Wilcoxon over federations, Holm over these tests.

    Attributes:
        ahead: methods from which it is separated and that gain less.
        behind: methods from which it is separated and that gain more.
        undecided: methods from which it is not separated.
        largest_p: the largest corrected p among those ahead of which it is; None where there is none.
    """

    ahead: tuple[str, ...]
    behind: tuple[str, ...]
    undecided: tuple[str, ...]
    largest_p: float | None

    @property
    def others(self) -> int:
        """How many methods of others it was tested against."""
        return len(self.ahead) + len(self.behind) + len(self.undecided)


def default_against_others(board: TrackBoard) -> DefaultAgainstOthers | None:
    """Test our default against the methods of others; None where its row or all of theirs are missing."""
    other_rows = [row for row in board.complete if not row.startswith(OWN) and row != BASELINE]
    if OWN not in board.complete or not other_rows:
        return None
    tests = board.tests_against(OWN, other_rows)
    own_gain = board.weighted_gain(OWN)
    ahead: list[str] = []
    behind: list[str] = []
    undecided: list[str] = []
    for row in other_rows:
        if not tests[row].separated:
            undecided.append(row)
        elif board.weighted_gain(row) < own_gain:
            ahead.append(row)
        else:
            behind.append(row)
    largest_p = max((tests[row].adjusted for row in ahead), default=None)
    return DefaultAgainstOthers(tuple(ahead), tuple(behind), tuple(undecided), largest_p)
