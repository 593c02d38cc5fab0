"""Metrics that strangers send: which of them can be averaged, and what is wrong with the others.

Flower's own average takes every value as it comes: a list beside a number, NaN or weights that sum to zero end the run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from flwr.app import MetricRecord, RecordDict

MOST = 2**53  # examples: beyond it whole numbers are not exact, and nobody has so many


def sound(
    contents: Mapping[int, RecordDict], weight: str = "", ignored: Collection[str] = ()
) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """The metrics that all sound replies share, by sender, and why other senders' are left out.

    Args:
        contents: replies by sender; the first MetricRecord of each counts.
        weight: the metric that must be there as a number of examples; empty: none.
        ignored: metrics that are not read.
    """
    told, faults = dict[int, dict[str, Any]](), dict[int, str]()
    for sender, content in contents.items():
        record = next(iter(content.metric_records.values()), MetricRecord())
        told[sender] = {name: record[name] for name in record if name not in ignored}
        if reason := _fault(told[sender], weight):
            faults[sender] = reason
    usual = _usual({sender: values for sender, values in told.items() if sender not in faults})
    for sender, values in told.items():
        odd = [name for name, value in values.items() if usual.get(name, -2) not in (-2, _length(value))]
        if sender not in faults and odd:
            faults[sender] = f"metric {odd[0]!r} is of another length than the others'"
    kept = {sender: values for sender, values in told.items() if sender not in faults}
    shared = set(usual).intersection(*(values for values in kept.values()))
    return {k: {name: value for name, value in values.items() if name in shared} for k, values in kept.items()}, faults


def _fault(values: Mapping[str, Any], weight: str) -> str:
    if weight and not (_length(values.get(weight, [])) < 0 and 0 <= values[weight] <= MOST):
        return f"metric {weight!r} is {_short(values.get(weight))} in place of a number of examples"
    for name, value in values.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(abs(number) <= sys.float_info.max for number in numbers):  # NaN is not
            return f"metric {name!r} is not finite"
    return ""


def _usual(told: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
    """The length that more than half of the senders of a metric agree on; metrics without one are not there."""
    usual = {}
    for name in {name: None for values in told.values() for name in values}:
        lengths = Counter(_length(values[name]) for values in told.values() if name in values)
        length, count = lengths.most_common(1)[0]
        if 2 * count > lengths.total():
            usual[name] = length
    return usual


def _length(value: Any) -> int:
    """Of a list; −1 for a number."""
    return len(value) if isinstance(value, list) else -1


def _short(value: Any) -> str:
    return "missing" if value is None else "a list" if isinstance(value, list) else str(value)[:24]
