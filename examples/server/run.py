"""A federation of devices that come and go, over HTTP on loopback, from start to end in under a minute.

    python examples/server/run.py                       # a hundred devices: power-of-choice, then auto
    python examples/server/run.py --devices 12 --rounds 3 --methods uniform

The server of the first method is killed in the middle (kill -9) and started again: it goes on from its checkpoint, and
the devices never notice more than a failed call.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from http_device import LOOPBACK, Fleet

HERE = Path(__file__).parent
LONGEST = 300  # seconds after which something is wrong


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


class Server:
    """The server's process; it is stopped by its own id."""

    def __init__(self, folder: Path, method: str, port: int, args: argparse.Namespace) -> None:
        self.folder = folder
        self.method = method
        command = [sys.executable, str(HERE / "http_server.py"), str(folder), "--method", method, "--port", str(port)]
        command += ["--rounds", str(args.rounds), "--cohort", str(args.cohort), "--deadline", str(args.deadline)]
        self.log = folder / f"{method}.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def rounds_played(self) -> int:
        history = self.folder / f"{self.method}.npz.history.jsonl"
        return len(history.read_text().splitlines()) if history.exists() else 0

    def wait_for_round(self, rounds: int) -> None:
        """Wait until so many rounds are on the disk."""
        ends = time.monotonic() + LONGEST
        while self.rounds_played() < rounds:
            if self.process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"the server ended too early:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def wait(self) -> None:
        if self.process.wait(LONGEST):
            raise SystemExit(f"the server failed:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def play(method: str, folder: Path, args: argparse.Namespace, *, kill: bool) -> dict[str, Any]:
    """All rounds of a method; with ``kill``, the server dies in the middle and is started again."""
    count = args.devices
    tokens = {f"device-{number}-of-{count}": secrets.token_urlsafe(24) for number in range(count)}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    port = free_port()
    server = Server(folder, method, port, args)
    try:
        with Fleet(port, tokens, slow_seconds=0.8 * args.deadline) as fleet:
            if kill:
                server.wait_for_round(args.rounds // 2)
                server.kill()
                print(f"{method}: killed the server after round {server.rounds_played()}; it is started again")
                server = Server(folder, method, port, args)
            server.wait()
    finally:
        server.kill()
    result: dict[str, Any] = json.loads((folder / f"{method}.json").read_text())
    return {**result, "receipts": dict(fleet.receipts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--methods", nargs="+", default=["power-of-choice", "auto"])
    args = parser.parse_args()
    began = time.monotonic()
    for number, method in enumerate(args.methods):
        with tempfile.TemporaryDirectory() as folder:
            result = play(method, Path(folder), args, kill=number == 0)
        print(
            f"{method}: {result['rounds']} rounds with {result['devices']} devices; accuracy "
            f"{result['accuracy before']:.2f} → {result['accuracy after']:.2f}"
        )
        fates = ", ".join(f"{result[fate]} {fate}" for fate in ("used", "standby", "silent", "failed", "late"))
        print(f"  of {result['chosen']} chosen: {fates}; uploads: {result['receipts']}")
        if result["rounds"] != args.rounds or result["accuracy after"] <= result["accuracy before"]:
            raise SystemExit(f"{method} did not learn anything in {result['rounds']} rounds")
    print(f"done in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
