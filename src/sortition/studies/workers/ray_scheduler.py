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
SECONDS_TO_WAIT = 0.5  # for the next update
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
        self.actor_class = self.ray.remote(**cluster.needs)(RayWorker)
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
            actor = self.actor_class.remote(python_objects.registered_objects())
            self.workers.append(_Actor(has_answered=False, actor=actor, reply=actor.updates.remote()))

    def submit(self, worker: _Actor, index: int) -> None:
        """Send a run, with what there is of its folder."""
        worker.actor.submit.remote(index, self.jobs[index], folder_sync.pack(self.folders[index]))

    def receive(self) -> None:
        """Wait up to half a second until a worker has updates, then take those of all workers that have some."""
        if not self.workers:
            time.sleep(SECONDS_TO_WAIT)
            return
        for worker in self._workers_with_updates():
            try:
                events, pieces = self.ray.get(worker.reply)
                worker.has_answered = True
                worker.reply = worker.actor.updates.remote(worker.stopping)
            except self.ray.exceptions.RayError as error:
                self._worker_failed(worker, error)
                continue
            self._store(worker, events, pieces)
            if worker.job_index is None and not self.waiting_jobs:
                self._kill(worker)  # others may need its place

    def _workers_with_updates(self) -> list[_Actor]:
        """Return the workers whose reply is there; wait a moment for the first of them."""
        replies = [worker.reply for worker in self.workers]
        self.ray.wait(replies, num_returns=1, timeout=SECONDS_TO_WAIT)
        arrived_replies, _ = self.ray.wait(replies, num_returns=len(replies), timeout=0)
        return [worker for worker in self.workers if worker.reply in arrived_replies]

    def _store(self, worker: _Actor, events: Sequence[Event], pieces: Sequence[folder_sync.Piece]) -> None:
        """Write the files first, then pass on the events that count on them."""
        if worker.job_index is not None and pieces:
            folder_sync.put(self.folders[worker.job_index], pieces)
            if any(piece.name == run_folder.CHECKPOINT for piece in pieces):
                self.failures[worker.job_index] = 0
        for event in events:
            if event.kind in ENDS:
                worker.job_index = None
            if event.kind != "started" or event.index not in self.started:
                self.on_event(event)
            self.started.add(event.index)

    def _worker_failed(self, worker: _Actor, error: Exception) -> None:
        """Give the worker's run to the next one, from the last checkpoint that arrived."""
        self._kill(worker)
        reason = " ".join(str(error).split())
        self.failed_starts = 0 if worker.has_answered else self.failed_starts + 1
        if self.failed_starts > MAX_FAILURES * max(self.room, 1):
            raise SortitionError(f"Workers cannot start on the Ray cluster: {reason}")
        if worker.job_index is None:
            return
        self.failures[worker.job_index] += 1
        if worker.stopping:
            self.on_event(Event("stopped", worker.job_index))
        elif self.failures[worker.job_index] < MAX_FAILURES:
            self.waiting_jobs.appendleft(worker.job_index)
            self.on_event(Event("lost", worker.job_index))
        else:
            self.on_event(Event("failed", worker.job_index, text=f"Its worker died {MAX_FAILURES} times: {reason}"))

    def _kill(self, worker: _Actor) -> None:
        self.workers.remove(worker)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(worker.actor)

    def stop_workers(self) -> None:
        """End all at once: what has arrived is enough to resume."""
        for worker in list(self.workers):
            self._kill(worker)
