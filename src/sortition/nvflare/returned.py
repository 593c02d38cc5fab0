"""What a cohort's sites returned: which models can be used, what they reported, and their weighted sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel

from sortition.aggregation import CombineRule
from sortition.clients.models import Model, shared_update
from sortition.core import Cohort, Guards, Signal
from sortition.core.arrays import Array, Ids
from sortition.core.guards.screening import norms
from sortition.core.signals import UPDATE
from sortition.nvflare import wire


@dataclass
class Returned:
    """Sound models by client, reports by signal and client, what was wrong with the others, and failed reports."""

    models: dict[int, Model] = field(default_factory=dict)
    reports: dict[str, dict[int, Any]] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    unreported: dict[int, str] = field(default_factory=dict)


def screen(sent: Mapping[int, FLModel], model: Model, reports: Iterable[Signal], guards: Guards) -> Returned:
    """Which models can be used: names and shapes as sent, finite, and of a norm that the guards allow."""
    found = Returned()
    for client, message in sent.items():
        trained = _received(message, model)
        if fault := model_fault(trained, model):
            found.faults[client] = fault
        else:
            found.models[client] = trained
        if error := wire.content_of(message).get("error"):
            found.unreported[client] = str(error)
    clients = sorted(found.models)
    updates = [shared_update(found.models[k], model) for k in clients]
    far = norms(np.stack(updates).astype(np.float64)) if clients else np.empty(0)
    for at, reason in guards.absurd(far).items():
        found.faults[clients[at]] = f"update: {reason}"
        del found.models[clients[at]]
    for signal in reports:
        rows = {k: _report(signal, sent[k], found.models[k], model) for k in sorted(found.models)}
        found.reports[signal.name] = {k: row for k, row in rows.items() if row is not None}
    return found


def _received(message: FLModel, model: Model) -> Model:
    """The model of a message; nothing where it is none."""
    try:
        return wire.trained(message, model)
    except Exception:  # what a site sends can raise anything
        return {}


def combined(cohort: Cohort, done: Ids, models: Mapping[int, Model], model: Model) -> Array:
    """Σ a_k Δ_k (P,) of those who completed, with the cohort's weights."""
    weights, _ = cohort.weights_of(done)
    updates = np.stack([shared_update(models[k], model) for k in done.tolist()])
    return CombineRule().apply(done, weights, updates, None)[0]


def _report(signal: Signal, message: FLModel, trained: Model, model: Model) -> Any:
    if signal == UPDATE:
        return shared_update(trained, model)
    return wire.arrays_of(wire.content_of(message).get("rows")).get(signal.name)


def model_fault(sent: Model, model: Model) -> str:
    """Why a model cannot stand in the place of another; empty if it can."""
    if not sent:
        return "no model"
    if strange := sorted(sent.keys() ^ model.keys()):
        return f"arrays {strange[:3]} missing or unknown"
    for name, value in sent.items():
        if value.dtype.kind not in "fiub" or (value.dtype.kind == "f") != (model[name].dtype.kind == "f"):
            return f"{name} has type {value.dtype} in place of {model[name].dtype}"
        if value.shape != model[name].shape:
            return f"{name} of shape {value.shape} in place of {model[name].shape}"
        with np.errstate(over="ignore"):  # a number may be finite as it was sent, and infinite as it is kept
            if value.dtype.kind == "f" and not np.isfinite(value.astype(model[name].dtype, copy=False)).all():
                return f"{name} is not finite"
    return ""
