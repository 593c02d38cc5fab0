"""Flower messages: profiles, tasks, models and rows as foreign clients and servers might send them."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from campaign.fuzz import mutations
from campaign.fuzz.loop import Target
from sortition.clients.named_arrays import as_vector
from sortition.core import GRADIENT, LOSS
from sortition.core.errors import SortitionError
from sortition.core.signals import find_signal
from sortition.federation.members import Members
from sortition.federation.model_screening import ModelCheck, move_model
from sortition.flower import codec
from sortition.flower.grid_transport import model_of, read_profile

MODEL = {"w": np.ones((2, 3), np.float32), "seen": np.array(4), "b": np.ones(2, np.float32)}
KNOWN = {"loss": LOSS, "gradient": GRADIENT}
NAMES = ("loss", "gradient", "gradient-sketch4", "gradient-sketch0", "gradient-sketch99999999999999", "loss-sketch3",
         "-sketch1", "", "gradient-sketch4-7", "gradient-sketch٣")  # fmt: skip


def _array(rng: random.Random, value: np.ndarray) -> Array:
    """An array as it travels: other numbers, other bytes, or another label on them."""
    made = np.asarray(mutations.array(rng, value), dtype=None)
    if made.dtype.kind == "O":
        made = value
    sent = Array(np.ascontiguousarray(made))
    if rng.random() < 0.4:
        data = mutations.raw(rng, sent.data, rng.randrange(1, 4))
        sent = Array(dtype=sent.dtype, shape=sent.shape, stype=rng.choice((sent.stype, "odd")), data=data)
    return sent


def _record(rng: random.Random, values: dict[str, Any]) -> ArrayRecord:
    sent = {
        name: _array(rng, np.asarray(v)) if rng.random() < 0.5 else Array(np.asarray(v)) for name, v in values.items()
    }
    if rng.random() < 0.2:
        sent.pop(rng.choice(list(sent)))
    if rng.random() < 0.1:
        sent[rng.choice(mutations.TEXTS)] = Array(np.ones(2))
    return ArrayRecord(sent)


def _config(rng: random.Random, values: dict[str, Any]) -> ConfigRecord:
    changed = mutations.tree(rng, values, rng.randrange(3), tuple(values))
    with suppress(TypeError, ValueError, KeyError, AttributeError):  # what Flower itself cannot send
        return ConfigRecord(changed)
    return ConfigRecord(values)


def _profile(rng: random.Random) -> None:
    name = rng.choice((*mutations.TEXTS, "7", "client-2", "²", "9" * 5000, "٣"))
    about = _config(rng, {"name": name, "signals": ["loss", "update"]})
    facts = _record(rng, {"sizes": np.array(30), "label_counts": np.array([10, 20])})
    content = RecordDict({codec.SELF: about, codec.FACTS: facts})
    members = Members(("sizes", "label_counts"))
    members.meet({"1": read_profile(content), "2": read_profile(RecordDict({codec.FACTS: facts}))})
    if len(members):
        members.population()


def _task(rng: random.Random) -> None:
    plain = codec.Assignment(t=3, client=2, signals=("loss",)).record()
    codec.Assignment.of(RecordDict({codec.ASSIGNMENT: _config(rng, dict(plain))}))
    find_signal(rng.choice(NAMES), KNOWN)


def _model(rng: random.Random) -> None:
    contents = {k: RecordDict({"arrays": _record(rng, MODEL)}) for k in range(3)}
    sent = {client: model_of(content, "arrays")[0] or {} for client, content in contents.items()}
    models, _ = ModelCheck(names=frozenset(MODEL)).screen(sent, MODEL)
    done = np.array(sorted(models), np.int64)
    if not done.size:
        return
    mean = move_model(MODEL, models, done, np.full(done.size, 1 / done.size))
    if not all(np.isfinite(value).all() for value in mean.values()):
        raise RuntimeError("the model is not finite")
    as_vector(mean)


def _rows(rng: random.Random) -> None:
    told = codec.received_arrays(
        RecordDict({codec.ROWS: _record(rng, {"loss": np.array(0.5), "update": np.ones(8)})}), codec.ROWS
    )
    for value in told.values():
        np.asarray(value, dtype=object)


def play(rng: random.Random) -> int:
    """Some messages of each kind."""
    for _ in range(20):
        with suppress(SortitionError):
            rng.choice((_profile, _task, _model, _rows))(rng)
    return 20


TARGET = Target("messages", play)
