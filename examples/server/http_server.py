"""A federation over HTTP: devices check in at this server when they like. Needs ``sortition[server]``.

    POST /devices/NAME/check-in         → 200 work (npz), or 200 {"wait": seconds}
    POST /devices/NAME/replies/HANDLE   → 200 {"receipt": "accepted" or "repeated"}, 410 when nobody waits for it

Every request carries the device's token (401 without it). A body is refused with 413 as soon as it is too long: at most
four models and 64 KiB, and with 408 where it takes too long. Nothing is unpickled. This server listens on loopback; put
one before it that speaks TLS and closes connections whose headers do not come: this one serves 500 at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import logging
import secrets
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import digits_task
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sortition import InputError
from sortition.federation import Federation, Mailbox, Reply, Wait
from sortition.federation.wire import read_reply, upload_limit, write_work

LOOPBACK = "127.0.0.1"
SMALL = 1024  # bytes of a check-in
BODY_SECONDS = 60.0  # for a whole body: a device that sends a byte a minute would hold its connection for ever
NOBODY = secrets.token_hex(32)  # what the token of an unknown device is compared with


def make_app(mailbox: Mailbox, tokens: Mapping[str, str], largest_upload: int) -> Starlette:
    """The web application around a mailbox; ``tokens`` are the devices' secrets, by name."""

    def caller(request: Request) -> str:
        """The name of the device that calls, proved by its token."""
        name = request.path_params["name"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        expected = tokens.get(name, NOBODY)
        proved = hmac.compare_digest(token.encode(), expected.encode())
        if scheme.lower() != "bearer" or not proved:
            raise HTTPException(401, "a device must send its token", {"WWW-Authenticate": "Bearer"})
        return str(name)

    async def check_in(request: Request) -> Response:
        name = caller(request)
        boot = await _boot(request)
        answer = mailbox.check_in(name, boot=boot)
        if isinstance(answer, Wait):
            return JSONResponse({"wait": answer.seconds})
        return Response(write_work(answer), media_type="application/octet-stream")

    async def deliver(request: Request) -> Response:
        name = caller(request)
        handle = request.path_params["handle"]
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            await _save_body(request, file, largest_upload)
            file.flush()
            try:
                reply = await run_in_threadpool(read_reply, Path(file.name), handle, largest_upload)
            except InputError as error:  # the round need not wait for this device
                mailbox.deliver(handle, Reply(handle, "failed", reason=str(error)), name=name)
                raise HTTPException(400, str(error)) from None
        receipt = mailbox.deliver(handle, reply, name=name)
        if receipt == "expired":
            raise HTTPException(410, "nobody waits for this reply any more")
        return JSONResponse({"receipt": receipt})

    return Starlette(
        routes=[
            Route("/devices/{name}/check-in", check_in, methods=["POST"]),
            Route("/devices/{name}/replies/{handle}", deliver, methods=["POST"]),
        ]
    )


async def _save_body(request: Request, file: IO[bytes], most: int) -> None:
    """Write a body to a file piece by piece; one that is too long is refused while it comes."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise HTTPException(413, f"a body may have {most} bytes")
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise HTTPException(413, f"a body may have {most} bytes")
                file.write(piece)
    except TimeoutError:
        raise HTTPException(408, f"a body must come within {BODY_SECONDS:g} seconds") from None


async def _boot(request: Request) -> str:
    """What a device says that is new whenever it starts."""
    with tempfile.SpooledTemporaryFile(SMALL) as file:
        await _save_body(request, file, SMALL)
        file.seek(0)
        content = file.read()
    try:
        boot = json.loads(content or b"{}").get("boot", "")
    except (ValueError, AttributeError, RecursionError):
        raise HTTPException(400, 'a check-in is {"boot": "…"}') from None
    return str(boot)


class BackgroundServer:
    """Serves an application in a thread, on loopback."""

    def __init__(self, app: Starlette, port: int) -> None:
        config = uvicorn.Config(app, LOOPBACK, port, log_level="warning", limit_concurrency=500, timeout_keep_alive=10)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> BackgroundServer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where tokens.json is, and checkpoint, log and result go")
    parser.add_argument("--method", default="power-of-choice")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--deadline", type=float, default=5.0)
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    tokens = json.loads((args.folder / "tokens.json").read_text())
    mailbox = Mailbox(presence=4.0, pause=0.5)  # short, for a demonstration
    model = digits_task.first_model()
    federation = Federation(
        mailbox,
        model,
        args.method,
        cohort=args.cohort,
        overselect=1.3,
        deadline=args.deadline,
        wait_for=len(tokens) // 2,
        checkpoint=args.folder / f"{args.method}.npz",
        resume=True,  # after a crash it goes on where it was
    )
    with BackgroundServer(make_app(mailbox, tokens, upload_limit(model)), args.port):
        federation.run(args.rounds)
    (args.folder / f"{args.method}.json").write_text(json.dumps(summary(federation, model)))


def summary(federation: Federation, first_model: dict[str, Any]) -> dict[str, Any]:
    """What became of the rounds and of those who were chosen."""
    history = federation.history
    fates = ("standby", "silent", "failed", "late")
    return {
        "rounds": len(history),
        "devices": len(federation.members),
        "accuracy before": digits_task.test_accuracy(first_model),
        "accuracy after": digits_task.test_accuracy(federation.model),
        "chosen": sum(len(record["cohort"] or ()) for record in history),
        "used": sum(len(record["answered"] or ()) for record in history),
        **{fate: sum(len(record.get(fate, ())) for record in history) for fate in fates},
    }


if __name__ == "__main__":
    main()
