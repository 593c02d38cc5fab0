"""What the replies of a cohort are good for: models that can be aggregated, and the reports of those who sent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sortition.clients.models import Model, shared_update
from sortition.core.arrays import Array, Ids
from sortition.core.signals import UPDATE, Signal
from sortition.flower import wire
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.exchange import Replies
from sortition.flower.updates import ModelCheck


def usable_models(
    found: Replies, model: Model, check: ModelCheck, base: BaseStrategy
) -> tuple[dict[int, Model], dict[int, str]]:
    """The models that can be used, by client, and what is wrong with the others."""
    models, faults = check.usable(found.contents, model, base.model)
    if base.kind.reads_metrics:
        odd = base.odd_metrics({client: found.messages[client].content for client in models})
        models, faults = {k: sent for k, sent in models.items() if k not in odd}, faults | odd
    return models, faults


def reports(
    signals: Sequence[Signal], found: Replies, models: Mapping[int, Model], model: Model, done: Ids
) -> dict[str, dict[int, Array]]:
    """Rows by signal and client; the update is the difference of the models themselves."""
    if not signals:
        return {}
    sent = {client: wire.received_arrays(found.messages[client].content, wire.ROWS) for client in done.tolist()}
    out = {s.name: {client: rows[s.name] for client, rows in sent.items() if s.name in rows} for s in signals}
    if UPDATE in signals:
        out[UPDATE.name] = {client: shared_update(models[client], model) for client in sent}
    return out
