"""The tables of small studies that several tests share."""

from __future__ import annotations

import copy
from typing import Any

SMALL: dict[str, Any] = {
    "rounds": 6,
    "cohort": 3,
    "seeds": 2,
    "data": {"name": "digits", "clients": 12, "partition": {"name": "shards", "per_client": 2}},
    "model": "softmax",
    "availability": {"name": "lognormal", "beta": 0.5},
    "local": {"steps": 3, "batch": 8, "lr": 0.1},
    "target": {"accuracy": 0.3},
    "method": [{"name": "uniform"}, {"name": "power-of-choice", "d": 6}],
}


def small(**changes: Any) -> dict[str, Any]:
    """A study of a few seconds, with some keys changed."""
    return {**copy.deepcopy(SMALL), **changes}
