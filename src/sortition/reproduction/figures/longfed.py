"""LongFed's own metrics, ``metric(run, **options)``: fairness among similar clients, and what cohorts cover.

Those with a span take the options ``from`` (default 2: the first cohort may be everyone) and ``to``, counted from 1.
"""

from __future__ import annotations

import json

import numpy as np

from sortition.core import STEP_GRADIENT, Measure
from sortition.core.arrays import Array, Floats
from sortition.results import fairness
from sortition.results.run_folder import Run
from sortition.studies import build_federation
from sortition.studies.config import RunConfig, validated

FEDERATION = ("data", "model", "local", "devices", "seed", "device", "engine")  # the keys that decide first updates
CACHED = 4  # federations whose first updates stay in memory
_gradients: dict[str, Array] = {}  # by the federation's keys, the oldest first


def sigma(run: Run, *, quantile: float = 0.15, **span: int) -> float | None:
    """Return σ (eqs. 33, 34) of the cohorts.

    The clients' distances are those of their updates at the initial model, the same for every method; ε is a quantile.
    """
    cohorts = _cohorts(run, **span)
    if not cohorts:
        return None
    distances = _distances(first_gradients(run))
    counts = fairness.selection_counts(cohorts, len(distances))
    return fairness.sigma(counts, distances, _distance_quantile(distances, quantile))


def violated(run: Run, *, quantile: float = 0.15, delta: float = 0.05, **span: int) -> float | None:
    """Return the share of similar pairs whose selection frequencies differ by more than δ: 0 is (ε, δ)-fair."""
    cohorts = _cohorts(run, **span)
    if not cohorts:
        return None
    distances = _distances(first_gradients(run))
    counts = fairness.selection_counts(cohorts, len(distances))
    epsilon = _distance_quantile(distances, quantile)
    pairs = fairness.individual_fairness(counts, rounds=len(cohorts), distance=distances, epsilon=epsilon, delta=delta)
    return pairs.violated / max(pairs.similar, 1)


def labels_covered(run: Run, **span: int) -> float | None:
    """Return how many labels are some member's most frequent one, as a share of what the cohort's size allows."""
    label_counts = run.federation()["label_counts"]
    n_labels = label_counts.shape[1]
    main_label = label_counts.argmax(axis=1)
    shares = [np.unique(main_label[ids]).size / min(len(ids), n_labels) for ids in _cohorts(run, **span)]
    if not shares:
        return None
    return float(np.mean(shares))


def distinct_cohorts(run: Run, **span: int) -> float | None:
    """Return the number of different cohorts over that of rounds: near 0 where a method repeats itself."""
    cohorts = [tuple(sorted(ids)) for ids in _cohorts(run, **span)]
    if not cohorts:
        return None
    return len(set(cohorts)) / len(cohorts)


def clients_met(run: Run, **span: int) -> float | None:
    """Return the number of clients that were chosen at least once."""
    cohorts = _cohorts(run, **span)
    if not cohorts:
        return None
    return float(np.unique(np.concatenate(cohorts)).size)


def round_ms(run: Run) -> float | None:
    """Return the mean wall-clock milliseconds of a round, evaluation aside, without the first one."""
    seconds = [timing["total"] - timing.get("evaluate", 0.0) for timing in run.timings[1:]]
    if not seconds:
        return None
    return 1000 * float(np.mean(seconds))


def choice_ms(run: Run) -> float | None:
    """Return the median wall-clock milliseconds of a choice, without the first round (imports, everybody's updates)."""
    seconds = [timing["select"] for timing in run.timings[1:] if "select" in timing]
    if not seconds:
        return None
    return 1000 * float(np.median(seconds))


def _cohorts(run: Run, **span: int) -> list[list[int]]:
    first = span.get("from", 2)
    last = span.get("to", 1 << 60)
    return [record["cohort"] for record in run.records if first <= record["round"] + 1 <= last and record["cohort"]]


def _distance_quantile(distances: Floats, quantile: float) -> float:
    """Return a quantile of the distances between two clients."""
    two_clients = ~np.eye(len(distances), dtype=bool)
    return float(np.quantile(distances[two_clients], quantile))


def first_gradients(run: Run) -> Array:
    """Return the updates per local step (N, P) of all clients at the initial model, in single precision.

    Runs that differ in the method alone share them; those of the last few federations stay in memory.
    """
    key = json.dumps({name: value for name, value in run.config.items() if name in FEDERATION}, sort_keys=True)
    if key not in _gradients:
        while len(_gradients) >= CACHED:
            del _gradients[next(iter(_gradients))]  # the oldest
        _gradients[key] = _measured_gradients(run)
    return _gradients[key]


def _measured_gradients(run: Run) -> Array:
    """Train every client once from the initial model, and return the updates per local step (N, P)."""
    config = validated(RunConfig, run.config, str(run.path))
    world = build_federation.setup(config)[1].world
    everybody = np.arange(world.n_clients)
    return world.measure(world.initial, Measure(STEP_GRADIENT, everybody), 0).values.astype(np.float32)


def _distances(gradients: Array) -> Floats:
    """Return the Euclidean distances (N, N) between clients."""
    centred = gradients - gradients.mean(axis=0)
    gram = (centred @ centred.T).astype(np.float64)
    squares = np.diagonal(gram)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * gram, 0.0)))
