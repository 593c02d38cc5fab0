"""Simulate the allowed methods in a matched federation for about a minute, and rank them with intervals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sortition.advice.candidates import allowed, usable
from sortition.advice.matched import setups, test_examples
from sortition.advice.profile import Known, shrunk, with_labels
from sortition.leaderboard.entries import BASELINE
from sortition.results.statistics import BETTER, UNDECIDED, Comparison, compare
from sortition.results.table import Table
from sortition.results.verdict_words import difference_text, verdict_text

if TYPE_CHECKING:
    from sortition.simulation import Setup

MOST_CLIENTS, MOST_ROUNDS, LEAST_SEEDS, MOST_SEEDS = 200, 60, 3, 20
WORK = ("passes", "steps")  # totals of a run that are not bytes
MEANING = (
    "Gains over uniform in points of accuracy, with simultaneous 95 % intervals. bytes: all traffic, in units of "
    "uniform's; a method that leaves places empty sends less."
)
Say = Callable[[str], object]


@dataclass
class Advice:
    """What was found: the figures of every method by seed, comparisons with uniform, and what was ruled out."""

    source: Known
    rounds: int
    auc: dict[str, dict[int, float]] = field(default_factory=dict)
    last: dict[str, dict[int, float]] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)  # bytes of all seeds
    test_examples: int = 0  # on which the accuracies were measured; 0 where unknown
    ruled_out: dict[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many federations were simulated."""
        return len(self.auc.get(BASELINE, {}))

    def traffic(self, label: str) -> float:
        """All bytes of a method, in units of uniform sampling in the same federations, which is plain averaging."""
        return self.sent[label] / max(self.sent[BASELINE], 1)

    def compared(self, figure: dict[str, dict[int, float]]) -> dict[str, Comparison]:
        """Each method against uniform sampling, intervals simultaneous."""
        others = {label: values for label, values in figure.items() if label != BASELINE}
        resolution = 1 / self.test_examples if self.test_examples > 1 else None
        return compare(figure[BASELINE], others, resolution=resolution)

    @property
    def best(self) -> str | None:
        """The method that gains most among those that are significantly better than uniform; None if there is none."""
        found = {label: one for label, one in self.compared(self.auc).items() if one.verdict == BETTER}
        return max(found, key=lambda label: found[label].difference, default=None)

    def sentence(self) -> str:
        """The answer in one sentence."""
        compared = self.compared(self.auc)
        if self.best is None:
            open_ = {label: one for label, one in compared.items() if one.verdict == UNDECIDED}
            if not open_:
                return "Uniform is enough: every allowed method is practically equal or worse here."
            label = max(open_, key=lambda one: open_[one].difference)
            one = open_[label]
            place = "leads" if one.difference > 0 else "comes nearest to uniform"
            return (
                f"Undecided after {one.seeds} simulated federations, so uniform may be enough: {label} {place} with "
                f"{difference_text(one)} points. Give it more time (--seconds)."
            )
        one = compared[self.best]
        return (
            f"Use {self.best}: {difference_text(one)} points of mean accuracy over uniform in a federation like yours "
            f"(with the 95 % interval, {one.seeds} simulated federations)."
        )

    def table(self) -> Table:
        """All methods by their gain."""
        table = Table(
            f"{self.source.clients} clients, {self.source.cohort} a round, {self.rounds} rounds, {self.seeds} seeds",
            ["method", "AUC gain", "last 10 gain", "verdict", "bytes"],
            notes=[*self.source.notes, MEANING],
        )
        auc, last = self.compared(self.auc), self.compared(self.last)
        for label in sorted(auc, key=lambda one: -auc[one].difference):
            cells = [difference_text(auc[label]), difference_text(last[label]), verdict_text(auc[label])]
            table.rows.append([label, *cells, f"{self.traffic(label):.2f}"])
        table.rows.append([BASELINE, "0", "0", "baseline", "1.00"])
        return table


def advise(source: Known, *, seconds: float = 60.0, say: Say = lambda text: None) -> Advice:
    """Rank the methods that the limits allow; at least three seeds, then as many as the time allows."""
    small = with_labels(shrunk(source, MOST_CLIENTS))
    permitted, ruled_out = allowed(source.limits)
    candidates, unusable = usable(permitted, small)
    rounds = min(source.rounds, MOST_ROUNDS)
    found = Advice(small, rounds, ruled_out=ruled_out | unusable, test_examples=test_examples(small))
    begun = time.monotonic()
    for seed in range(MOST_SEEDS):
        spent = time.monotonic() - begun
        if seed >= LEAST_SEEDS and spent * (seed + 1) / seed > seconds:
            break
        for label, setup in setups(small, candidates, rounds, seed).items():
            auc, last, sent = _played(setup)
            found.auc.setdefault(label, {})[seed] = auc
            found.last.setdefault(label, {})[seed] = last
            found.sent[label] = found.sent.get(label, 0.0) + sent
        say(f"seed {seed + 1}: {len(candidates)} methods, {time.monotonic() - begun:.0f} s")
    _rule_out_by_traffic(found)
    return found


def _played(setup: Setup) -> tuple[float, float, float]:
    """Mean accuracy over the rounds and over the last ten, and all bytes."""
    from sortition.simulation import start
    from sortition.studies.runs.task import in_one_thread

    scores: list[tuple[int, float]] = []
    with in_one_thread():
        simulation = start(setup)
        while simulation.played < setup.horizon:
            record = simulation.play_round()
            accuracy = (record.get("test") or {}).get("accuracy")
            if accuracy is not None:
                scores.append((record["round"], accuracy))
    late = [value for t, value in scores if t >= scores[-1][0] - 9]
    sent = sum(value for lane, value in simulation.totals.items() if lane not in WORK)
    return float(np.mean([value for _, value in scores])), float(np.mean(late)), sent


def _rule_out_by_traffic(found: Advice) -> None:
    limit = found.source.limits.traffic
    for label in [label for label in found.sent if limit and found.traffic(label) > limit and label != BASELINE]:
        found.ruled_out[label] = f"needs {found.traffic(label):.2f} times the traffic of plain averaging"
        del found.auc[label], found.last[label]
