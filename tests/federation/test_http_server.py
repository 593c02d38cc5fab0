"""The limits of examples/server: who may call, how much may be sent, and what is said of a second or a late upload."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from sortition.federation import Ask, Mailbox, Reply
from sortition.federation.wire import read_work, upload_limit, write_reply

pytest.importorskip("starlette", reason="needs the extra [server]")
pytest.importorskip("uvicorn", reason="needs the extra [server]")

FOLDER = Path(__file__).parents[2] / "examples" / "server"
MODEL = {"weight": np.zeros((10, 64), np.float32), "bias": np.zeros(10, np.float32)}
LIMIT = upload_limit(MODEL)
TOKENS = {"a": "token of a", "b": "token of b"}
BEARER = {name: {"authorization": f"Bearer {token}"} for name, token in TOKENS.items()}


@pytest.fixture
def http_server(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("http_server")
    for name in ("http_server", "http_device", "digits_task"):
        sys.modules.pop(name, None)


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def post(http_server, mailbox):
    app = http_server.make_app(mailbox, TOKENS, LIMIT)
    return lambda path, body=(), headers=None: asyncio.run(call(app, path, body, headers or {}))


async def call(app, path, body, headers):
    """Status, content and how many pieces of the body the application has read."""
    pieces = iter([body] if isinstance(body, bytes) else body)
    read = 0
    sent = []

    async def receive():
        nonlocal read
        piece = next(pieces, None)
        if piece is None:
            return {"type": "http.request", "body": b"", "more_body": False}
        if isinstance(piece, float):  # seconds in which nothing comes
            await asyncio.sleep(piece)
            piece = b"x"
        read += 1
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "headers": raw, "query_string": b"", "http_version": "1.1"}
    await app({**scope, "scheme": "http", "server": ("127.0.0.1", 1), "root_path": ""}, receive, send)
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], content, read


def handle_for(mailbox, name, seconds=600.0):
    mailbox.check_in(name)
    session = next(session for session, peer in mailbox.online().items() if peer.name == name)
    (handle,) = mailbox.post([Ask("train", session, seconds=seconds, model=MODEL)])
    return handle


# -- who may call ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {TOKENS['a']}"},
        BEARER["b"],
        {"authorization": "Bearer tokén"},
    ],
)
def test_without_its_token_a_device_gets_nothing(post, mailbox, headers):
    handle = handle_for(mailbox, "a")
    assert post("/devices/a/check-in", headers=headers)[0] == 401
    assert post(f"/devices/a/replies/{handle}", write_reply(Reply("x")), headers)[0] == 401
    assert mailbox.poll(0) == []


def test_an_unknown_device_is_unknown_whatever_it_sends(post, http_server, mailbox):
    for token in ("", "None", TOKENS["a"]):
        assert post("/devices/c/check-in", headers={"authorization": f"Bearer {token}"})[0] == 401
    assert mailbox.online() == {}


def test_nobody_uploads_for_another(post, mailbox):
    handle = handle_for(mailbox, "a")
    assert post(f"/devices/b/replies/{handle}", write_reply(Reply("x")), BEARER["b"])[0] == 410
    assert mailbox.poll(0) == []


# -- the exchange ------------------------------------------------------------------------------------------------------


def test_work_goes_down_and_a_reply_comes_up_once(post, mailbox):
    status, content, _ = post("/devices/a/check-in", headers=BEARER["a"])
    assert (status, json.loads(content)) == (200, {"wait": 30.0})
    handle = handle_for(mailbox, "a")
    status, content, _ = post("/devices/a/check-in", headers=BEARER["a"])
    work = read_work(content)
    assert (work.handle, work.ask.kind, list(work.ask.model)) == (handle, "train", ["weight", "bias"])
    upload = write_reply(Reply("x", model=MODEL))
    answers = [post(f"/devices/a/replies/{handle}", upload, BEARER["a"]) for _ in range(3)]
    assert [status for status, _, _ in answers] == [200, 200, 200]
    receipts = [json.loads(content)["receipt"] for _, content, _ in answers]
    assert receipts == ["accepted", "repeated", "repeated"]
    (reply,) = mailbox.poll(0)
    assert list(reply.model) == ["weight", "bias"]


def test_a_late_upload_is_gone(post, mailbox):
    handle = handle_for(mailbox, "a")
    mailbox.check_in("a")
    mailbox.cancel([handle])
    assert post(f"/devices/a/replies/{handle}", write_reply(Reply("x", model=MODEL)), BEARER["a"])[0] == 410
    assert post("/devices/a/replies/unknown", write_reply(Reply("x")), BEARER["a"])[0] == 410


def test_a_restart_is_said_in_the_check_in(post, mailbox):
    for boot in ("first", "first", "second"):
        assert post("/devices/a/check-in", json.dumps({"boot": boot}).encode(), BEARER["a"])[0] == 200
    assert list(mailbox.online()) == ["a/2"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 1000])
def test_a_check_in_that_is_no_json_is_refused(post, body):
    assert post("/devices/a/check-in", body, BEARER["a"])[0] == 400


def test_what_cannot_be_read_fails_at_once_and_does_not_hold_the_round_up(post, mailbox):
    handle = handle_for(mailbox, "a")
    status, content, _ = post(f"/devices/a/replies/{handle}", b"\x80\x04 a pickle, say", BEARER["a"])
    assert status == 400
    assert b"cannot be read" in content
    (reply,) = mailbox.poll(0)
    assert reply.outcome == "failed"


# -- how much may be sent ----------------------------------------------------------------------------------------------


def test_a_body_that_announces_too_much_is_not_read(post, mailbox):
    handle = handle_for(mailbox, "a")
    headers = BEARER["a"] | {"content-length": str(LIMIT + 1)}
    status, _, read = post(f"/devices/a/replies/{handle}", [bytes(1000)], headers)
    assert (status, read) == (413, 0)


def test_a_body_without_end_is_refused_while_it_comes(post, mailbox):
    handle = handle_for(mailbox, "a")
    status, _, read = post(f"/devices/a/replies/{handle}", itertools.repeat(bytes(4096)), BEARER["a"])
    assert status == 413
    assert read == LIMIT // 4096 + 1
    assert post("/devices/a/check-in", itertools.repeat(bytes(100)), BEARER["a"])[0] == 413


def test_a_body_that_hardly_comes_is_not_waited_for(post, mailbox, http_server, monkeypatch):
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.05)
    handle = handle_for(mailbox, "a")
    slow = itertools.repeat(0.02)
    status, _, read = post(f"/devices/a/replies/{handle}", slow, BEARER["a"])
    assert status == 408
    assert read <= 4
    assert post("/devices/a/check-in", slow, BEARER["a"])[0] == 408


def test_the_largest_upload_of_a_model_is_allowed(post, mailbox):
    """The model, and a row as long as it in double precision."""
    handle = handle_for(mailbox, "a")
    parameters = sum(value.size for value in MODEL.values())
    upload = write_reply(Reply("x", model=MODEL, rows={"gradient": np.ones(parameters), "loss": np.ones(())}))
    assert post(f"/devices/a/replies/{handle}", upload, BEARER["a"])[0] == 200


def test_an_upload_does_not_lie_in_memory(http_server, mailbox):
    """32 MiB that are allowed, and are no archive: they go to the disk piece by piece."""
    size = 32 << 20
    app = http_server.make_app(mailbox, TOKENS, size)
    handle = handle_for(mailbox, "a")
    pieces = itertools.repeat(bytes(1 << 16), size >> 16)
    tracemalloc.start()
    try:
        status, _, _ = asyncio.run(call(app, f"/devices/a/replies/{handle}", pieces, BEARER["a"]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert status == 400
    assert peak < size / 8


# -- all of it ---------------------------------------------------------------------------------------------------------


def ran(*arguments):
    command = [sys.executable, str(FOLDER / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_few_devices_over_http_and_a_server_that_is_killed():
    printed = ran("--devices", "12", "--rounds", "2", "--cohort", "3", "--deadline", "3", "--methods", "uniform")
    assert "uniform: killed the server after round" in printed  # which one, the machine's speed decides
    assert "uniform: 2 rounds with 12 devices" in printed


@pytest.mark.server
def test_a_hundred_devices():
    printed = ran()
    assert "power-of-choice: killed the server" in printed
    assert "power-of-choice: 6 rounds with 100 devices" in printed
    assert "auto: 6 rounds with" in printed
