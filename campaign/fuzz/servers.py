"""Flower servers: damaged checkpoints that they go on from, and metrics as foreign clients might send them."""

from __future__ import annotations

import functools
import random
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import FLOWER_LOGGER
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedYogi

from campaign.fuzz import mutations, snapshots
from campaign.fuzz.loop import Target
from campaign.fuzz.messages import MODEL
from campaign.fuzz.scratch import scratch
from sortition.core.errors import SortitionError
from sortition.federation.messages import Profile
from sortition.federation.server_checkpoint import HISTORY, beside
from sortition.flower import SelectorStrategy, codec
from sortition.flower.base_strategy import BaseStrategy
from sortition.selectors import find, load

STOCK = (FedAvg, lambda: FedAvgM(server_momentum=0.9), FedAdam, FedYogi)
SELECTORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("uniform", {}),
    ("power-of-choice", {"variant": "rpow-d"}),
    ("fedgs", {}),
    ("fedcor", find("fedcor").examples()[0]),
)
CLIENTS = 6
FLOAT = {name: value for name, value in MODEL.items() if value.dtype.kind == "f"}

with suppress(ImportError):  # Flower's messages ask the process who it is
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


def server(number: int, *, resume: bool) -> SelectorStrategy:
    """A Flower server that writes, or goes on from, a checkpoint."""
    name, options = SELECTORS[number % len(SELECTORS)]
    path = scratch() / "flower.npz"
    stock = STOCK[number % len(STOCK)]()
    made = SelectorStrategy(
        load(name, **options), cohort=3, strategy=stock, checkpoint=path, resume=path if resume else None, horizon=5
    )
    made.engine.set_model(codec.to_record(FLOAT))
    return made


def stepped(base: BaseStrategy, number: int, model: dict[str, Any]) -> dict[str, Any]:
    """One round of the server: everybody adds one."""
    base.configure(number, codec.to_record(model), ConfigRecord(), None, [1, 2])
    moved = {name: value + 1 for name, value in model.items()}
    records = RecordDict({"arrays": codec.to_record(moved), "metrics": MetricRecord()})
    arrays, _ = base.aggregate(number, {0: Message(records, 1, MessageType.TRAIN)}, {0: 1.0})
    return {} if arrays is None else codec.to_arrays(arrays)


@functools.cache
def sound(number: int) -> bytes:
    """A checkpoint after two steps of the server."""
    path = scratch() / "flower.npz"
    for ending in ("", HISTORY):
        beside(path, ending).unlink(missing_ok=True)
    made = server(number, resume=False)
    facts = {"sizes": np.array(9), "label_counts": np.array([4, 5])}
    signals = tuple(made.members.signals)
    made.members.meet({str(k): Profile(f"client-{k}", facts, signals) for k in range(1, CLIENTS + 1)})
    with ExitStack() as stack:
        made.files.open(stack)
        made.driver.update_registrar()
        model = dict(FLOAT)
        for step in (1, 2):
            model = stepped(made.user_strategy, step, model)
        made.engine.set_model(codec.to_record(model))
        made.files.keep({"round": 0})
    return path.read_bytes()


def play(rng: random.Random) -> int:
    """One damaged checkpoint, restored as a server does; after one whose bytes are damaged, one more step is made."""
    number = rng.randrange(len(SELECTORS) * len(STOCK))
    data, path = sound(number), scratch() / "flower.npz"
    made_up = rng.random() < 0.7
    path.write_bytes(snapshots.damaged(rng, data) if made_up else mutations.raw(rng, data, rng.randrange(1, 5)))
    beside(path, HISTORY).write_text('{"round": 0}\n')
    made = server(number, resume=True)
    with ExitStack() as stack:
        made.files.open(stack)
        made.driver.update_registrar()
        if not made_up:  # a server's memory of the right kind and of other shapes fails in its first step
            stepped(made.user_strategy, 3, made.engine.model)
    return 1


def _metrics(rng: random.Random) -> RecordDict:
    """A reply's records: none, one or two of metrics, with names and values that hardly anybody expects."""
    content = RecordDict()
    for place in rng.choice((("metrics",), ("metrics",), ("metrics", "more"), ())):
        values: dict[str, Any] = {"loss": 0.5, "accuracy": [0.1, 0.2], "num-examples": 7}
        for _ in range(rng.randrange(3)):
            name = rng.choice((*values, *mutations.TEXTS))
            odd = rng.choice((*mutations.NUMBERS, [], [1.0], [float("nan")], [1, 2, 3], [2**62] * 3, 1e308))
            values[name] = odd if rng.random() < 0.8 else values.get(name, 1)
            if rng.random() < 0.2:
                values.pop(name)
        with suppress(TypeError, ValueError, OverflowError):  # what Flower itself cannot send
            content[place] = MetricRecord(values)
    return content


def play_metrics(rng: random.Random) -> int:
    """Metrics of some replies to train and to evaluate messages, averaged by each strategy."""
    base, quiet = BaseStrategy(rng.choice(STOCK)()), FLOWER_LOGGER.disabled
    FLOWER_LOGGER.disabled = True
    try:
        for _ in range(10):
            with suppress(SortitionError):
                contents = [_metrics(rng) for _ in range(3)]
                base.aggregate_evaluation(1, [_reply(rng, content) for content in contents])
                base.configure(1, codec.to_record(FLOAT), ConfigRecord(), None, [1, 2, 3])
                sent = {row: _trained(content) for row, content in enumerate(contents)}
                base.aggregate(1, sent, {row: rng.choice((0.1, 0.2, 1.0)) for row in sent})
    finally:
        FLOWER_LOGGER.disabled = quiet
    return 20


def _reply(rng: random.Random, content: RecordDict) -> Message:
    if rng.random() < 0.8:
        return Message(content, 1, MessageType.EVALUATE)
    return Message(Error(1, "odd"), reply_to=Message(RecordDict(), 1, MessageType.EVALUATE))


def _trained(content: RecordDict) -> Message:
    return Message(RecordDict({**content, "arrays": codec.to_record(FLOAT)}), 1, MessageType.TRAIN)


TARGET = Target("servers", play)
METRICS = Target("metrics", play_metrics)
