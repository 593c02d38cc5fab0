"""What the replies of a cohort are good for: models that can be aggregated, and the reports of those who sent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import WARNING

from flwr.common.logger import log

from sortition.clients.models import Model, shared_update
from sortition.core.arrays import Array, Ids
from sortition.core.signals import UPDATE, Signal
from sortition.flower import wire
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.exchange import Replies
from sortition.flower.metrics import first_metrics, is_amount
from sortition.flower.roster import Roster
from sortition.flower.updates import ModelCheck

CLOSE = 0.01  # how far a client's two words on its examples may be apart, in proportion to others'


def usable_models(
    found: Replies, model: Model, check: ModelCheck, base: BaseStrategy
) -> tuple[dict[int, Model], dict[int, str]]:
    """The models that can be used, by client, and what is wrong with the others."""
    models, faults = check.usable(found.contents, model, base.model)
    if base.kind.reads_metrics:
        odd = base.odd_metrics({client: found.messages[client].content for client in models})
        models, faults = {k: sent for k, sent in models.items() if k not in odd}, faults | odd
    return models, faults


def log_other_examples(t: int, found: Replies, roster: Roster, base: BaseStrategy) -> None:
    """Say in the first round whose reported examples are not those of its facts: Flower's own average goes by those."""
    if t or "sizes" not in roster.reads or not base.kind.weighs:
        return
    said = {k: first_metrics(message.content)[1].get(base.weighted) for k, message in found.messages.items()}
    pairs = [(k, float(value), float(roster.facts[k]["sizes"])) for k, value in said.items() if is_amount(value)]
    ratios = [(value / size, k, value, size) for k, value, size in pairs if size > 0]
    if not ratios or max(ratios)[0] <= (1 + CLOSE) * min(ratios)[0]:
        return
    for _, client, value, size in (min(ratios), max(ratios)):
        words = "Client %s reports %s = %g and has %g by its facts: weights are the selector's, which reads the facts."
        log(WARNING, words, roster.names[client], base.weighted, value, size)


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
