"""The workers of a Ray cluster: what they write is stored as it arrives, and those that fail are replaced."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortition.core.errors import SortitionError
from sortition.results import run_folder
from sortition.studies import python_objects
from sortition.studies.workers import folder_sync
from sortition.studies.workers.ray_worker import RayWorker
from sortition.studies.workers.scheduler import ENDS, Event, OnEvent, Scheduler, WorkerHandle

if TYPE_CHECKING:
    from sortition.studies.runs.run_task import OneRun
    from sortition.studies.workers.ray_cluster import RayCluster

MAX_FAILURES = 3  # of workers in a row, without a new checkpoint, until a run is given up
SECONDS_PER_COUNT = 5.0  # of the cluster's processors


@dataclass(kw_only=True)
class _Actor(WorkerHandle):
    """A worker on the cluster.

    Attributes:
        actor: Ray's handle of it.
        reply: Ray's handle of the answer that is awaited.
    """

    actor: Any
    reply: Any


class RayScheduler(Scheduler[_Actor, "OneRun"]):
    """Workers on a cluster; a run whose worker failed goes to another."""

    def __init__(self, cluster: RayCluster, tasks: Sequence[OneRun], jobs: int | None, on_event: OnEvent) -> None:
        super().__init__(tasks, on_event)
        self.cluster = cluster
        self.ray = cluster.ray
        self.max_workers = jobs
        self.folders = [task.path for task in tasks]
        self.actors = self.ray.remote(**cluster.needs)(RayWorker)
        self.failures: Counter[int] = Counter()
        self.started: set[int] = set()
        self.failed_starts = 0
        self.room = 0
        self.counted_at = float("-inf")

    def start_workers(self) -> None:
        """Start as many as there is room for now: machines may come and go. Workers get a run when they answered."""
        if time.monotonic() - self.counted_at > SECONDS_PER_COUNT:
            self.room = self.max_workers or self.cluster.places()
            self.counted_at = time.monotonic()
        while len(self.workers) < min(self.room, len(self.jobs)):
            actor = self.actors.remote(python_objects.registered())
            self.workers.append(_Actor(ready=False, actor=actor, reply=actor.updates.remote()))

    def submit(self, worker: _Actor, index: int) -> None:
        """Send a run, with what there is of its folder."""
        worker.actor.submit.remote(index, self.jobs[index], folder_sync.pack(self.folders[index]))

    def receive(self) -> None:
        """Take the updates of all workers that have some, within half a second."""
        if not self.workers:
            time.sleep(0.5)
            return
        ready, _ = self.ray.wait([worker.reply for worker in self.workers], timeout=0.5)
        for worker in [worker for worker in self.workers if worker.reply in ready]:
            try:
                events, pieces = self.ray.get(worker.reply)
                worker.ready = True
                worker.reply = worker.actor.updates.remote(worker.stopping)
            except self.ray.exceptions.RayError as error:
                self._worker_failed(worker, error)
                continue
            self._store(worker, events, pieces)
            if worker.index is None and not self.waiting:
                self._kill(worker)  # others may need its place

    def _store(self, worker: _Actor, events: Sequence[Event], pieces: Sequence[folder_sync.Piece]) -> None:
        """Write the files first, then pass on the events that count on them."""
        if worker.index is not None and pieces:
            folder_sync.put(self.folders[worker.index], pieces)
            if any(piece.name == run_folder.CHECKPOINT for piece in pieces):
                self.failures[worker.index] = 0
        for event in events:
            if event.kind in ENDS:
                worker.index = None
            if event.kind != "started" or event.index not in self.started:
                self.on_event(event)
            self.started.add(event.index)

    def _worker_failed(self, worker: _Actor, error: Exception) -> None:
        """Give the worker's run to the next one, from the last checkpoint that arrived."""
        self._kill(worker)
        reason = " ".join(str(error).split())
        self.failed_starts = 0 if worker.ready else self.failed_starts + 1
        if self.failed_starts > MAX_FAILURES * max(self.room, 1):
            raise SortitionError(f"Workers cannot start on the Ray cluster: {reason}")
        if worker.index is None:
            return
        self.failures[worker.index] += 1
        if worker.stopping:
            self.on_event(Event("stopped", worker.index))
        elif self.failures[worker.index] < MAX_FAILURES:
            self.waiting.appendleft(worker.index)
            self.on_event(Event("lost", worker.index))
        else:
            self.on_event(Event("failed", worker.index, text=f"Its worker died {MAX_FAILURES} times: {reason}"))

    def _kill(self, worker: _Actor) -> None:
        self.workers.remove(worker)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(worker.actor)

    def stop_workers(self) -> None:
        """End all at once: what has arrived is enough to resume."""
        for worker in list(self.workers):
            self._kill(worker)
