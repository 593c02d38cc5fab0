"""What travels in the ``meta`` of an FLModel, under one key: a task down, rows and facts up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from sortition.clients.named_arrays import Model
from sortition.core.arrays import Array

KEY = "sortition"
CLIENTS = "sortition_clients"  # one message goes to many sites: the dense id of each, by name
PROFILE = "profile"
QUERY = "query"
REHEARSE = "rehearse"
TRAIN = "train"


@dataclass(frozen=True)
class SiteTask:
    """What the server wants of a site with one message.

    Attributes:
        kind: ``profile``, ``query``, ``rehearse`` or ``train``.
        t: the round, from 0.
        client: the site's dense id.
        purpose: ``train``, or ``rehearsal`` under a model that is thrown away.
        signals: names of the signals that are asked for, or reported after training.
        facts: names of the static facts that are wanted (``profile``); ``optional``: those that a site may leave out.
        payload: arrays that belong to the question.
    """

    kind: str
    t: int = 0
    client: int = 0
    purpose: str = "train"
    signals: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    payload: dict[str, Array] = field(default_factory=dict)

    def on(self, model: Model, rounds: int) -> FLModel:
        """Make a message that carries this task and the model."""
        meta = {KEY: asdict(self)}
        return FLModel(ParamsType.FULL, dict(model), current_round=self.t, total_rounds=rounds, meta=meta)

    @classmethod
    def of(cls, message: FLModel, site: str = "") -> SiteTask | None:
        """Read the task of a message to this site; None if it is not ours."""
        content: dict[str, Any] = content_of(message)
        if "kind" not in content:
            return None
        fields = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        for name in ("signals", "facts", "optional"):
            fields[name] = tuple(content.get(name, ()))
        client_of_site = message.meta.get(CLIENTS) or {}
        fields["client"] = client_of_site.get(site, content.get("client", 0))
        return cls(**fields)


def reply(content: Mapping[str, object]) -> FLModel:
    """Make an answer without a model; NVFlare wants parameters or metrics in every message."""
    return FLModel(metrics={KEY: 1.0}, meta={KEY: dict(content)})


def content_of(message: FLModel) -> dict[str, object]:
    """Return what a site answered, or nothing."""
    return table_of((message.meta or {}).get(KEY))


def table_of(content: object) -> dict[str, object]:
    """Return rows or facts by name, as they were sent; not yet screened."""
    if not isinstance(content, Mapping):
        return {}
    return {str(name): value for name, value in content.items()}


def as_model(params: Mapping[str, Any] | None) -> Model:
    """Return parameters as numpy arrays; tensors of PyTorch are copied to the processor's memory."""
    model: Model = {}
    for name, value in (params or {}).items():
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        model[str(name)] = np.asarray(value)
    return model


def full_model(message: FLModel, sent_model: Model) -> Model:
    """Return the model that a message holds; a difference is added to the model that was sent."""
    arrays = as_model(message.params)
    if message.params_type != ParamsType.DIFF:
        return arrays
    return {name: sent_model[name] + value for name, value in arrays.items() if name in sent_model}
