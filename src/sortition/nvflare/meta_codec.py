"""What travels in the ``meta`` of an FLModel, under one key: what a site is to do down, rows and facts up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from sortition.clients.named_arrays import Model
from sortition.federation.messages import Ask

KEY = "sortition"
CLIENTS = "sortition_clients"  # one message goes to many sites: the dense id of each, by name


def message_of(asks: Mapping[str, Ask], rounds: int) -> FLModel:
    """Make one message for sites that are asked the same; it names the id of each.

    Args:
        asks: what each site is to do, by the site's name.
        rounds: the number of rounds of the job.
    """
    ask = next(iter(asks.values()))
    round_index = max(ask.round, 0)
    table = {
        "kind": ask.kind,
        "round": round_index,
        "purpose": ask.purpose,
        "signals": ask.signals,
        "facts": ask.facts,
        "optional": ask.optional,
        "payload": dict(ask.payload),
    }
    clients = {site: ask_of_site.client for site, ask_of_site in asks.items()}
    return FLModel(
        ParamsType.FULL,
        dict(ask.model),
        current_round=round_index,
        total_rounds=rounds,
        meta={KEY: table, CLIENTS: clients},
    )


def ask_of(message: FLModel, site: str) -> Ask | None:
    """Read what a message asks of this site; return None where it is not ours."""
    table: dict[str, Any] = content_of(message)
    if "kind" not in table:
        return None
    return Ask(
        kind=table["kind"],
        session=site,
        client=message.meta[CLIENTS].get(site, 0),
        round=table["round"],
        signals=tuple(table["signals"]),
        purpose=table["purpose"],
        payload=table["payload"],
        facts=tuple(table["facts"]),
        optional=tuple(table["optional"]),
    )


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
