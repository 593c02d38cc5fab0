"""Runs the real Flower in processes of its own, and stops exactly what it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LONGEST = 1800  # seconds after which something hangs; a busy machine takes minutes for what an idle one does in seconds


def environment(home: Path, **more: str) -> dict[str, str]:
    """No telemetry, no downloads, one thread a process, our sources importable."""
    quiet = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # 15 by default: on a busy machine clients would not get a turn
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "PYTHONWARNINGS": "default",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return {**os.environ, **quiet, **more}


def simulate(module: str, folder: Path, *arguments: str, **more: str) -> tuple[Any, str]:
    """Run ``python -m module`` on a Ray simulation; what it wrote to $RESULT, and its log.

    A server that is killed leaves Ray's processes behind: its log is a file, not a pipe that these would keep open,
    and they are killed with it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result, log = folder / "result.json", folder / "log.txt"
    log.unlink(missing_ok=True)
    env = environment(folder / "home", RESULT=str(result), **more)
    process = Process([sys.executable, "-m", module, *arguments], log, env)
    try:
        process.popen.wait(LONGEST)
    finally:
        process.kill()
    told = json.loads(result.read_text()) if result.exists() else None
    return told, process.text


def until(what: Callable[[], Any], seconds: float, told: str) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.2)
    raise TimeoutError(f"{told} did not happen in {seconds:g} s")


class Process:
    """A process in a group of its own, with its log in a file."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str], cwd: Path = ROOT) -> None:
        self.log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                command, cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """kill -9 of the whole group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> None:
        """Ask it to end; after ten seconds, make it."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(10)
        self.kill()
