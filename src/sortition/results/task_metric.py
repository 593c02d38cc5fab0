"""By which test metric a run is judged, and whether more of it is better: accuracy and loss, or its task's metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sortition.results.statistics import HIGHER

Config = Mapping[str, Any]  # of one run
ACCURACY = "accuracy"
LOSS = "loss"


def metric_of(config: Config) -> str:
    """Return what a study is judged by: the metric of its target, else its task's, else accuracy."""
    if LOSS in config.get("target", {}):
        return LOSS
    return task_metric(config)


def task_metric(config: Config) -> str:
    """Return the test metric that belongs to the task: accuracy, unless the configuration says otherwise."""
    return str(config.get("task", {}).get("metric_name", ACCURACY))


def tested_metrics(config: Config) -> tuple[str, ...]:
    """Return the test figures of a run, the task's metric first."""
    return tuple(dict.fromkeys([task_metric(config), LOSS]))


def higher_is_better(config: Config, metric: str) -> bool:
    """Tell whether more of a test metric of this run is better."""
    if metric in HIGHER:
        return HIGHER[metric]
    return bool(config.get("task", {}).get("higher_is_better", True))
