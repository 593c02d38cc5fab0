"""A federation's history, condensed: what became of whom, what was asked, and how long rounds took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.choice_counts import ChoiceCounts
from sortition.core.round_record import FATES, Fate, RoundRecord
from sortition.report.digest import pictures_in
from sortition.report.guard_section import count_guard_actions
from sortition.results.history import History
from sortition.results.outcomes import ClientOutcome


@dataclass
class AskedTotals:
    """One signal over all rounds.

    Attributes:
        rounds: how many rounds asked for it.
        n_asked: how many clients were asked, in all rounds together.
        n_answered: how many of these answered.
        floats: how many numbers were sent up.
        rehearsals: how many clients trained for a rehearsal.
    """

    rounds: int = 0
    n_asked: int = 0
    n_answered: int = 0
    floats: int = 0
    rehearsals: int = 0


@dataclass
class Reason:
    """Why updates could not be used.

    Attributes:
        fate: what became of the updates: "failed", "left out", "given up" or "too stale".
        text: what the client's program or the server said.
        clients: how often it befell each.
    """

    fate: Fate
    text: str
    clients: Counter[int] = field(default_factory=Counter)


@dataclass
class HistoryDigest:
    """What the page needs of a history.

    Attributes:
        history: the files.
        records: the records of its rounds.
        outcomes: round by round, what became of everybody who was chosen.
        by_client: (N,) how often each fate befell each client.
        late: (N,) answers that came when their round was closed.
        available: (N,) rounds in which each client could be chosen; None where the records do not say it.
        asked: signal → what was asked in all rounds.
        reasons: why updates could not be used, the most frequent first.
        seconds: how long each round took, by the server's clock.
        facts: sizes and label counts, where the checkpoint has them.
        pictures: the latest picture of each kind among the notes, with its round.
        guarded: how often each guard acted.
    """

    history: History
    records: list[RoundRecord]
    outcomes: list[dict[int, ClientOutcome]]
    by_client: dict[Fate, Array]
    late: Array
    available: Array | None
    asked: dict[str, AskedTotals]
    reasons: list[Reason]
    seconds: list[float | None]
    facts: dict[str, Array]
    pictures: dict[str, tuple[int, Any]]
    guarded: dict[str, int]

    @property
    def chosen(self) -> Array:
        """(N,) how often each client was chosen."""
        return np.asarray(np.sum(list(self.by_client.values()), axis=0, dtype=np.int64))

    @property
    def totals(self) -> dict[Fate, int]:
        """How often each fate befell anybody, of those that did."""
        return {fate: int(counts.sum()) for fate, counts in self.by_client.items() if counts.any()}

    @property
    def choice_counts(self) -> ChoiceCounts:
        """How often each client was chosen, of the rounds in which it could be."""
        return ChoiceCounts(self.chosen, self.available)

    @property
    def total_seconds(self) -> float | None:
        """Of all rounds; None where no record has a clock."""
        if not self.durations:
            return None
        return sum(self.durations)

    @property
    def durations(self) -> list[float]:
        """Seconds of the rounds that have a clock."""
        return [seconds for seconds in self.seconds if seconds is not None]


def condense_history(history: History) -> HistoryDigest:
    """Read a history once, and return what the page needs of it."""
    records = history.played_records()
    outcomes = list(history.outcomes.values())
    by_client = {fate: np.zeros(history.clients, np.int64) for fate in FATES}
    late = np.zeros(history.clients, np.int64)
    for record, chosen in zip(records, outcomes, strict=True):
        for client, outcome in chosen.items():
            by_client[outcome.fate][client] += 1
        late[record.get("late") or []] += 1
    return HistoryDigest(
        history=history,
        records=records,
        outcomes=outcomes,
        by_client=by_client,
        late=late,
        available=_count_available(history),
        asked=_asked_totals(records),
        reasons=_count_reasons(outcomes),
        seconds=history.seconds(),
        facts=history.facts(),
        pictures=pictures_in(records, first=0),
        guarded=count_guard_actions(records),
    )


def _count_available(history: History) -> Array | None:
    """Return in how many rounds each client could be chosen (N,); None where the records do not say it."""
    if not history.says_who_was_there:
        return None
    counts = np.zeros(history.clients, np.int64)
    for ids in history.present():
        counts[ids] += 1
    return counts


def _asked_totals(records: list[RoundRecord]) -> dict[str, AskedTotals]:
    """Return what was asked for each signal, in all rounds together."""
    totals: dict[str, AskedTotals] = {}
    for record in records:
        questions = record.get("questions") or []
        for signal in {question["signal"] for question in questions}:
            totals.setdefault(signal, AskedTotals()).rounds += 1
        for question in questions:
            total = totals[question["signal"]]
            total.n_asked += question["asked"]
            total.n_answered += question.get("answered", 0)
            total.floats += question.get("floats", 0)
            total.rehearsals += question.get("after", 0)
    return totals


def _count_reasons(outcomes: list[dict[int, ClientOutcome]]) -> list[Reason]:
    """Return why updates of chosen clients could not be used, the most frequent reason first."""
    reasons: dict[tuple[Fate, str], Reason] = {}
    for chosen in outcomes:
        for client, outcome in chosen.items():
            if outcome.reason:
                key = (outcome.fate, outcome.reason)
                reasons.setdefault(key, Reason(*key)).clients[client] += 1
    return sorted(reasons.values(), key=lambda reason: -reason.clients.total())
