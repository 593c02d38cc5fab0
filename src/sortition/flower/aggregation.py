"""From replies to w + Σ a_k Δ_k: what can be used, in the cohort's order, with the cohort's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import RecordDict

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.screening import norms
from sortition.core.guards.settings import Guards
from sortition.core.rounds import Cohort
from sortition.flower import wire

Model = dict[str, Array]


def sound(
    contents: Mapping[int, RecordDict], model: Model, guards: Guards | None = None
) -> tuple[dict[int, Model], dict[int, str]]:
    """The models that can be used, by client, and what is wrong with the others; updates are held to the guards."""
    models: dict[int, Model] = {}
    faults: dict[int, str] = {}
    for client, content in contents.items():
        sent = [name for name in content.array_records if name != wire.ROWS]
        tables = wire.received(content, sent[0]) if len(sent) == 1 else {}
        if fault := wire.fault(tables, model):
            faults[client] = fault
        else:
            models[client] = tables
    clients = sorted(models)
    far = np.array([distance(models[client], model) for client in clients])
    refused = {clients[at]: f"update: {reason}" for at, reason in (guards or Guards()).absurd(far).items()}
    return {k: tables for k, tables in models.items() if k not in refused}, faults | refused


def distance(sent: Model, model: Model) -> float:
    """‖w_k − w‖ over the floating arrays."""
    parts = [
        norms((sent[name].astype(np.float64) - before).reshape(1, -1))[0]
        for name, before in model.items()
        if before.dtype.kind == "f" and before.size
    ]
    return float(np.hypot.reduce(parts)) if parts else 0.0


def weighed(cohort: Cohort, models: Mapping[int, Model]) -> tuple[Ids, Floats, dict[str, Any]]:
    """Who answered, in the cohort's order, with what weight, and notes."""
    done = np.array([k for k in cohort.ids.tolist() if k in models], np.int64)
    return done, *cohort.weights_of(done)


def mean(model: Model, models: Mapping[int, Model], done: Ids, weights: Floats) -> Model:
    """w + Σ a_k (w_k − w), summed in the order of ``done``: the same on every run; counters are averaged too."""
    out = {}
    for name, before in model.items():
        kind = before.dtype.type if before.dtype.kind == "f" else np.float64
        total = np.zeros(before.shape, kind)
        for client, weight in zip(done.tolist(), weights, strict=True):
            total += kind(weight) * np.subtract(models[client][name], before, dtype=kind)
        out[name] = (before + total).astype(before.dtype)
    return out
