"""Every rule of a policy with four clients, and what a federation of any backend must have done under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FACTS = {  # of the four clients; the second one breaks every rule
    "battery": [0.9, 0.1, 0.8, 0.7],
    "charging": [True, False, True, True],
    "idle": [True, False, True, True],
    "sizes": [20, 5, 20, 20],
    "utc_offset": [0, 12, 0, 0],
}
NOON = 12.0  # the hour of the server in these tests
ON_FACTS = {
    "battery": {"battery": 0.5},
    "charging": {"charging": True},
    "idle": {"idle": True},
    "examples": {"examples": 10},
    "local hours": {"hours": "11-13", "local_hours": True},
}
ON_THE_PAST = {
    "separation": {"separation": "2 rounds"},
    "separation in time": {"separation": "1 hour"},
    "participations": {"participations": 1, "window": "2 rounds"},
    "megabytes": {"window": "2 rounds"},  # and room for one training, but not for two
    "lifetime": {"lifetime": 1},
}
SHARED = {
    "owner": {"participations": 1, "window": "2 rounds", "per": "owner"},
    "tag": {"participations": 1, "window": "2 rounds", "per": "tag"},
}
NOBODY = {"hours": {"hours": "22-6"}}
RULES = ON_FACTS | ON_THE_PAST | SHARED | NOBODY


def facts_of(client: int) -> dict[str, Any]:
    """The facts of one of the four clients."""
    return {name: values[client] for name, values in FACTS.items()}


def options_of(name: str, parameters: int) -> dict[str, Any]:
    """The keys of a policy with one rule, for a model of so many parameters."""
    options = dict(RULES[name])
    if name == "megabytes":
        bytes_of_a_training = 2 * 4 * parameters  # there and back
        options["megabytes"] = 1.5 * bytes_of_a_training / 1e6
    return options


def check_two_rounds(name: str, history: Sequence[Mapping[str, Any]]) -> None:
    """Two rounds with cohorts of two of the four clients kept the rule; all of them have one owner and one tag."""
    first, second = history
    cohorts = [set(record["cohort"]) for record in history]
    if name in ON_FACTS:
        assert all(cohorts)
        assert all(1 not in cohort for cohort in cohorts)
        assert [list(record["excluded"].values()) for record in history] == [[1], [1]]
    elif name in ON_THE_PAST:
        assert [len(cohort) for cohort in cohorts] == [2, 2]
        assert not cohorts[0] & cohorts[1]
        assert not first.get("excluded")
        assert list(second["excluded"].values()) == [2]
    elif name in SHARED:
        assert [len(cohort) for cohort in cohorts] == [1, 0]
        assert list(first["excluded"].values()) == [3]
        assert second["notes"]["skipped"] == "nobody eligible"
    else:
        assert all(record["skipped"] for record in history)
        assert [list(record["excluded"].values()) for record in history] == [[4], [4]]
