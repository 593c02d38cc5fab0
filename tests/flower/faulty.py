"""Check 5: clients that answer NaN, never, twice, with an error, in another shape or without a model."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from tests.flower import apps, federation
from tests.flower.processes import LONGEST

from sortition.clients.named_arrays import as_vector
from sortition.clients.pytorch import PyTorch, TorchClient
from sortition.core import Cohort, InputError, Selector, State
from sortition.flower import SelectorStrategy, answer, codec, pytorch
from sortition.selectors import load

NAN, NEVER, TWICE, RAISES, SHAPE, EMPTY = 1, 2, 3, 4, 5, 6  # by partition; the others are sound
TIMEOUT = 20.0  # seconds: enough for the others on a busy machine, whose two workers share the wait for NEVER


def fail(me: int) -> None:
    """What clients 2 and 4 do with every message."""
    if me == RAISES:
        raise RuntimeError("out of memory, say")
    if me == NEVER:
        time.sleep(TIMEOUT + 4)


class Spoilt(PyTorch):
    """Mods do not see questions: here the clients themselves answer wrongly."""

    def __call__(self, received: Any) -> TorchClient:
        client, me = super().__call__(received), int(received.context.node_config["partition-id"])
        loss = client.loss

        def spoilt() -> float:
            fail(me)
            return float("nan") if me == NAN else loss()

        client.loss = spoilt  # type: ignore[method-assign]
        return client


def faults(message: Message, context: Context, call_next: Any) -> Message:
    """A Flower mod that spoils what clients 1 to 6 send."""
    me, kind = int(context.node_config["partition-id"]), message.metadata.message_type
    fail(me)
    reply = call_next(message, context)
    if me == NAN:
        for record in reply.content.array_records.values():
            spoilt = {name: np.full_like(value, np.nan) for name, value in codec.to_arrays(record).items()}
            record.update(codec.to_record(spoilt))
    if kind == "train" and me == SHAPE:
        reply.content["arrays"] = codec.to_record({name: np.zeros(3) for name in reply.content["arrays"]})
    if kind == "train" and me == EMPTY:
        return Message(RecordDict(), reply_to=message)
    if kind == "train" and me == TWICE:  # from the second round on, it answers its first message again
        if "first" in context.state:
            reply.metadata.__dict__["_reply_to_message_id"] = context.state["first"]["id"]
        else:
            context.state["first"] = ConfigRecord({"id": message.metadata.message_id})
    return reply


def client_app() -> ClientApp:
    """The ClientApp, spoilt; it does not know HiCS's own signal."""
    app = ClientApp(mods=[faults])
    maker = pytorch(apps.load_data, federation.RULE, seed=federation.SEED)
    answer(app, Spoilt(**{name: value for name, value in vars(maker).items() if name != "trains"}))
    return app


@dataclass(frozen=True)
class Sound(Selector[State]):
    """Always the clients without faults."""

    def select(self, state: Any, round: Any) -> Cohort:
        return Cohort.uniform([0, 7, 9])


class Doubled(SelectorStrategy):
    """Is handed every reply twice."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        return super().aggregate_train(server_round, [reply for reply in replies for _ in range(2)])


def doubled(grid: Grid) -> dict[str, Any]:
    """Sound clients' replies, handed over once and twice."""
    hashes, counters = [], {}
    for kind in (SelectorStrategy, Doubled):
        run = kind(Sound(), cohort=3, strategy=apps.quiet(), answer_timeout=LONGEST, profile_timeout=LONGEST)
        result = run.start(grid, ArrayRecord(federation.model().state_dict()), 2)
        hashes.append(federation.digest(as_vector(codec.to_arrays(result.arrays))))
        counters = dict(run.registrar.counters if run.registrar else {})
    return {"hashes": hashes, "counters": counters}


def server_app() -> ServerApp:
    """Plays with them and writes to $RESULT."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        told: dict[str, Any] = {"doubled": doubled(grid)}
        patience = {"answer_timeout": TIMEOUT, "timeout": TIMEOUT}
        told["full"] = apps.played(grid, load("full"), 2, cohort=10, **patience)
        told["asked"] = apps.played(grid, load("power-of-choice", d=10), 1, **patience)
        try:
            apps.played(grid, load("hics", signal="head", clusters=3), 1)
        except InputError as error:
            told["unknown signal"] = str(error)
        Path(os.environ["RESULT"]).write_text(json.dumps(told))

    return app


if __name__ == "__main__":
    from tests.flower import faulty

    apps.simulation(faulty.server_app(), faulty.client_app())
