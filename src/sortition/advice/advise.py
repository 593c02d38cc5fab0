"""Simulate the allowed methods in a matched federation for about a minute, and rank them with intervals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sortition.advice.candidates import allowed, usable
from sortition.advice.matched import setups, test_examples
from sortition.advice.profile import KnownFederation, shrunk, with_labels
from sortition.leaderboard.entries import BASELINE
from sortition.results.metrics import in_last_rounds
from sortition.results.statistics import BETTER, UNDECIDED, Comparison, compare
from sortition.results.table import Table
from sortition.results.verdict_words import difference_text, verdict_text

if TYPE_CHECKING:
    from sortition.simulation import Setup

MOST_CLIENTS = 200
MOST_ROUNDS = 60
LEAST_SEEDS = 3
MOST_SEEDS = 20
WORK = ("passes", "steps")  # totals of a run that are not bytes
MEANING = (
    "Gains over uniform in points of accuracy, with simultaneous 95 % intervals. bytes: all traffic, in units of "
    "uniform's; a method that leaves places empty sends less."
)
Say = Callable[[str], object]
Figures = dict[str, dict[int, float]]  # a figure by label and seed


@dataclass
class Advice:
    """The figures of every method, its comparison with uniform, and what was ruled out.

    Attributes:
        federation: the federation that was simulated.
        rounds: of each simulation.
        auc: mean accuracy over all rounds, by label and seed.
        last: mean accuracy over the last ten rounds, by label and seed.
        bytes_sent: bytes of all seeds, by label.
        test_examples: on which the accuracies were measured; 0 where unknown.
        ruled_out: why a method is ruled out, by label.
    """

    federation: KnownFederation
    rounds: int
    auc: Figures = field(default_factory=dict)
    last: Figures = field(default_factory=dict)
    bytes_sent: dict[str, float] = field(default_factory=dict)
    test_examples: int = 0
    ruled_out: dict[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many federations were simulated."""
        return len(self.auc.get(BASELINE, {}))

    def traffic(self, label: str) -> float:
        """Return all bytes of a method in units of uniform sampling in the same federations, plain averaging."""
        return self.bytes_sent[label] / max(self.bytes_sent[BASELINE], 1)

    def compared(self, figures: Figures) -> dict[str, Comparison]:
        """Compare each method with uniform sampling; intervals are simultaneous."""
        others = {label: values for label, values in figures.items() if label != BASELINE}
        resolution = None
        if self.test_examples > 1:
            resolution = 1 / self.test_examples
        return compare(figures[BASELINE], others, resolution=resolution)

    @property
    def best(self) -> str | None:
        """The method that gains most among those that are significantly better than uniform; None if there is none."""
        return _leader(self.compared(self.auc), BETTER)

    def sentence(self) -> str:
        """Give the answer in one sentence."""
        comparisons = self.compared(self.auc)
        best = _leader(comparisons, BETTER)
        if best is not None:
            comparison = comparisons[best]
            return (
                f"Use {best}: {difference_text(comparison)} points of mean accuracy over uniform in a federation like "
                f"yours (with the 95 % interval, {comparison.seeds} simulated federations)."
            )
        undecided = _leader(comparisons, UNDECIDED)
        if undecided is None:
            return "Uniform is enough: every allowed method is practically equal or worse here."
        comparison = comparisons[undecided]
        place = "leads" if comparison.difference > 0 else "comes nearest to uniform"
        return (
            f"Undecided after {comparison.seeds} simulated federations, so uniform may be enough: {undecided} {place} "
            f"with {difference_text(comparison)} points. Give it more time (--seconds)."
        )

    def table(self) -> Table:
        """List all methods by their gain."""
        clients = self.federation.clients
        table = Table(
            f"{clients} clients, {self.federation.cohort} a round, {self.rounds} rounds, {self.seeds} seeds",
            ["method", "AUC gain", "last 10 gain", "verdict", "bytes"],
            notes=[*self.federation.notes, MEANING],
        )
        auc = self.compared(self.auc)
        last = self.compared(self.last)
        for label in sorted(auc, key=lambda label: -auc[label].difference):
            table.rows.append(
                [
                    label,
                    difference_text(auc[label]),
                    difference_text(last[label]),
                    verdict_text(auc[label]),
                    f"{self.traffic(label):.2f}",
                ]
            )
        table.rows.append([BASELINE, "0", "0", "baseline", "1.00"])
        return table


def _leader(comparisons: dict[str, Comparison], verdict: str) -> str | None:
    """Return the method with the largest difference among those with this verdict; None if there is none."""
    labels = [label for label, comparison in comparisons.items() if comparison.verdict == verdict]
    return max(labels, key=lambda label: comparisons[label].difference, default=None)


def advise(federation: KnownFederation, *, seconds: float = 60.0, say: Say = lambda text: None) -> Advice:
    """Rank the methods that the limits allow; at least three seeds, then as many as the time allows."""
    small = with_labels(shrunk(federation, MOST_CLIENTS))
    within_limits, beyond_limits = allowed(federation.limits)
    candidates, unusable = usable(within_limits, small)
    rounds = min(federation.rounds, MOST_ROUNDS)
    advice = Advice(small, rounds, ruled_out=beyond_limits | unusable, test_examples=test_examples(small))
    started_at = time.monotonic()
    for seed in range(MOST_SEEDS):
        elapsed = time.monotonic() - started_at
        if seed >= LEAST_SEEDS and elapsed * (seed + 1) / seed > seconds:
            break
        for label, setup in setups(small, candidates, rounds, seed).items():
            outcome = _simulated(setup)
            advice.auc.setdefault(label, {})[seed] = outcome.auc
            advice.last.setdefault(label, {})[seed] = outcome.last
            advice.bytes_sent[label] = advice.bytes_sent.get(label, 0.0) + outcome.bytes_sent
        say(f"seed {seed + 1}: {len(candidates)} methods, {time.monotonic() - started_at:.0f} s")
    _rule_out_by_traffic(advice)
    return advice


class Outcome(NamedTuple):
    """The figures of one simulation: mean accuracy over all rounds and over the last ten, and all bytes."""

    auc: float
    last: float
    bytes_sent: float


def _simulated(setup: Setup) -> Outcome:
    """Play a simulation to its end."""
    from sortition.simulation import start
    from sortition.studies.runs.task import in_one_thread

    accuracy_by_round: dict[int, float] = {}
    with in_one_thread():
        simulation = start(setup)
        while not simulation.has_ended:
            record = simulation.play_round()
            accuracy = (record.get("test") or {}).get("accuracy")
            if accuracy is not None:
                accuracy_by_round[record["round"]] = accuracy
    rounds = np.array(list(accuracy_by_round))
    accuracies = np.array(list(accuracy_by_round.values()))
    return Outcome(
        auc=float(accuracies.mean()),
        last=float(accuracies[in_last_rounds(rounds)].mean()),
        bytes_sent=sum(total for name, total in simulation.totals.items() if name not in WORK),
    )


def _rule_out_by_traffic(advice: Advice) -> None:
    """Rule out the methods that send more than the limit."""
    limit = advice.federation.limits.traffic
    if not limit:
        return
    for label in advice.bytes_sent:
        traffic = advice.traffic(label)
        if traffic > limit and label != BASELINE:
            advice.ruled_out[label] = f"needs {traffic:.2f} times the traffic of plain averaging"
            del advice.auc[label]
            del advice.last[label]
