"""Figures of one run: ``metric(run, **options) -> float | None``, None where unknown or never reached.

Test figures of a run that diverged are not finite; its files hold null in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from sortition.core import arrays
from sortition.core.arrays import Array, Floats, jain_index
from sortition.core.choice_counts import ChoiceCounts
from sortition.core.cost import CURRENCIES, Currency, cumulative_costs, total_bytes, total_passes
from sortition.core.errors import bad
from sortition.core.import_policy import import_named
from sortition.core.validation import is_number
from sortition.results.attrition import captured, captured_weight, completed, started, trainings, uploads, wasted
from sortition.results.equal_cost import mean_over, value_at
from sortition.results.run_folder import Run
from sortition.results.statistics import Window
from sortition.results.task_metric import ACCURACY, LOSS, higher_is_better, task_metric, tested_metrics

Metric = Callable[..., float | None]
LAST = 10  # rounds at the end of a run that the figure ``last`` averages
SMOOTH = 5  # rounds of the running mean by which a target is reached
CHANCE = 0.05  # a model that is no further above guessing has hardly learned


class TargetOptions(TypedDict, total=False):
    """What a run should reach; by default the target of its own configuration.

    Attributes:
        accuracy: the test accuracy, a share.
        loss: the test loss, in place of an accuracy.
        smooth: the mean of the evaluations in the last so many rounds must reach it.
    """

    accuracy: float | None
    loss: float | None
    smooth: int


def smoothed(rounds: Array, values: Array, width: int) -> tuple[Array, Floats]:
    """Return rounds and the running mean over the evaluations in the last ``width`` rounds up to each of them.

    The first width − 1 rounds have no mean.
    """
    if width <= 1:
        return rounds, values.astype(np.float64)
    ends = np.flatnonzero(rounds >= width)
    if ends.size and rounds[-1] == rounds.size:  # evaluated in every round
        return rounds[ends], np.lib.stride_tricks.sliding_window_view(values, width).mean(axis=1)
    starts = np.searchsorted(rounds, rounds[ends] - width, side="right")
    means = [values[start : end + 1].mean() for start, end in zip(starts, ends, strict=True)]
    return rounds[ends], np.array(means, np.float64)


def first_crossing(rounds: Array, values: Array, target: float, *, higher: bool, smooth: int = 1) -> int | None:
    """Return the first round at which the (smoothed) curve reaches the target; None if it never does."""
    rounds, means = smoothed(rounds, values, smooth)
    reached = rounds[meets_target(means, target, higher=higher)]
    if not reached.size:
        return None
    return int(reached[0])


def meets_target(means: Floats, target: float, *, higher: bool) -> npt.NDArray[np.bool_]:
    """Return which means are as good as the target, or better; NaN is not."""
    if higher:
        return means >= target
    return means <= target


def rounds_to_target(
    run: Run, *, accuracy: float | None = None, loss: float | None = None, smooth: int = 1
) -> float | None:
    """Return the rounds played when the target is first reached; default: the target of the run's configuration."""
    if accuracy is None and loss is None:
        target = {key: value for key, value in run.config.get("target", {}).items() if key in (ACCURACY, LOSS)}
    else:
        arguments = {"accuracy": accuracy, "loss": loss}
        target = {key: value for key, value in arguments.items() if value is not None}
    if len(target) != 1:
        return None
    ((metric, goal),) = target.items()
    rounds, values = run.curve(metric)
    round_number = first_crossing(rounds, values, goal, higher=higher_is_better(run.config, metric), smooth=smooth)
    if round_number is None:
        return None
    return float(round_number)


def cost_to_target(run: Run, currency: Currency, **options: Unpack[TargetOptions]) -> float | None:
    """Return what the run had cost when it first reached the target; the options are those of ``rounds-to-target``."""
    rounds = rounds_to_target(run, **options)
    if rounds is None:
        return None
    costs = cumulative_costs(run.records)
    cost = float(costs[currency][np.searchsorted(costs["rounds"], rounds)])
    if not math.isfinite(cost) or cost == 0:  # a federation without a clock, or a reference line
        return None
    return cost


def seconds_to_target(run: Run, **options: Unpack[TargetOptions]) -> float | None:
    """Return the simulated seconds when the target is first reached."""
    return cost_to_target(run, "seconds", **options)


