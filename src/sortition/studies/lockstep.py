"""Which runs are played in lock-step: those whose rounds are so small that most of their time is calls of PyTorch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from sortition.results.reference_lines import REFERENCES
from sortition.studies.config import RunConfig

INPUTS = {"digits": 64, "synthetic": 60}  # numbers of an example of the small data sets, which have ten classes
CLASSES = 10
MAX_MULTIPLICATIONS = 1 << 20  # of a cohort's step; beyond it lock-step gains nothing
MAX_RUNS = 16  # that are played together: more of them gain little


def group_key(run: RunConfig) -> str | None:
    """Return a key that is equal for runs that can train in lock-step; None for a run that is played by itself.

    Such runs have data, model and local rule in common; their partitions may differ.
    """
    if run.task is not None or run.precision is not None:
        return None
    if run.device != "cpu" or run.engine == "sequential" or run.method.name in REFERENCES:
        return None
    if not _is_small(run):
        return None
    table = run.model_dump(mode="json", include={"data", "model", "local"})
    table["data"]["partition"] = None
    return json.dumps(table, sort_keys=True, default=str)


def _is_small(run: RunConfig) -> bool:
    """Tell whether the steps of a cohort are small; a model of one's own on small data is taken to be small.

    If it is not, or cannot be vmapped, its runs are played in turns and each cohort trains by itself.
    """
    batch = run.local.batch
    if batch is None:
        return False
    if ":" in run.model.name:
        return run.data.name in INPUTS
    widths = _layer_widths(run)
    if widths is None:
        return False
    n_weights = sum((n_inputs + 1) * n_outputs for n_inputs, n_outputs in pairwise(widths))
    return run.cohort * batch * n_weights <= MAX_MULTIPLICATIONS


def _layer_widths(run: RunConfig) -> list[int] | None:
    """Return the widths of a model of linear layers on small data; None for every other run."""
    if run.data.name not in INPUTS or run.model.name not in ("softmax", "mlp"):
        return None
    hidden: object = []
    if run.model.name == "mlp":
        hidden = run.model.options.get("hidden", [64, 30])
    if not isinstance(hidden, list) or not all(isinstance(width, int) for width in hidden):
        return None  # the model says what is wrong
    return [INPUTS[run.data.name], *hidden, CLASSES]


def groups(tasks: Sequence[object], processes: int) -> list[list[int]]:
    """Group the tasks of equal key so that no process is idle; a group is the list of its tasks' positions."""
    positions_by_key: dict[str | int, list[int]] = defaultdict(list)
    for position, task in enumerate(tasks):
        key: str | None = getattr(task, "lockstep_key", None)
        positions_by_key[position if key is None else key].append(position)
    grouped = []
    for positions in positions_by_key.values():
        per_process = -(-len(positions) // processes)  # rounded up
        size = max(1, min(MAX_RUNS, per_process))
        grouped += [positions[start : start + size] for start in range(0, len(positions), size)]
    return sorted(grouped)
