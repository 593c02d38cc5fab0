"""Simulate the allowed methods in a matched federation for about a minute, and rank them with intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sortition.advice.alike import alike_note, hardly_differ
from sortition.advice.candidates import allowed, usable
from sortition.advice.matched import setups, test_examples, until_same_time
from sortition.advice.profile import KnownFederation, shrunk, with_labels
from sortition.advice.quoted_standings import standings_note
from sortition.core.arrays import Floats, Ids
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.figures import Curve, target_of
from sortition.results.metrics import in_last_rounds
from sortition.results.statistics import BETTER, UNDECIDED, Comparison, compare
from sortition.results.table import Table
from sortition.results.verdict_words import difference_text, verdict_text

if TYPE_CHECKING:
    from sortition.simulation import Setup

MOST_CLIENTS = 200
MOST_ROUNDS = 60
SCREENING_SEEDS = 3  # on which all methods are tried; with more than FINALISTS of them they decide nothing else
LEAST_SEEDS = 5  # of the final; of all, where no screening is needed
MOST_SEEDS = 30
FINALISTS = 4  # methods beside uniform that are compared on fresh seeds
WORK = ("passes", "steps")  # totals of a run that are not bytes
MEANING = (
    "Gains over uniform in points of accuracy, with simultaneous 95 % intervals. bytes: all traffic, in units of "
    "uniform's; a method that leaves places empty sends less."
)
MEANING_BY_TIME = (
    "Every method has the simulated seconds that uniform takes for its rounds. Gains over uniform in points of "
    "accuracy, over all that time and its last tenth, with simultaneous 95 % intervals. time: until it has the "
    "accuracy that uniform has after half of the time, in units of uniform's. bytes: all traffic, likewise."
)
SCREENED = (
    f"All methods were tried on {SCREENING_SEEDS} seeds, and the {FINALISTS} that gained most were compared with "
    "uniform on others: only these have intervals and a verdict."
)
NEVER = "not reached"
NOT_FINAL = "not in the final"
Say = Callable[[str], object]
Figures = dict[str, dict[int, float]]  # a figure by label and seed


@dataclass
class Advice:
    """The figures of every method, its comparison with uniform, and what was ruled out.

    Attributes:
        federation: the federation that was simulated.
        rounds: of each simulation.
        auc: mean accuracy over all rounds, or over the time, by label and seed.
        last: mean accuracy over the last ten rounds, or the last tenth of the time, by label and seed.
        seconds_to_target: until a run has the accuracy that uniform has after half of the time, by label and seed;
            infinite where it never does. Empty where nothing is known of devices.
        seconds: simulated time that every run of a seed had, by seed; empty where nothing is known of devices.
        bytes_sent: by label and seed.
        finalists: the methods that are compared on fresh seeds; None where all are, on all seeds.
        test_examples: on which the accuracies were measured; 0 where unknown.
        ruled_out: why a method is ruled out, by label.
    """

    federation: KnownFederation
    rounds: int
    auc: Figures = field(default_factory=dict)
    last: Figures = field(default_factory=dict)
    seconds_to_target: Figures = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    bytes_sent: Figures = field(default_factory=dict)
    finalists: list[str] | None = None
    test_examples: int = 0
    ruled_out: dict[str, str] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """Tell whether methods are compared by seconds."""
        return self.federation.devices is not None

    @property
    def seeds(self) -> int:
        """Return how many federations were simulated."""
        return len(self.auc.get(BASELINE, {}))

    def traffic(self, label: str) -> float:
        """Return all bytes of a method in units of uniform sampling in the same federations, plain averaging."""
        by_seed = self.bytes_sent[label]
        of_uniform = sum(self.bytes_sent[BASELINE][seed] for seed in by_seed)
        return sum(by_seed.values()) / max(of_uniform, 1)

    def time_to_target(self, label: str) -> float:
        """Return the median over seeds of the time to the target, in units of uniform's; infinite if never reached.

        Seeds in which uniform itself loses the target again and never has it as a mean of three do not count.
        """
        of_uniform = self.seconds_to_target[BASELINE]
        seconds_by_seed = self.seconds_to_target[label]
        if self.finalists is not None and label in self.finalists:  # the seeds that picked it would flatter it
            seconds_by_seed = _fresh(seconds_by_seed)
        ratios = [
            seconds / of_uniform[seed] for seed, seconds in seconds_by_seed.items() if of_uniform[seed] < math.inf
        ]
        return float(np.median(ratios)) if ratios else math.inf

    def compare_with_uniform(self, figures: Figures) -> dict[str, Comparison]:
        """Compare each method, or each finalist on fresh seeds, with uniform sampling; intervals are simultaneous."""
        candidates = {label: values for label, values in figures.items() if label != BASELINE}
        of_uniform = figures[BASELINE]
        if self.finalists is not None:
            candidates = {label: _fresh(figures[label]) for label in self.finalists}
            of_uniform = _fresh(of_uniform)
        resolution = None
        if self.test_examples > 1:
            resolution = 1 / self.test_examples
        return compare(of_uniform, candidates, resolution=resolution)

    def screening_gain(self, label: str) -> float:
        """Return the mean gain of a method over uniform on the seeds of the screening."""
        gains = [self.auc[label][seed] - self.auc[BASELINE][seed] for seed in range(SCREENING_SEEDS)]
        return float(np.mean(gains))

    @property
    def best(self) -> str | None:
        """Return the method that gains most of those that are significantly better than uniform; None if none is."""
        return _leader(self.compare_with_uniform(self.auc), BETTER)

    def sentence(self) -> str:
        """Give the answer in one sentence."""
        comparisons = self.compare_with_uniform(self.auc)
        best = _leader(comparisons, BETTER)
        if best is not None:
            comparison = comparisons[best]
            words = "in the same time, in" if self.is_timed else "in"
            sentence = (
                f"Use {best}: {difference_text(comparison)} points of mean accuracy over uniform {words} a federation "
                f"like yours (with the 95 % interval, {comparison.seeds} simulated federations)."
            )
            return sentence + self._time_sentence(best)
        undecided = _leader(comparisons, UNDECIDED)
        if undecided is None:
            return "Uniform is enough: every allowed method is practically equal or worse here."
        comparison = comparisons[undecided]
        place = "leads" if comparison.difference > 0 else "comes nearest to uniform"
        sentence = (
            f"Undecided after {comparison.seeds} simulated federations, so uniform may be enough: {undecided} {place} "
            f"with {difference_text(comparison)} points. "
        )
        if hardly_differ(self.federation.counts) and not self.is_timed:
            return sentence + "Labels hardly differ between your clients, so there is little to gain by choosing."
        return sentence + "Give it more time (--seconds)."

    def _time_sentence(self, label: str) -> str:
        """Say how long a method takes to what uniform has after half of the time; nothing where it never does."""
        if not self.is_timed or not np.isfinite(self.time_to_target(label)):
            return ""
        seconds_of_uniform = [seconds for seconds in self.seconds_to_target[BASELINE].values() if seconds < math.inf]
        of_uniform = float(np.median(seconds_of_uniform))
        return (
            f" It has uniform's accuracy at half of the time after {self.time_to_target(label):.2f} of uniform's "
            f"{of_uniform:,.0f} seconds."
        )

    def table(self) -> Table:
        """List all methods by their gain."""
        table = Table(self._title(), self._columns(), notes=self._notes())
        auc = self.compare_with_uniform(self.auc)
        last = self.compare_with_uniform(self.last)
        for label in sorted(auc, key=lambda label: -auc[label].difference):
            gains = [difference_text(auc[label]), difference_text(last[label]), verdict_text(auc[label])]
            table.rows.append([label, *gains, *self._time_cells(label), f"{self.traffic(label):.2f}"])
        for label in self._not_in_final():
            cells = [f"{100 * self.screening_gain(label):+z.2f}", "–", NOT_FINAL]
            table.rows.append([label, *cells, *self._time_cells(label), f"{self.traffic(label):.2f}"])
        table.rows.append([BASELINE, "0", "0", "baseline", *self._time_cells(BASELINE), "1.00"])
        return table

    def _not_in_final(self) -> list[str]:
        """Return the methods that were screened only, the largest gain first."""
        if self.finalists is None:
            return []
        labels = [label for label in self.auc if label not in (BASELINE, *self.finalists)]
        return sorted(labels, key=lambda label: -self.screening_gain(label))

    def _title(self) -> str:
        spent = f"{self.rounds} rounds"
        if self.is_timed:
            spent = f"{np.median(list(self.seconds.values())):,.0f} simulated seconds"
        return f"{self.federation.clients} clients, {self.federation.cohort} a round, {spent}, {self.seeds} seeds"

    def _columns(self) -> list[str]:
        if self.is_timed:
            return ["method", "AUC gain", "end gain", "verdict", "time", "bytes"]
        return ["method", "AUC gain", "last 10 gain", "verdict", "bytes"]

    def _notes(self) -> list[str]:
        notes = list(self.federation.notes)
        if self.is_timed:
            notes.append(MEANING_BY_TIME)
        else:
            notes.append(MEANING)
        if self.finalists is not None:
            notes.append(SCREENED)
        alike = alike_note(self.federation.counts, by_time=self.is_timed)
        if alike:
            notes.append(alike)
        standings = standings_note(self.federation.limits, by_time=self.is_timed)
        if standings:
            notes.append(standings)
        return notes

    def _time_cells(self, label: str) -> list[str]:
        """Return the cell of the column "time", where there is one."""
        if not self.is_timed:
            return []
        time_to_target = self.time_to_target(label)
        return [f"{time_to_target:.2f}" if np.isfinite(time_to_target) else NEVER]


def _leader(comparisons: dict[str, Comparison], verdict: str) -> str | None:
    """Return the method with the largest difference among those with this verdict; None if there is none."""
    labels = [label for label, comparison in comparisons.items() if comparison.verdict == verdict]
    return max(labels, key=lambda label: comparisons[label].difference, default=None)


def _fresh(by_seed: dict[int, float]) -> dict[int, float]:
    """Return the figures of the seeds on which nobody was screened."""
    return {seed: figure for seed, figure in by_seed.items() if seed >= SCREENING_SEEDS}


def advise(federation: KnownFederation, *, seconds: float = 60.0, say: Say = lambda text: None) -> Advice:
    """Rank the methods that the limits allow, and compare those that gain most with uniform, as long as time allows."""
    small = with_labels(shrunk(federation, MOST_CLIENTS))
    within_limits, beyond_limits = allowed(federation.limits)
    candidates, unusable = usable(within_limits, small)
    rounds = min(federation.rounds, MOST_ROUNDS)
    advice = Advice(small, rounds, ruled_out=beyond_limits | unusable, test_examples=test_examples(small))
    started_at = time.monotonic()
    least_seeds = LEAST_SEEDS
    seconds_of_seed = 0.0
    for seed in range(MOST_SEEDS):
        begun_at = time.monotonic()
        if seed >= least_seeds and begun_at - started_at + seconds_of_seed > seconds:
            break
        if seed == SCREENING_SEEDS:
            _rule_out_by_traffic(advice)
            if len(advice.auc) - 1 > FINALISTS:
                advice.finalists = _most_promising(advice)
                least_seeds = SCREENING_SEEDS + LEAST_SEEDS
            candidates = {label: candidates[label] for label in (BASELINE, *(advice.finalists or advice.auc))}
        _simulate_seed(advice, setups(small, candidates, rounds, seed), seed)
        seconds_of_seed = time.monotonic() - begun_at
        say(f"seed {seed + 1}: {len(candidates)} methods, {time.monotonic() - started_at:.0f} s")
    return advice


def _most_promising(advice: Advice) -> list[str]:
    """Return the methods that gain most over uniform in the screening."""
    labels = [label for label in advice.auc if label != BASELINE]
    return sorted(labels, key=lambda label: -advice.screening_gain(label))[:FINALISTS]


def _simulate_seed(advice: Advice, setup_by_label: dict[str, Setup], seed: int) -> None:
    """Simulate every method in the federation of one seed, and keep its figures."""
    baseline = _simulated(setup_by_label[BASELINE])
    outcomes = {BASELINE: baseline}
    for label, setup in setup_by_label.items():
        if label == BASELINE:
            continue
        if advice.is_timed:
            setup = until_same_time(setup, baseline.seconds)
        outcomes[label] = _simulated(setup)
    for label, outcome in outcomes.items():
        if advice.is_timed:
            curve = outcome.curve(baseline.seconds)
            target = target_of([baseline.curve(baseline.seconds)])
            advice.auc.setdefault(label, {})[seed] = curve.area()
            advice.last.setdefault(label, {})[seed] = curve.end()
            advice.seconds_to_target.setdefault(label, {})[seed] = curve.reached(target)
        else:
            advice.auc.setdefault(label, {})[seed] = float(outcome.accuracy.mean())
            advice.last.setdefault(label, {})[seed] = float(outcome.accuracy[in_last_rounds(outcome.rounds)].mean())
        advice.bytes_sent.setdefault(label, {})[seed] = outcome.bytes_sent
    if advice.is_timed:
        advice.seconds[seed] = baseline.seconds


class Outcome(NamedTuple):
    """What one simulation came to.

    Attributes:
        rounds: (E,) that were evaluated.
        accuracy: (E,) on the test examples, there.
        clock: (E,) simulated seconds, there.
        bytes_sent: by server and clients, in all rounds.
    """

    rounds: Ids
    accuracy: Floats
    clock: Floats
    bytes_sent: float

    @property
    def seconds(self) -> float:
        """Return the simulated seconds of the whole run; its last round is evaluated."""
        return float(self.clock[-1])

    def curve(self, seconds: float) -> Curve:
        """Return the accuracy by time, up to so many seconds."""
        return Curve(position=self.clock, accuracy=self.accuracy, budget=seconds, by_time=True)


def _simulated(setup: Setup) -> Outcome:
    """Play a simulation to its end."""
    from sortition.simulation import start
    from sortition.studies.runs.run_task import in_one_thread

    evaluations: list[tuple[int, float, float]] = []
    with in_one_thread():
        simulation = start(setup)
        while not simulation.has_ended:
            record = simulation.play_round()
            accuracy = (record.get("test") or {}).get("accuracy")
            if accuracy is not None:
                evaluations.append((record["round"], accuracy, record["clock"] or 0.0))
    rounds, accuracies, clock = zip(*evaluations, strict=True)
    return Outcome(
        rounds=np.array(rounds),
        accuracy=np.array(accuracies),
        clock=np.array(clock),
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
            advice.seconds_to_target.pop(label, None)