def megabytes_to_target(run: Run, **options: Unpack[TargetOptions]) -> float | None:
    """Return the traffic until the target is first reached, in 10⁶ bytes."""
    return cost_to_target(run, "megabytes", **options)


def passes_to_target(run: Run, **options: Unpack[TargetOptions]) -> float | None:
    """Return how many examples clients computed on until the target is first reached."""
    return cost_to_target(run, "passes", **options)


def at_cost(run: Run, *, of: str = "accuracy", **budget: float) -> float | None:
    """Return the last evaluation at or before a cost, such as ``seconds = 600``; None where the run has cost less."""
    currency, amount = _budget(budget)
    return value_at(run.costs()[currency], run.curve(of)[1], amount)


def auc(run: Run, *, of: str = "accuracy", **budget: float) -> float | None:
    """Return the mean over the cost from the first evaluation to, say, ``seconds = 600``: the area under the curve."""
    currency, amount = _budget(budget)
    costs = run.costs()[currency]
    if not costs.size:
        return None
    return mean_over(costs, run.curve(of)[1], float(costs[0]), amount)


def _budget(budget: Mapping[str, float]) -> tuple[Currency, float]:
    """Return the one cost that is given."""
    amounts = [(currency, budget[currency]) for currency in CURRENCIES if currency in budget]
    if len(amounts) != 1 or len(budget) != 1:
        raise bad("table.options", f"one of {', '.join(CURRENCIES)}, with of", ", ".join(budget) or "none")
    return amounts[0]


def best(run: Run, *, of: str = "accuracy") -> float | None:
    """Return the best evaluation."""
    _, values = run.curve(of)
    if not values.size:
        return None
    finite = values[np.isfinite(values)]
    if not finite.size:
        return math.nan
    return float(finite.max() if higher_is_better(run.config, of) else finite.min())


def final(run: Run, *, of: str = "accuracy") -> float | None:
    """Return the last evaluation."""
    _, values = run.curve(of)
    if not values.size:
        return None
    return float(values[-1])


def last(run: Run, *, of: str = "accuracy", last: int = LAST) -> float | None:
    """Return the mean over the evaluations in the last rounds."""
    rounds, values = run.curve(of)
    if not values.size:
        return None
    return float(values[in_last_rounds(rounds, last)].mean())


def in_last_rounds(rounds: Array, last: int = LAST) -> Array:
    """Tell which of the evaluated rounds are among the last ones of the run, the last evaluated round included."""
    return np.asarray(rounds > rounds[-1] - last)


def window_of(rounds: Array) -> Window | None:
    """Return what the figure ``last`` averages, from the evaluated rounds (1-based); None where there is none."""
    if not rounds.size:
        return None
    played = int(rounds[-1])
    return Window(
        rounds=min(LAST, played),
        evaluations=int(in_last_rounds(rounds).sum()),
        is_whole_run=played <= LAST,
    )


def longest_window(curves: Iterable[Array]) -> Window | None:
    """Return the longest of the windows of several runs, given the evaluated rounds of each."""
    windows = [window for rounds in curves if (window := window_of(rounds)) is not None]
    return max(windows, key=lambda window: (window.rounds, window.evaluations), default=None)


def mean(run: Run, *, of: str = "accuracy", **span: int) -> float | None:
    """Return the mean over the evaluations in rounds ``from`` … ``to``, 1-based, both in."""
    rounds, values = run.curve(of)
    inside = (rounds >= span.get("from", 1)) & (rounds <= span.get("to", np.inf))
    if not inside.any():
        return None
    return float(values[inside].mean())


def peak_minus_final(run: Run, *, of: str = "accuracy") -> float | None:
    """Return how much of the best was lost at the end."""
    peak = best(run, of=of)
    end = final(run, of=of)
    if peak is None or end is None:
        return None
    return abs(peak - end)


def diverged(run: Run) -> bool:
    """Tell whether the test loss is not finite, or above that of guessing in all of the last quarter of evaluations."""
    _, losses = run.curve("loss")
    label_counts = run.federation().get("label_counts")
    if label_counts is None:
        classes = None
    else:
        classes = label_counts.shape[1]
    return is_divergent(losses, classes)


