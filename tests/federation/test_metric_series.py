"""The series of a federation are its records, summed up."""

from __future__ import annotations

import numpy as np
import pytest

from sortition.audit.encoding import encode_ids
from sortition.federation.metric_series import Now, SelectionSeries, reason_class


def record(index, cohort, **more):
    table = {
        "round": index,
        "available": 4,
        "cohort": cohort,
        "weights": [1.0] * len(cohort),
        "answered": cohort,
        "members": 5,
        "names": [f"phone-{client}" for client in cohort],
        "present": encode_ids(np.arange(4)),
        "busy": 0,
        "clock": 2.0 * (index + 1),
    }
    return {**table, **more}


def folded(*records, now=None):
    series = SelectionSeries({"method": "Uniform", "backend": "server", "version": "1"})
    for one_record in records:
        series.add(one_record, now)
    return series


def values(series, at=None):
    return {
        (family.name, *sample.labels.values()): sample.value
        for family in series.series(at)
        for sample in family.samples
    }


def test_counters_are_sums_over_records():
    question = {"signal": "loss", "asked": 4, "answered": 3}
    first = record(0, [0, 1], answered=[0], silent=[1], questions=[question])
    second = record(1, [1, 2], answered=[1], left_out={"2": "w is not finite"}, rejected={"3": "loss: negative"})
    third = record(2, [2, 3], answered=[], failed={"2": "raised"}, late=[1], standby=[3], questions=[question])
    third["withdrawn"] = [0]
    fourth = record(3, [], skipped=True, available=0)
    shown = values(folded(first, second, third, fourth))
    assert shown["chosen",] == 6
    assert shown["used",] == 2
    assert (shown["silent",], shown["failed",], shown["late",], shown["standby",]) == (1, 1, 1, 1)
    assert shown["withdrawn",] == 1
    assert shown["refused", "update", "not-finite"] == 1
    assert shown["refused", "answer", "negative"] == 1
    assert (shown["questions", "loss"], shown["answers", "loss"]) == (8, 6)
    assert (shown["rounds", "used"], shown["rounds", "empty"], shown["rounds", "skipped"]) == (2, 1, 1)
    assert shown["round_seconds",] == pytest.approx(8.0)


def test_evenness_counts_those_who_could_be_chosen():
    """Client 4 was never there: it is not among those who were passed over."""
    series = folded(record(0, [0, 1]), record(1, [0, 2]))
    shown = values(series)
    assert shown["never_chosen",] == 1
    shares = np.array([1.0, 0.5, 0.5, 0.0])
    assert shown["evenness",] == pytest.approx(shares.sum() ** 2 / (4 * (shares**2).sum()))
    assert (shown["rounds_since_chosen", "0.5"], shown["rounds_since_chosen", "1"]) == (0.0, 1.0)


def test_clients_join():
    series = folded(record(0, [0]), record(1, [6], members=7, present=encode_ids(np.arange(7))))
    assert values(series)["clients",] == 7
    assert values(series)["never_chosen",] == 5


def test_guards_exclude_and_eligible_is_what_is_left():
    series = folded(record(0, [0], notes={"guards": {"quarantined": 1, "thinned": 2, "explored": [0]}}))
    shown = values(series)
    assert (shown["excluded", "quarantine"], shown["excluded", "quota"]) == (1, 2)
    assert (shown["available",], shown["eligible",]) == (4, 1)


def test_policies_exclude():
    series = folded(record(0, [0], excluded={"participations": 2}), record(1, [0], excluded={"participations": 1}))
    shown = values(series)
    assert shown["excluded", "participations"] == 3
    assert shown["eligible",] == 3


def test_what_no_record_has_is_of_this_server():
    now = Now(quarantined=2, selection_seconds=0.05, traffic={"down": 10, "up": 5}, checkpoint=100.0)
    series = folded(record(0, [0]), now=now)
    shown = values(series, at=130.0)
    assert (shown["quarantined",], shown["checkpoint_age_seconds",]) == (2, 30.0)
    assert (shown["array_bytes", "down"], shown["array_bytes", "up"]) == (10, 5)
    (selection,) = [family.samples[0] for family in series.series() if family.name == "selection_seconds"]
    assert selection.buckets[:3] == [(0.001, 0), (0.01, 0), (0.1, 1)]
    assert selection.buckets[-1] == (float("inf"), 1)


def test_owners_and_clients_are_named_only_where_names_are_given():
    owners = np.array([0, 0, 1, 1, 1])
    series = folded(record(0, [0, 1]), record(1, [0, 2]), now=Now(owners=owners))
    shown = values(series)
    assert shown["owner_largest_share",] == 0.75
    assert not any(name in ("owner_places", "client_places") for name, *_ in shown)
    asked = Now(owners=owners, owner_names=["north", "south"], client_names=["a", "b", "c", "d", "e"])
    series.add(record(2, [3]), asked)
    shown = values(series)
    assert (shown["owner_places", "north"], shown["owner_places", "south"]) == (3, 2)
    assert (shown["client_places", "a"], shown["client_places", "e"]) == (2, 0)


def test_a_reason_becomes_one_of_a_few_labels():
    assert reason_class("loss: not finite") == "not-finite"
    assert reason_class("w of shape (2,) in place of (3,)") == "shape"
    assert reason_class("my serial number is 4711") == "other"


def test_figures_for_trackers_are_flat_numbers():
    figures = folded(record(0, [0, 1]), now=Now(selection_seconds=0.5)).figures()
    assert figures["selection/chosen"] == 2.0
    assert figures["selection/seconds"] == 0.5
    assert figures["selection/never_chosen"] == 2.0
    assert all(isinstance(value, float) for value in figures.values())
