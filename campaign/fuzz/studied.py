"""Small studies that are really run: their folders are what other parts damage, kill and compare."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from sortition.studies.plan import plan
from sortition.studies.runs.runner import Execution, execute

SMALL: dict[str, Any] = {
    "rounds": 5,
    "cohort": 3,
    "seeds": 1,
    "data": {"name": "digits", "clients": 10, "partition": {"name": "shards", "per_client": 2}},
    "model": "softmax",
    "availability": {"name": "lognormal", "beta": 0.5},
    "local": {"steps": 2, "batch": 8, "lr": 0.1},
    "target": {"accuracy": 0.3},
    "method": [{"name": "uniform"}],
}


def small(**changes: Any) -> dict[str, Any]:
    """The table of a study of a second or two."""
    return {**copy.deepcopy(SMALL), **changes}


def played(out: Path, table: dict[str, Any], *, resume: bool = False) -> Execution:
    """Run a study here, in this process."""
    return execute(plan(table), out, jobs=1, resume=resume)