def is_divergent(losses: Array, classes: int | None) -> bool:
    """Tell the same of a curve; it starts at the loss of guessing among the classes, ln C, or at its first value."""
    if not np.isfinite(losses).all():
        return True
    if losses.size < 2:
        return False
    if classes and classes > 1:
        start = math.log(classes)
    else:
        start = float(losses[0])
    last_quarter = losses[-max(1, losses.size // 4) :]
    return bool((last_quarter > start).all())


def chance_remarks(accuracies: Sequence[float], label_counts: Array | None) -> list[str]:
    """Remark that all accuracies are within :data:`CHANCE` of always guessing the most frequent label."""
    if label_counts is None or not accuracies or not label_counts.sum():
        return []
    guess = float(label_counts.sum(axis=0).max() / label_counts.sum())
    if max(accuracies) > guess + CHANCE:
        return []
    return [
        f"The models hardly learned: no method is more than {100 * CHANCE:g} points above guessing the most frequent "
        f"label ({100 * guess:.0f} %), so the comparison says little. Try more rounds or another rate."
    ]


def speed_up(run: Run, *, reference: Run, **options: Unpack[TargetOptions]) -> float | None:
    """Return the reference's rounds to target over the run's, same seed; None unless both reached it."""
    return speed_ratio(rounds_to_target(run, **options), rounds_to_target(reference, **options))


def speed_ratio(rounds: float | None, reference_rounds: float | None) -> float | None:
    """Return the rounds of a reference over those of a run; None where one of them is not known."""
    if not rounds or not reference_rounds:
        return None
    return reference_rounds / rounds


def gap(run: Run, *, reference: Run, of: str = "accuracy", smooth: int = 20) -> float | None:
    """Return the mean absolute difference of the smoothed curves of a run and its reference."""
    _, run_curve = smoothed(*run.curve(of), smooth)
    _, reference_curve = smoothed(*reference.curve(of), smooth)
    shorter = min(run_curve.size, reference_curve.size)
    if not shorter:
        return None
    return float(np.abs(run_curve[:shorter] - reference_curve[:shorter]).mean())


def worst_tenth(run: Run) -> float | None:
    """Return the mean accuracy, or metric of the task, of the tenth of clients that the model serves worst."""
    clients = run.clients()
    scores = clients.get("metric", clients.get("accuracy", np.empty(0)))
    evaluated = scores[np.isfinite(scores)]
    if not evaluated.size:
        return None
    if "metric" in clients and not higher_is_better(run.config, task_metric(run.config)):
        return float(-arrays.worst_tenth(-evaluated).mean())
    return float(arrays.worst_tenth(evaluated).mean())


def shares(run: Run, *, raw: bool = False) -> Floats:
    """Return times chosen over times available, of clients ever available; ``raw`` gives plain counts."""
    counts = _choice_counts(run)
    if raw:
        return counts.times_chosen
    return counts.shares


def _choice_counts(run: Run) -> ChoiceCounts:
    """Return how often each client was chosen and available; of nobody, where the run does not say it."""
    counts = run.clients()
    if not counts:
        return ChoiceCounts(np.empty(0), np.empty(0))
    return ChoiceCounts(counts["selected"], counts["available"])


def jain(run: Run, *, raw: bool = False) -> float | None:
    """Return Jain's index (Σx)² / (n Σx²) of the selection shares: 1 is even."""
    return jain_index(shares(run, raw=raw))


def gini(run: Run, *, raw: bool = False) -> float | None:
    """Return Gini's coefficient of the selection shares: 0 is even."""
    x = np.sort(shares(run, raw=raw))
    if not x.any():
        return None
    n = x.size
    rank = np.arange(1, n + 1)
    return float(((2 * rank - n - 1) * x).sum() / (n * x.sum()))


def count_variance(run: Run) -> float | None:
    """Return the variance of the plain selection counts."""
    counts = shares(run, raw=True)
    if not counts.size:
        return None
    return float(counts.var())


def never_selected(run: Run) -> float | None:
    """Return the share of the clients ever available that were never chosen."""
    counts = _choice_counts(run)
    if not counts.shares.size:
        return None
    return counts.never_chosen / counts.shares.size


def megabytes(run: Run) -> float | None:
    """Return all that crossed the wire, in 10⁶ bytes."""
    if not run.records:
        return None
    return sum(total_bytes(record) for record in run.records) / 1e6


def passes(run: Run) -> float | None:
    """Return how many examples clients computed on in all rounds; None where no record counts them."""
    counted = [record for record in run.records if record.get("passes")]
    if not counted:
        return None
    return sum(total_passes(record) for record in counted)


def seconds(run: Run) -> float | None:
    """Return the simulated seconds of all rounds, by the clock of the federation; None where it has none."""
    if not run.records:
        return None
    clock = run.records[-1].get("clock")
    if clock is None:
        return None
    return float(clock)


def wall_clock(run: Run) -> float | None:
    """Return the wall-clock seconds that the simulator took for all rounds."""
    return _total_seconds(run, "total")


def selection_ms(run: Run) -> float | None:
    """Return the mean wall-clock milliseconds that the method took in a round, without its questions' answers."""
    total = _total_seconds(run, "select")
    if total is None:
        return None
    return 1000 * total / len(run.timings)


def _total_seconds(run: Run, key: str) -> float | None:
    durations = [timing[key] for timing in run.timings if key in timing]
    if not durations:
        return None
    return float(sum(durations))


METRICS: dict[str, Metric] = {
    function.__name__.replace("_", "-"): function
    for function in (
        rounds_to_target, seconds_to_target, megabytes_to_target, passes_to_target, at_cost, auc, best, final, last,
        mean, peak_minus_final, speed_up, gap, worst_tenth, jain, gini, count_variance, never_selected, megabytes,
        passes, seconds, wall_clock, selection_ms, started, completed, wasted, captured, captured_weight, trainings,
        uploads,
    )
}  # fmt: skip


def metric(name: str) -> Metric:
    """Return a metric by name, or by ``package.module:function``."""
    if ":" in name:
        return _checked(import_named(name, "table.metric"), name)
    if name not in METRICS:
        raise bad("table.metric", f"one of {', '.join(METRICS)}, or package.module:function", name)
    return METRICS[name]


def _checked(function: object, name: str) -> Metric:
    """Return a user's metric so that it gives a number or None, or is refused in one sentence."""
    if not callable(function):
        raise bad(f"table.metric {name}", "a function (run, **options)", function)

    def metric(run: Run, **options: Any) -> float | None:
        value = function(run, **options)
        if value is None:
            return None
        if not is_number(value):
            raise bad(f"table.metric {name}", "a function that returns a number or None", value)
        return float(value)

    return metric


def summarise(run: Run) -> Mapping[str, float | None]:
    """Compute the standard figures of one run, as its summary.json keeps them."""
    figures: dict[str, float | None] = {}
    for metric_name in tested_metrics(run.config):
        for name in ("best", "final", "last", "mean", "peak-minus-final"):
            figures[f"{name}-{metric_name}"] = METRICS[name](run, of=metric_name)
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


def figures_of(run: Run) -> dict[str, float | None]:
    """Return the figures that tables, page and comparisons show of a run: the standard ones, and all costs.

    The standard ones are those of its summary. A summary holds null where a figure is not finite, and none at all
    before the run is done: then they are computed from the records.
    """
    stored = run.summary.get("figures") or {}
    compared = [f"{name}-{metric_name}" for metric_name in tested_metrics(run.config) for name in ("last", "mean")]
    is_complete = all(stored.get(name) is not None for name in compared)
    figures = stored if is_complete else summarise(run)
    return {
        **figures,
        **_costs_to_target(run),
        "rounds": float(len(run.records)),
        "passes": passes(run),
        "seconds": seconds(run),
    }


def _costs_to_target(run: Run) -> dict[str, float | None]:
    """Return what a run had cost when it reached its target, by currency: by the raw curve, and by the running mean."""
    figures: dict[str, float | None] = {}
    if run.config.get("target"):
        for currency in CURRENCIES[1:]:
            figures[f"{currency}-to-target"] = cost_to_target(run, currency)
            figures[f"{currency}-to-target-smoothed"] = cost_to_target(run, currency, smooth=SMOOTH)
    return figures
