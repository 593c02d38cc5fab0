"""Work and replies travel as bytes and come back as they were; what a stranger sends is read within a limit."""

from __future__ import annotations

import gc
import io
import json
import math
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.federation import Ask, Profile, Reply, Work
from sortition.federation.wire import ROOM, read_reply, read_work, upload_limit, write_reply, write_work

MODEL = {"layer/1.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "count": np.array(7), "f64": np.ones(2)}


def same(one, other):
    assert list(one) == list(other)
    for name, value in one.items():
        assert np.asarray(value).dtype == other[name].dtype
        np.testing.assert_array_equal(value, other[name])


@pytest.mark.parametrize("seconds", [12.5, math.inf])
def test_work(seconds):
    ask = Ask(
        "query",
        "a/1",
        client=3,
        round=8,
        seconds=60,
        model=MODEL,
        signals=("probe",),
        purpose="rehearsal",
        trains=True,
        payload={"mean": np.zeros(3)},
        facts=("sizes",),
        optional=("label_counts",),
    )
    read = read_work(write_work(Work("h", ask, seconds)))
    assert (read.handle, read.seconds, read.ask.seconds) == ("h", seconds, seconds)
    for name in ("kind", "client", "round", "signals", "purpose", "trains", "facts", "optional"):
        assert getattr(read.ask, name) == getattr(ask, name)
    same(ask.model, read.ask.model)
    same(ask.payload, read.ask.payload)


def test_a_reply_of_every_kind():
    profile = Profile("phone", {"sizes": np.array(3)}, ("loss",), ("fast",), ("duration",))
    read = read_reply(write_reply(Reply("x", profile=profile)), "h", ROOM)
    assert read.handle == "h"
    assert read.model is None
    assert (read.profile.name, read.profile.signals, read.profile.tags) == ("phone", ("loss",), ("fast",))
    assert read.profile.unsure == ("duration",)
    same(profile.facts, read.profile.facts)
    read = read_reply(write_reply(Reply("x", rows={"loss": np.array(0.5)}, model=MODEL, unreported="why")), "h", ROOM)
    same(MODEL, read.model)
    same({"loss": np.array(0.5)}, read.rows)
    assert read.unreported == "why"
    read = read_reply(write_reply(Reply("x", "failed", reason="KeyError: 'ä'")), "h", ROOM)
    assert (read.outcome, read.reason) == ("failed", "KeyError: 'ä'")


def test_an_empty_model_is_not_no_model():
    assert read_reply(write_reply(Reply("x", model={})), "h", ROOM).model == {}


def archive(header, compression=zipfile.ZIP_STORED, **members):
    """An archive of one's own making."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, value in {"header": np.frombuffer(header, np.uint8), **members}.items():
            buffer = io.BytesIO()
            np.save(buffer, value, allow_pickle=True)
            made.writestr(f"{name}.npy", buffer.getvalue())
    return file.getvalue()


def header(**changes):
    table = {"outcome": "ok", "reason": "", "unreported": "", "name": "", "signals": [], "tags": [], "unsure": []}
    arrays = {"model": None, "rows": [], "facts": []}
    return json.dumps({**table, "arrays": arrays, **changes}).encode()


def test_what_is_announced_counts_before_anything_is_unpacked():
    bomb = archive(header(), zipfile.ZIP_DEFLATED, **{"model.0": np.zeros(4_000_000)})
    assert len(bomb) < ROOM
    with pytest.raises(InputError, match=r"it would unpack to 32,000,[0-9]+ bytes, more than 65,536"):
        read_reply(bomb, "h", ROOM)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "BadZipFile"),
        (b"PK\x03\x04 torn", "BadZipFile"),
        (write_reply(Reply("x", model=MODEL))[:-30], "BadZipFile"),
        (archive(header(outcome="lost")), "outcome 'lost'"),
        (archive(header(name=5)), "5 is no text"),
        (archive(header(signals="loss")), "'loss' is no list"),
        (archive(header(arrays={"model": None, "rows": ["loss"], "facts": []})), "rows.0"),
        (archive(header(arrays=[])), "AttributeError"),
        (archive(b"[]"), "is no|TypeError|AttributeError"),
        (archive(b"[" * 20_000), "RecursionError|JSONDecodeError"),
        (archive(header(), **{"model.0": np.array([object()])}), "Python objects"),
        (archive(b"{}"), "'arrays' is missing"),
    ],
)
def test_what_is_no_reply_is_refused_in_words(content, why):
    with pytest.raises(InputError, match=f"cannot be read: .*({why})"):
        read_reply(content, "h", 1 << 20)


def test_many_threads_read_at_once():
    """numpy parses headers by ``ast``, in which two threads disturb each other (CPython gh-106905)."""
    content = write_reply(Reply("x", model={f"layer {number}": np.ones(2) for number in range(40)}))

    def read(depth):
        return read(depth - 1) if depth else len(read_reply(content, "h", 1 << 20).model)

    with switching_often(), ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, [7 * (number % 8) for number in range(64)])) == {40}


@contextmanager
def switching_often():
    """Let threads take turns as often as possible, also in the middle of what numpy parses."""
    interval = sys.getswitchinterval()
    threshold = gc.get_threshold()

    def turn(phase, info):
        sum(range(20))

    gc.callbacks.append(turn)
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        gc.callbacks.remove(turn)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)


def test_the_limit_is_four_models_and_some_room():
    assert upload_limit({"weight": np.zeros((10, 64), np.float32)}) == 4 * 2560 + 64 * 1024
