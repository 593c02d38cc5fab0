"""Metrics that clients send: which of them can be averaged, and what is wrong with the others.

Flower's own average takes every value as it comes: a list beside a number, NaN or weights that sum to zero end the run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from flwr.app import MetricRecord, RecordDict

MOST_EXAMPLES = 2**53  # beyond it whole numbers are not exact as floats, and nobody has so many examples
Metric = float | list[int] | list[float]  # whole numbers are floats, too
Metrics = dict[str, Metric]


def usable_metrics(
    contents: Mapping[int, RecordDict], weight: str = "", ignored: Collection[str] = (), *, complete: bool = False
) -> tuple[dict[int, Metrics], dict[int, str]]:
    """Return the metrics that all usable replies share, by sender, and why other senders' are left out.

    Args:
        contents: replies by sender; the first MetricRecord of each counts.
        weight: the metric that must be there as a number of examples; empty: none.
        ignored: metrics that are not read.
        complete: leave out senders without a metric that most have, in place of that metric.
    """
    metrics_by_sender = {sender: sent_metrics(content, ignored) for sender, content in contents.items()}
    faults: dict[int, str] = {}
    for sender, values in metrics_by_sender.items():
        reason = _fault(values, weight)
        if reason:
            faults[sender] = reason
    usual_lengths = _usual_lengths([values for sender, values in metrics_by_sender.items() if sender not in faults])
    for sender, values in metrics_by_sender.items():
        reason = _odd_length(values, usual_lengths)
        if reason:
            faults.setdefault(sender, reason)
    if complete:
        faults = _incomplete(metrics_by_sender) | faults
    usable = {sender: values for sender, values in metrics_by_sender.items() if sender not in faults}
    shared_names = set(usual_lengths).intersection(*usable.values())
    shared = {}
    for sender, values in usable.items():
        shared[sender] = {name: value for name, value in values.items() if name in shared_names}
    return shared, faults


def sent_metrics(content: RecordDict, ignored: Collection[str] = ()) -> Metrics:
    """Return the metrics of one reply."""
    _, record = first_metrics(content)
    return {name: value for name, value in record.items() if name not in ignored}


def first_metrics(content: RecordDict) -> tuple[str, MetricRecord]:
    """Return the first MetricRecord of a reply and its name; an empty one where there is none."""
    for name, record in content.items():
        if isinstance(record, MetricRecord):
            return name, record
    return "metrics", MetricRecord()


def shared_metrics(contents: Iterable[RecordDict]) -> set[str]:
    """Return the names of the MetricRecords that all replies have."""
    return set[str].intersection(*(set(content.metric_records) for content in contents))


def _fault(values: Metrics, weight: str) -> str:
    if weight and not is_amount(values.get(weight)):
        return f"metric {weight!r} is {_shown(values.get(weight))} in place of a number of examples"
    for name, value in values.items():
        if not all(abs(number) <= sys.float_info.max for number in _as_list(value)):  # NaN is not
            return f"metric {name!r} is not finite"
    return ""


def _as_list(value: Metric) -> Sequence[float]:
    if isinstance(value, list):
        return value
    return [value]


def is_amount(value: Metric | None) -> bool:
    """Tell whether what a client reports can be a number of examples."""
    return value is not None and not isinstance(value, list) and 0 <= value <= MOST_EXAMPLES


def _usual_lengths(sent: list[Metrics]) -> dict[str, int]:
    """Return the length that more than half of the senders of a metric agree on; a metric without one is left out."""
    usual = {}
    for name in {name: None for values in sent for name in values}:
        lengths = Counter(_length(values[name]) for values in sent if name in values)
        length, count = lengths.most_common(1)[0]
        if 2 * count > lengths.total():
            usual[name] = length
    return usual


def _odd_length(values: Metrics, usual: Mapping[str, int]) -> str:
    for name, value in values.items():
        if name in usual and usual[name] != _length(value):
            return f"metric {name!r} is of another length than the others'"
    return ""


def _incomplete(sent: Mapping[int, Metrics]) -> dict[int, str]:
    """Return who lacks a metric that more than half have."""
    counts = Counter(name for values in sent.values() for name in values)
    usual_names = [name for name, count in counts.items() if 2 * count > len(sent)]
    faults: dict[int, str] = {}
    for sender, values in sent.items():
        absent_names = [name for name in usual_names if name not in values]
        if absent_names:
            faults[sender] = f"metric {absent_names[0]!r} is missing"
    return faults


def _length(value: Metric) -> int:
    """Return the length of a list; −1 for a number."""
    if isinstance(value, list):
        return len(value)
    return -1


def _shown(value: Metric | None) -> str:
    if value is None:
        return "missing"
    if isinstance(value, list):
        return "a list"
    return str(value)[:24]
