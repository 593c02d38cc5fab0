"""LongFed's own metrics, ``metric(run, **options)``: fairness among similar clients, and what cohorts cover."""

from __future__ import annotations

import json

import numpy as np

from sortition.core import STEP_GRADIENT, Measure
from sortition.core.arrays import Array, Floats
from sortition.results import fairness
from sortition.results.run_folder import Run
from sortition.studies import federation
from sortition.studies.config import RunConfig, validated

FEDERATION = ("data", "model", "local", "devices", "seed", "device", "engine")  # the keys that decide first updates
KEPT = 4
_gradients: dict[str, Array] = {}


def sigma(run: Run, *, quantile: float = 0.15, **span: int) -> float | None:
    """σ (eqs. 33, 34) of the cohorts from round ``from`` (default 2: the first may be everyone's) to ``to``.

    The clients' distances are those of their updates at the initial model, the same for every method; ε is a quantile.
    """
    cohorts = _cohorts(run, **span)
    if not cohorts:
        return None
    gradients = first_gradients(run)
    distance = _distance(gradients)
    counts = fairness.selection_counts(cohorts, len(gradients))
    return fairness.sigma(counts, distance, _epsilon(distance, quantile))


def violated(run: Run, *, quantile: float = 0.15, delta: float = 0.05, **span: int) -> float | None:
    """Share of the similar pairs whose selection frequencies differ by more than δ: 0 is (ε, δ)-fair."""
    cohorts = _cohorts(run, **span)
    if not cohorts:
        return None
    distance = _distance(first_gradients(run))
    counts = fairness.selection_counts(cohorts, len(distance))
    found = fairness.individual_fairness(counts, len(cohorts), distance, _epsilon(distance, quantile), delta)
    return found.violated / max(found.similar, 1)


def labels_covered(run: Run, **span: int) -> float | None:
    """How many labels are some member's most frequent one, as a share of what the cohort's size allows."""
    counts = run.federation()["label_counts"]
    main = counts.argmax(axis=1)
    shares = [np.unique(main[ids]).size / min(len(ids), counts.shape[1]) for ids in _cohorts(run, **span)]
    return float(np.mean(shares)) if shares else None


def distinct_cohorts(run: Run, **span: int) -> float | None:
    """Different cohorts over rounds: near 0 where a method repeats itself."""
    cohorts = [tuple(sorted(ids)) for ids in _cohorts(run, **span)]
    return len(set(cohorts)) / len(cohorts) if cohorts else None


def round_ms(run: Run) -> float | None:
    """Mean wall-clock milliseconds of a round, evaluation aside, without the first one."""
    spent = [timing["total"] - timing.get("evaluate", 0.0) for timing in run.timings[1:]]
    return 1000 * float(np.mean(spent)) if spent else None


def choice_ms(run: Run) -> float | None:
    """Median wall-clock milliseconds of a choice, without the first round (imports, everybody's updates)."""
    spent = [timing["select"] for timing in run.timings[1:] if "select" in timing]
    return 1000 * float(np.median(spent)) if spent else None


def _cohorts(run: Run, **span: int) -> list[list[int]]:
    first, last = span.get("from", 2), span.get("to", 1 << 60)
    return [r["cohort"] for r in run.records if first <= r["round"] + 1 <= last and r["cohort"]]


def _epsilon(distance: Floats, quantile: float) -> float:
    return float(np.quantile(distance[~np.eye(len(distance), dtype=bool)], quantile))


def first_gradients(run: Run) -> Array:
    """(N, P) updates per local step of all clients at the initial model, in single precision.

    Runs that differ in the method alone share them; the last few federations are kept.
    """
    key = json.dumps({name: value for name, value in run.config.items() if name in FEDERATION}, sort_keys=True)
    if key not in _gradients:
        while len(_gradients) >= KEPT:
            del _gradients[next(iter(_gradients))]  # the oldest
        _gradients[key] = _measured_gradients(run)
    return _gradients[key]


def _measured_gradients(run: Run) -> Array:
    config = validated(RunConfig, run.config, str(run.path))
    world = federation.setup(config)[1].world
    everybody = np.arange(world.n_clients)
    return world.measure(world.initial, Measure(STEP_GRADIENT, everybody), 0).values.astype(np.float32)


def _distance(rows: Array) -> Floats:
    rows = rows - rows.mean(axis=0)
    gram = (rows @ rows.T).astype(np.float64)
    squares = np.diagonal(gram)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * gram, 0.0))
