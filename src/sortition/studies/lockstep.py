"""Which runs are played in lock-step: those whose rounds are so small that most of their time is calls of PyTorch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sortition.results.reference_lines import REFERENCES
from sortition.studies.config import RunConfig

INPUTS = {"digits": 64, "synthetic": 60}  # numbers of an example of the small data sets, which have ten classes
WORK = 1 << 20  # multiplications of a cohort's step beyond which lock-step gains nothing
MOST = 16  # runs that are played together: more of them gain little


def shape(run: RunConfig) -> str | None:
    """What runs in lock-step have in common: data, model and local rule; None for a run that is played by itself."""
    widths = _widths(run)
    if widths is None or run.device != "cpu" or run.engine == "sequential" or run.method.name in REFERENCES:
        return None
    batch, weights = run.local.batch, sum((a + 1) * b for a, b in pairwise(widths))
    if batch is None or run.cohort * batch * weights > WORK:
        return None
    table = run.model_dump(mode="json", include={"data", "model", "local"})
    return json.dumps({**table, "data": {**table["data"], "partition": None}}, sort_keys=True, default=str)


def _widths(run: RunConfig) -> list[int] | None:
    """The widths of a model of linear layers on small data."""
    if run.data.name not in INPUTS or run.model.name not in ("softmax", "mlp"):
        return None
    hidden = run.model.options.get("hidden", [64, 30]) if run.model.name == "mlp" else []
    whole = isinstance(hidden, list) and all(isinstance(width, int) for width in hidden)  # the model says what is wrong
    return [INPUTS[run.data.name], *hidden, 10] if whole else None


def groups(tasks: Sequence[Any], processes: int) -> list[list[int]]:
    """The tasks' numbers, in the order in which they come; those of one shape together, so that no process is idle."""
    together: dict[Any, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        key = getattr(task, "shape", None)
        together[index if key is None else key].append(index)
    found = []
    for members in together.values():
        size = max(1, min(MOST, -(-len(members) // processes)))
        found += [members[at : at + size] for at in range(0, len(members), size)]
    return sorted(found)
