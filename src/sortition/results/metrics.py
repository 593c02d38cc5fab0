"""Figures of one run: ``metric(run, **options) -> float | None``, None where unknown or never reached.

Test figures of a run that diverged are not finite; its files hold null in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sortition.core import arrays
from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad
from sortition.core.import_policy import imported
from sortition.core.validation import is_number
from sortition.results.attrition import captured, captured_weight, completed, started, trainings, uploads, wasted
from sortition.results.run_folder import Run, total_bytes
from sortition.results.statistics import HIGHER

Metric = Callable[..., float | None]
LAST, SMOOTH = 10, 5
CHANCE = 0.05  # a model that is no further above guessing has hardly learned


def smoothed(rounds: Array, values: Array, width: int) -> tuple[Array, Floats]:
    """Rounds, and the mean over the evaluations in the last ``width`` of them; the first width − 1 rounds have none."""
    if width <= 1:
        return rounds, values.astype(np.float64)
    ends = np.flatnonzero(rounds >= width)
    if ends.size and rounds[-1] == rounds.size:  # evaluated in every round
        return rounds[ends], np.lib.stride_tricks.sliding_window_view(values, width).mean(axis=1)
    starts = np.searchsorted(rounds, rounds[ends] - width, side="right")
    return rounds[ends], np.array([values[a : b + 1].mean() for a, b in zip(starts, ends, strict=True)], np.float64)


def crossing(rounds: Array, values: Array, target: float, *, higher: bool, smooth: int = 1) -> int | None:
    """The first round at which the (smoothed) curve reaches the target; None if it never does."""
    rounds, curve = smoothed(rounds, values, smooth)
    reached = np.flatnonzero(curve >= target if higher else curve <= target)
    return int(rounds[reached[0]]) if reached.size else None


def rounds_to_target(
    run: Run, *, accuracy: float | None = None, loss: float | None = None, smooth: int = 1
) -> float | None:
    """Rounds played when the target is first reached; default: the target of the run's own configuration."""
    given = {key: value for key, value in (("accuracy", accuracy), ("loss", loss)) if value is not None}
    own = {key: value for key, value in run.config.get("target", {}).items() if key in HIGHER}
    target = given or own
    if len(target) != 1:
        return None
    of, value = next(iter(target.items()))
    found = crossing(*run.curve(of), value, higher=HIGHER[of], smooth=smooth)
    return None if found is None else float(found)


def best(run: Run, *, of: str = "accuracy") -> float | None:
    """The best evaluation."""
    values = run.curve(of)[1]
    known = values[np.isfinite(values)]
    if not known.size:
        return math.nan if values.size else None
    return float(known.max() if HIGHER[of] else known.min())


def final(run: Run, *, of: str = "accuracy") -> float | None:
    """The last evaluation."""
    values = run.curve(of)[1]
    return float(values[-1]) if values.size else None


def last(run: Run, *, of: str = "accuracy", last: int = LAST) -> float | None:
    """Mean over the evaluations in the last rounds."""
    rounds, values = run.curve(of)
    return float(values[rounds > rounds[-1] - last].mean()) if values.size else None


def mean(run: Run, *, of: str = "accuracy", **span: int) -> float | None:
    """Mean over the evaluations in rounds ``from`` … ``to``, 1-based, both in."""
    rounds, values = run.curve(of)
    inside = (rounds >= span.get("from", 1)) & (rounds <= span.get("to", np.inf))
    return float(values[inside].mean()) if inside.any() else None


def peak_minus_final(run: Run, *, of: str = "accuracy") -> float | None:
    """How much of the best was lost at the end."""
    top, end = best(run, of=of), final(run, of=of)
    return None if top is None or end is None else abs(top - end)


def diverged(run: Run) -> bool:
    """Whether the test loss is not finite, or above that of guessing in the whole last quarter of the evaluations."""
    values = run.curve("loss")[1]
    counts = run.federation().get("label_counts")
    return divergent(values, None if counts is None else counts.shape[1])


