"""Deploy an app on this machine: a SuperLink and some SuperNodes on loopback, one run, and everything stopped again.

    python examples/flower/deploy.py examples/flower/pytorch --nodes 4 --config 'method="fedcor" wait-for=4'
    python examples/flower/deploy.py examples/flower/numpy --nodes 3 --secure          # TLS and node authentication
    python examples/flower/deploy.py examples/flower/numpy --nodes 30 --simulate       # nodes on Ray, in one process

Every process is started in a group of its own and stopped by its own id. Logs stay in ``--folder``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent
STARTS = 300  # seconds that processes may take to come up on a busy machine
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # the app runs with what is installed here
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # 15 by default: on a busy machine clients would not get a turn
    "OMP_NUM_THREADS": "1",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def until(what: Callable[[], object], seconds: float, told: str) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{told} did not happen in {seconds:g} s")
        time.sleep(0.2)


class Deployment:
    """A SuperLink and its SuperNodes; leave the ``with`` block and they are gone."""

    def __init__(
        self, nodes: int, folder: Path, secure: bool = False, simulate: bool = False, at_once: int = 0
    ) -> None:
        self.nodes, self.folder, self.port = nodes, folder.resolve(), free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, **QUIET, "FLWR_HOME": str(self.folder / "home")}
        self.environment["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        self.link, self.node_options, trust = ["--insecure"], [["--insecure"]] * nodes, "insecure = true"
        if secure:
            from certificates import write

            files = write(self.folder / "keys", nodes)
            self.link = [*files.server, "--enable-supernode-auth"]
            self.node_options = [["--root-certificates", str(files.ca), *keys] for keys in files.nodes]
            self.public, trust = files.public, f'root-certificates = "{files.ca}"'
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{trust}\n'
        )
        self.secure, self.simulate, self.at_once = secure, simulate, at_once

    def __enter__(self) -> Deployment:
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_all(self) -> None:
        command = ["flower-superlink", *self.link, "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--simulation"] if self.simulate else []
        self.start("superlink", [*command, "--disable-runtime-dependency-installation"])
        until(self._listening, STARTS, "the SuperLink's start")
        if self.simulate:
            return
        for node in range(self.nodes):
            if self.secure:
                self.flwr("supernode", "register", str(self.public[node]), "here")
            self.start_node(node)
        up = [f"supernode-{node}" for node in range(self.nodes)]
        until(lambda: all("Starting" in self.log(name) for name in up), STARTS, "SuperNodes' start")

    def start(self, name: str, command: list[str]) -> None:
        """Start one process, its output in ``folder/name.log``."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_node(self, node: int) -> None:
        """Start (again) the SuperNode that holds partition ``node``."""
        about = f"partition-id={node} num-partitions={self.nodes}"
        address = ["--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", str(free_port())]
        command = ["flower-supernode", *self.node_options[node], *address, "--node-config", about]
        self.start(f"supernode-{node}", command)

    def _listening(self) -> bool:
        if self.processes["superlink"].poll() is not None:
            raise RuntimeError(f"The SuperLink ended: {self.log('superlink')[-2000:]}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def log(self, name: str) -> str:
        """What a process has written so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def flwr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the ``flwr`` command against this SuperLink."""
        command = [str(BIN / "flwr"), *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)

    def run(self, app: Path, config: str = "") -> subprocess.Popen[bytes]:
        """Start the app; the process that follows it to its end."""
        more = ["--run-config", config] if config else []
        if self.simulate:
            about = f"num-supernodes={self.nodes} client-resources-num-cpus=1"
            if self.at_once:
                about += f" init-args-num-cpus={self.at_once}"
            more += ["--federation-config", about]
        self.start("run", ["flwr", "run", str(app.resolve()), "here", "--stream", *more])
        return self.processes["run"]

    def kill(self, name: str) -> None:
        """kill -9, children too."""
        process = self.processes.pop(name)
        for pid in [process.pid, *descendants(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stop what was started, in the opposite order; after ten seconds by force."""
        left = []
        for name, process in reversed(list(self.processes.items())):
            left += descendants(process.pid)
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                process.terminate()
                process.wait(10)
            self.kill(name)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that these started: Flower gives some a session of their own."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)  # noqa: S607
    children: dict[int, list[int]] = {}
    for line in listed.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, queue = [], [pid]
    while queue:
        found += (new := children.get(queue.pop(), []))
        queue += new
    return found


def main() -> int:
    """Deploy, run, stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("app", type=Path)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--config", default="", help="overrides of the app's config, such as 'method=\"fedcor\"'")
    parser.add_argument("--secure", action="store_true", help="TLS, and only registered nodes may connect")
    parser.add_argument("--simulate", action="store_true", help="nodes on Ray, in place of SuperNodes")
    parser.add_argument(
        "--at-once", type=int, default=0, help="simulated nodes that train at a time; default: the cores"
    )
    parser.add_argument("--folder", type=Path, help="of logs and keys; default: a temporary one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    folder = options.folder or Path(tempfile.mkdtemp(prefix="sortition-flower-"))
    print(f"logs in {folder}")
    with Deployment(options.nodes, folder, options.secure, options.simulate, options.at_once) as federation:
        code = federation.run(options.app, options.config).wait()
        print(federation.log("run"))
    return code


if __name__ == "__main__":
    sys.exit(main())
