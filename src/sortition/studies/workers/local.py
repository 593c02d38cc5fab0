"""Runs side by side as processes with one thread each; a worker that dies takes only its own run with it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sortition.studies.workers.process_control import deaf, interruptible, one_thread
from sortition.studies.workers.scheduler import ENDS, Crew, Event, Hear, Task, Worker, attempt


class Here:
    """Run on this machine; :class:`~sortition.studies.workers.ray_cluster.Cluster` is the other choice."""

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function where the runs will be played."""
        function(*arguments)

    def run(self, tasks: Sequence[Task], jobs: int | None, hear: Hear) -> bool:
        """Play all tasks, at most ``jobs`` at a time."""
        return run(tasks, jobs, hear)


def cores() -> int:
    """How many processes this one may use at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(tasks: Sequence[Task], jobs: int | None, hear: Hear) -> bool:
    """Play all tasks, at most ``jobs`` at a time (default: all cores).

    Ctrl-C lets the rounds in progress end; False if it was pressed.
    """
    jobs = cores() if jobs is None else jobs
    if jobs <= 1 or len(tasks) <= 1:
        return _inline(tasks, hear)
    return _Processes(tasks, min(jobs, len(tasks)), hear).play()


def _inline(tasks: Sequence[Task], hear: Hear) -> bool:
    with interruptible() as stopping:
        for at, task in enumerate(tasks):
            if stopping():
                return False
            attempt(at, task, hear, stopping)
        return not stopping()


def _serve(pipe: Connection) -> None:
    """A worker's life: play what comes through the pipe until None does.

    Whatever comes while a task is played means stop: the word itself, or that the parent is gone.
    """
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (order := pipe.recv()) is not None:
            at, task = order
            attempt(at, task, pipe.send, pipe.poll)


@dataclass(kw_only=True)
class _Process(Worker):
    process: Any
    pipe: Connection

    def leave(self) -> None:
        """Ask it, once, to end its round and go."""
        if not self.leaving:
            self.leaving = True
            with suppress(BrokenPipeError):
                self.pipe.send(None)


class _Processes(Crew[_Process]):
    def __init__(self, tasks: Sequence[Task], jobs: int, hear: Hear) -> None:
        super().__init__(tasks, hear)
        self.jobs = jobs

    def hire(self) -> None:
        context = multiprocessing.get_context("spawn")
        while len(self.workers) < self.jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            with one_thread(), deaf():
                process.start()
            theirs.close()
            self.workers.append(_Process(process=process, pipe=ours))

    def order(self, worker: _Process, at: int) -> None:
        with suppress(BrokenPipeError):  # a worker that is dead already is found by listen
            worker.pipe.send((at, self.tasks[at]))

    def listen(self) -> None:
        ready = wait([worker.pipe for worker in self.workers], timeout=0.5)
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                event = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                self._bury(worker)
                continue
            if event.kind in ENDS:
                worker.at = None
            self.hear(event)

    def _bury(self, worker: _Process) -> None:
        worker.process.join()
        self.workers.remove(worker)
        if worker.at is not None:
            text = f"Its process ended with code {worker.process.exitcode} (memory used up, or killed)."
            self.hear(Event("failed", worker.at, text=text))

    def dismiss(self) -> None:
        for worker in self.workers:
            if worker.at is None:
                worker.leave()
            else:  # a second Ctrl-C, or an error of ours
                worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
