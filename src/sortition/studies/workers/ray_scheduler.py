"""The workers of a cluster and the runs that they are given: pieces put down as they arrive, the dead replaced."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortition.core.errors import SortitionError
from sortition.results import run_folder
from sortition.studies.workers import folder_sync
from sortition.studies.workers.ray_worker import Hand
from sortition.studies.workers.scheduler import ENDS, Crew, Event, Hear, Worker

if TYPE_CHECKING:
    from sortition.studies.runs.one_run import Play
    from sortition.studies.workers.ray_cluster import Cluster

DEATHS = 3  # of workers in a row, without a new checkpoint, until a run is given up
CENSUS = 5.0  # seconds between two counts of the cluster's processors


@dataclass(kw_only=True)
class _Remote(Worker):
    actor: Any
    news: Any  # the answer that is awaited


class Hands(Crew[_Remote]):
    """Hands on a cluster; a run whose hand died goes to another."""

    def __init__(self, cluster: Cluster, tasks: Sequence[Play], jobs: int | None, hear: Hear) -> None:
        super().__init__(tasks, hear)
        self.cluster, self.ray, self.jobs, self.folders = cluster, cluster.ray, jobs, [task.path for task in tasks]
        self.actors = self.ray.remote(**cluster.needs)(Hand)
        self.deaths: Counter[int] = Counter()
        self.begun: set[int] = set()
        self.stillborn = 0
        self.room, self.counted = 0, float("-inf")

    def hire(self) -> None:
        """As many as there is room for now: machines may come and go. A run is ordered from who has answered only."""
        if time.monotonic() - self.counted > CENSUS:
            self.room, self.counted = self.jobs or self.cluster.places(), time.monotonic()
        while len(self.workers) < min(self.room, len(self.tasks)):
            actor = self.actors.remote()
            self.workers.append(_Remote(ready=False, actor=actor, news=actor.news.remote()))

    def order(self, worker: _Remote, at: int) -> None:
        """Send a run, with what there is of its folder."""
        worker.actor.order.remote(at, self.tasks[at], folder_sync.pack(self.folders[at]))

    def listen(self) -> None:
        """Hear whoever has news, within half a second."""
        if not self.workers:
            time.sleep(0.5)
            return
        ready, _ = self.ray.wait([worker.news for worker in self.workers], timeout=0.5)
        for worker in [worker for worker in self.workers if worker.news in ready]:
            try:
                events, pieces = self.ray.get(worker.news)
                worker.ready, worker.news = True, worker.actor.news.remote(worker.leaving)
            except self.ray.exceptions.RayError as error:
                self._bury(worker, error)
                continue
            self._take(worker, events, pieces)
            if worker.at is None and not self.waiting:
                self._kill(worker)  # others may need its place

    def _take(self, worker: _Remote, events: Sequence[Event], pieces: Sequence[folder_sync.Piece]) -> None:
        """Files first, then the events that count on them."""
        if worker.at is not None and pieces:
            folder_sync.put(self.folders[worker.at], pieces)
            if any(piece.name == run_folder.CHECKPOINT for piece in pieces):
                self.deaths[worker.at] = 0
        for event in events:
            if event.kind in ENDS:
                worker.at = None
            if event.kind != "started" or event.at not in self.begun:
                self.hear(event)
            self.begun.add(event.at)

    def _bury(self, worker: _Remote, error: Exception) -> None:
        """Its run goes to the next worker, from the last checkpoint that arrived."""
        self._kill(worker)
        why = " ".join(str(error).split())
        self.stillborn = 0 if worker.ready else self.stillborn + 1
        if self.stillborn > DEATHS * max(self.room, 1):
            raise SortitionError(f"Workers cannot start on the Ray cluster: {why}")
        if worker.at is None:
            return
        self.deaths[worker.at] += 1
        if worker.leaving:
            self.hear(Event("stopped", worker.at))
        elif self.deaths[worker.at] < DEATHS:
            self.waiting.appendleft(worker.at)
            self.hear(Event("lost", worker.at))
        else:
            self.hear(Event("failed", worker.at, text=f"Its worker died {DEATHS} times: {why}"))

    def _kill(self, worker: _Remote) -> None:
        self.workers.remove(worker)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(worker.actor)

    def dismiss(self) -> None:
        """End all at once: what has arrived is enough to resume."""
        for worker in list(self.workers):
            self._kill(worker)
