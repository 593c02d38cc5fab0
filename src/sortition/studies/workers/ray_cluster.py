"""Runs on the machines of a Ray cluster: only the connection is shared, and results arrive at the caller.

Each worker is an actor with one processor that plays runs one after the other and keeps its data in memory. What it
writes comes back in pieces, twice a second, so a machine that dies costs what it played since its last checkpoint.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from sortition.core.errors import DataError, InputError, SortitionError, bad
from sortition.core.import_policy import import_named
from sortition.studies import own_code
from sortition.studies.config import RunConfig
from sortition.studies.runs.run_task import OneRun
from sortition.studies.workers.process_control import THREADS
from sortition.studies.workers.ray_scheduler import RayScheduler
from sortition.studies.workers.scheduler import OnEvent

CONNECT_SECONDS = 5.0  # to reach an address


@contextmanager
def connected(on: str, runs: Sequence[RunConfig]) -> Iterator[RayCluster]:
    """Connect with the cluster at ``ray`` (this machine's, or $RAY_ADDRESS), or at ``ray://host:port`` from outside."""
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("--on ray needs Ray; it is not installed here. Try: pip install 'sortition[ray]'.") from None
    if ray.is_initialized():  # a notebook's own connection stays as it is
        yield RayCluster(ray, runs)
        return
    address = _address(on)
    environment = {"py_modules": [str(path) for path in _source_paths(runs)], "env_vars": dict.fromkeys(THREADS, "1")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's announcements; an error says what matters
            ray.init(address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise bad("--on", "the address of a Ray cluster of the same versions", on, lines[-1]) from None
    try:
        yield RayCluster(ray, runs)
    finally:
        ray.shutdown()


def _address(on: str) -> str:
    """Return the address as Ray writes it; one that does not answer is refused at once, not after Ray's minute."""
    if on != "ray" and not (on.startswith("ray://") and urlsplit(on).hostname):
        raise bad("--on", "ray or ray://host:port", on)
    address = on
    if on == "ray":
        address = os.environ.get("RAY_ADDRESS", "auto")
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if parts.hostname and address not in ("auto", "local"):
            socket.create_connection((parts.hostname, parts.port or 10001), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise bad("--on", "the address of a running Ray cluster", address, f"{error}.") from None
    return address


def _source_paths(runs: Iterable[RunConfig]) -> list[Path]:
    """Return our own sources and those of what is named by import path: all machines run the caller's code."""
    packages = {"sortition"}
    named_code = {item for run in runs for item in own_code.import_paths(run.table()).items()}
    for key, path in sorted(named_code):
        import_named(path, key)  # refused where a file names what the user did not allow
        packages.add(path.partition(":")[0].partition(".")[0])
    specs = [importlib.util.find_spec(package) for package in sorted(packages)]
    files = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    return [file.parent if file.name == "__init__.py" else file for file in files]


@dataclass
class RayCluster:
    """A connection, and what runs need of a machine there.

    Attributes:
        ray: the package Ray, connected.
        runs: the runs that will be played there.
    """

    ray: ModuleType
    runs: Sequence[RunConfig]

    @property
    def needs(self) -> dict[str, float]:
        """Return the resources of one worker."""
        return {"num_cpus": 1, "num_gpus": int(any(run.device.startswith("cuda") for run in self.runs))}

    def places(self) -> int:
        """Return how many workers there is room for."""
        resources = self.ray.cluster_resources()
        processors = resources.get("CPU", 0)
        if self.needs["num_gpus"]:
            processors = min(processors, resources.get("GPU", 0))
        return int(processors)

    def call(self, function: Callable[..., list[str]], *arguments: object) -> list[str]:
        """Call a function on some machine of the cluster, and return what it remarks; its errors are ours."""
        if not self.places():
            resources = self.ray.cluster_resources()
            processors = {key: number for key, number in resources.items() if key in ("CPU", "GPU")}
            raise bad("The Ray cluster", f"of machines with {self.needs}", processors or "none that computes")
        try:
            remarks: list[str] = self.ray.get(self.ray.remote(**self.needs)(function).remote(*arguments))
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, DataError):
                hint = "Each machine of the cluster reads its own copy."
                raise DataError(f"{error.cause} {hint}") from None
            if isinstance(error.cause, SortitionError):
                raise error.cause from None
            raise
        return remarks

    def run(self, tasks: Sequence[OneRun], jobs: int | None, on_event: OnEvent) -> bool:
        """Play all tasks, at most ``jobs`` at a time (default: what there is room for); return False after Ctrl-C."""
        return RayScheduler(self, tasks, jobs, on_event).run()