def divergent(loss: Array, classes: int | None) -> bool:
    """The same of a curve; it starts at the loss of guessing among the classes, ln C, or at its first value."""
    if not np.isfinite(loss).all():
        return True
    if loss.size < 2:
        return False
    start = math.log(classes) if classes and classes > 1 else float(loss[0])
    return bool((loss[-max(1, loss.size // 4) :] > start).all())


def near_chance(accuracies: Sequence[float], label_counts: Array | None) -> list[str]:
    """A remark where all accuracies are within :data:`CHANCE` of always guessing the most frequent label."""
    if label_counts is None or not accuracies or not label_counts.sum():
        return []
    guess = float(label_counts.sum(axis=0).max() / label_counts.sum())
    if max(accuracies) > guess + CHANCE:
        return []
    return [
        f"The models hardly learned: no method is more than {100 * CHANCE:g} points above guessing the most frequent "
        f"label ({100 * guess:.0f} %), so the comparison says little. Try more rounds or another rate."
    ]


def speed_up(run: Run, *, reference: Run, **options: Any) -> float | None:
    """Rounds to target of the reference over ours, same seed; None unless both reached it."""
    ours, theirs = rounds_to_target(run, **options), rounds_to_target(reference, **options)
    return theirs / ours if ours and theirs else None


def gap(run: Run, *, reference: Run, of: str = "accuracy", smooth: int = 20) -> float | None:
    """Mean absolute difference of the smoothed curves of a run and its reference."""
    ours, theirs = (smoothed(*one.curve(of), smooth)[1] for one in (run, reference))
    n = min(ours.size, theirs.size)
    return float(np.abs(ours[:n] - theirs[:n]).mean()) if n else None


def worst_tenth(run: Run) -> float | None:
    """Mean accuracy of the tenth of clients that the model serves worst, of those that were evaluated."""
    accuracy = run.clients().get("accuracy", np.empty(0))
    known = accuracy[np.isfinite(accuracy)]
    if not known.size:
        return None
    return float(arrays.worst_tenth(known).mean())


def shares(run: Run, *, raw: bool = False) -> Floats:
    """Times selected over times available, of clients ever available; ``raw`` gives plain counts."""
    counts = run.clients()
    if not counts:
        return np.empty(0)
    met = counts["available"] > 0
    selected = counts["selected"][met].astype(np.float64)
    return selected if raw else selected / counts["available"][met]


def jain(run: Run, *, raw: bool = False) -> float | None:
    """Jain's index (Σx)² / (n Σx²) of the selection shares: 1 is even."""
    return jain_index(shares(run, raw=raw))


def jain_index(x: Floats) -> float | None:
    """(Σx)² / (n Σx²); None where nobody was selected."""
    return float(x.sum() ** 2 / (x.size * (x**2).sum())) if x.any() else None


def gini(run: Run, *, raw: bool = False) -> float | None:
    """Gini's coefficient of the selection shares: 0 is even."""
    x = np.sort(shares(run, raw=raw))
    return float(((2 * np.arange(1, x.size + 1) - x.size - 1) * x).sum() / (x.size * x.sum())) if x.any() else None


def count_variance(run: Run) -> float | None:
    """Variance of the plain selection counts."""
    x = shares(run, raw=True)
    return float(x.var()) if x.size else None


def never_selected(run: Run) -> float | None:
    """Share of the clients ever available that never trained."""
    x = shares(run, raw=True)
    return float((x == 0).mean()) if x.size else None


def megabytes(run: Run) -> float | None:
    """All that crossed the wire, in 10⁶ bytes."""
    return sum(total_bytes(record) for record in run.records) / 1e6 if run.records else None


def seconds(run: Run) -> float | None:
    """Wall-clock seconds of all rounds."""
    return _timed(run, "total")


def selection_ms(run: Run) -> float | None:
    """Mean wall-clock milliseconds that the method itself took in a round, its questions' answers aside."""
    found = _timed(run, "select")
    return None if found is None else 1000 * found / len(run.timings)


def _timed(run: Run, key: str) -> float | None:
    found = [timing[key] for timing in run.timings if key in timing]
    return float(sum(found)) if found else None


METRICS: dict[str, Metric] = {
    function.__name__.replace("_", "-"): function
    for function in (
        rounds_to_target, best, final, last, mean, peak_minus_final, speed_up, gap, worst_tenth, jain, gini,
        count_variance, never_selected, megabytes, seconds, selection_ms, started, completed, wasted, captured,
        captured_weight, trainings, uploads,
    )
}  # fmt: skip


def metric(name: str) -> Metric:
    """A metric by name, or by ``package.module:function``."""
    if ":" in name:
        return _checked(imported(name, "table.metric"), name)
    if name not in METRICS:
        raise bad("table.metric", f"one of {', '.join(METRICS)}, or package.module:function", name)
    return METRICS[name]


def _checked(function: Any, name: str) -> Metric:
    """A metric of the user's own that returns a number or None, or is refused in one sentence."""
    if not callable(function):
        raise bad(f"table.metric {name}", "a function (run, **options)", function)

    def metric(run: Run, **options: Any) -> float | None:
        value = function(run, **options)
        if value is not None and not is_number(value):
            raise bad(f"table.metric {name}", "a function that returns a number or None", value)
        return None if value is None else float(value)

    return metric


def summarise(run: Run) -> Mapping[str, float | None]:
    """The standard figures of one run, as its summary.json keeps them."""
    figures: dict[str, float | None] = {}
    for of in HIGHER:
        for name in ("best", "final", "last", "mean", "peak-minus-final"):
            figures[f"{name}-{of}"] = METRICS[name](run, of=of)
    figures["rounds-to-target"] = rounds_to_target(run)
    figures["rounds-to-target-smoothed"] = rounds_to_target(run, smooth=SMOOTH)
    for name in ("worst-tenth", "jain", "gini", "count-variance", "never-selected", "megabytes"):
        figures[name] = METRICS[name](run)
    if any("trainings" in record for record in run.records):
        figures |= {name: METRICS[name](run) for name in ("trainings", "uploads")}
    if completed(run) not in (None, 1.0):
        figures |= {name: METRICS[name](run) for name in ("started", "completed", "wasted")}
    if run.config.get("attacks"):
        figures |= {name: METRICS[name](run) for name in ("captured", "captured-weight")}
    return figures
