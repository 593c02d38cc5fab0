"""Plays both federations under random kills, and judges what is left: records, ledger, devices' diaries, Prometheus.

Each federation is a process in a group of its own that is killed with kill -9 at random rounds, now and then while it
starts, and started again with the same command. Everything listens on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from campaign.operate import checks
from campaign.operate.settings import DEVICES, Settings
from campaign.prometheus import free_port, scraping

ROOT = Path(__file__).parents[2]
MODULES = {"flower": "campaign.operate.flower_server", "server": "campaign.operate.own_server"}
KILLED_WHILE_STARTING = 0.2  # of the restarts
LONGEST_START = 5.0  # seconds after which a server is killed while it starts
LOOK = 0.05  # seconds between two looks at the history


class OutOfTimeError(Exception):
    """The soak took longer than it may."""


class Federation:
    """One federation, and what it left behind at every kill.

    Args:
        settings: of its process.
        kills: how often it is killed at random rounds.
        rng: draws the rounds.
        deadline: when the soak must be over, by the monotonic clock.

    Attributes:
        remains: what was on the disk after each kill.
        fault: why it did not end as it should; empty where it did.
    """

    def __init__(self, settings: Settings, kills: int, rng: random.Random, deadline: float) -> None:
        self.settings = settings
        self.remains: list[checks.Remains] = []
        self.fault = ""
        self.seconds = 0.0
        self._rng = rng
        self._deadline = deadline
        self._kill_after = sorted(rng.sample(range(1, settings.rounds), min(kills, settings.rounds - 1)))
        self._log = Path(settings.folder) / f"{settings.name}.log"

    def play(self) -> None:
        """Start, kill and start again until all rounds are played; what goes wrong is kept as :attr:`fault`."""
        began = time.monotonic()
        try:
            for rounds in self._kill_after:
                with self._running() as process:
                    self._wait_for_round(rounds, process)
                    time.sleep(self._rng.uniform(0.0, 0.5))
                self.remains.append(checks.Remains.of(self.settings))
                if self._rng.random() < KILLED_WHILE_STARTING:
                    with self._running():
                        time.sleep(self._rng.uniform(0.0, LONGEST_START))
                    self.remains.append(checks.Remains.of(self.settings))
            with self._running() as process:
                self._wait_for_end(process)
        except (OutOfTimeError, RuntimeError) as error:
            self.fault = f"{self.settings.name}: {error}"
        self.seconds = time.monotonic() - began

    @contextmanager
    def _running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The federation's process, which is killed with its whole group when the block ends."""
        with running(MODULES[self.settings.name], self.settings, self._log) as process:
            yield process

    def _wait_for_round(self, rounds: int, process: subprocess.Popen[bytes]) -> None:
        while checks.lines_of(self.settings.history) < rounds:
            self._check_time()
            if process.poll() is not None:
                raise RuntimeError(f"ended before round {rounds}: {self._last_words()}")
            time.sleep(LOOK)

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            self._check_time()
            time.sleep(LOOK)
        if process.returncode:
            raise RuntimeError(f"failed with {process.returncode}: {self._last_words()}")

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            played = checks.lines_of(self.settings.history)
            raise OutOfTimeError(f"out of time after {played} of {self.settings.rounds} rounds")

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


@contextmanager
def running(module: str, settings: Settings, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the soak, with everything that it starts; killed when the block ends."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(str(ROOT / path) for path in (".", "src", "examples/server")),
        "FLWR_HOME": str(Path(settings.folder) / "flower"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }
    command = [sys.executable, "-m", module, str(settings.write())]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(*, names: list[str], rounds: int, kills: int, seconds: float, seed: int) -> int:
    """Play the soak and print what was seen; 0 if nothing is wrong."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            print(f"The soak needs {program}: apt-get install prometheus")
            return 2
    folder = Path(tempfile.mkdtemp(prefix="operate-"))
    print(f"files in {folder}", flush=True)
    tokens = {f"device-{number}": secrets.token_urlsafe(24) for number in range(DEVICES)}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    targets = {name: free_port() for name in names}
    deadline = time.monotonic() + seconds
    with scraping(folder, targets) as prometheus, contextlib.ExitStack() as stack:
        federations = [
            Federation(
                Settings(
                    name=name,
                    folder=str(folder),
                    rounds=rounds,
                    metrics_port=targets[name],
                    device_port=free_port(),
                ),
                kills=kills,
                rng=random.Random(f"{seed} {name}"),
                deadline=deadline,
            )
            for name in names
        ]
        for federation in federations:
            if federation.settings.name == "server":
                stack.enter_context(running("campaign.operate.fleet", federation.settings, folder / "fleet.log"))
        threads = [threading.Thread(target=federation.play) for federation in federations]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        faults = [federation.fault for federation in federations if federation.fault]
        for federation in federations:
            faults += checks.report(federation.settings, federation.remains, prometheus, federation.seconds)
    for fault in faults:
        print(f"WRONG: {fault}", flush=True)
    print(f"{len(faults)} faults", flush=True)
    if not faults:
        shutil.rmtree(folder)
    return 1 if faults else 0
