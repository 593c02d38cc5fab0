"""Runs side by side as processes with one thread each; a worker that dies takes only its own run with it."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from sortition.core.errors import SortitionError
from sortition.experiments.processes import deaf, interruptible, one_thread

TICK = 0.2  # seconds between two progress messages of one run


class Task(Protocol):
    """Something that can be sent to another process and called there; True if finished, False if stopped."""

    def __call__(self, tell: Callable[[int, float | None], None], stopping: Callable[[], bool]) -> bool:
        """Do it; ``tell(round, value)`` after each round, end early when ``stopping()``."""


@dataclass(frozen=True)
class Event:
    """What happened to task ``at``: started, tick (``round``, ``value``), done, stopped, or failed (``text``)."""

    kind: str
    at: int
    round: int = 0
    value: float | None = None
    text: str = ""


Hear = Callable[[Event], None]


def attempt(at: int, task: Task, hear: Hear, stopping: Callable[[], bool]) -> None:
    """Call a task and tell how it went; what it raises becomes a ``failed`` event."""
    heard, last = 0.0, None

    def tell(played: int, value: float | None) -> None:
        nonlocal heard, last
        last = Event("tick", at, played, value)
        if time.monotonic() - heard >= TICK:
            heard = time.monotonic()
            hear(last)

    hear(Event("started", at))
    try:
        finished = task(tell, stopping)
    except BrokenPipeError:  # whoever listened is gone: nothing more to tell
        raise
    except SortitionError as error:
        hear(Event("failed", at, text=str(error)))
    except Exception:
        hear(Event("failed", at, text=traceback.format_exc()))
    else:
        if last is not None:
            hear(last)
        hear(Event("done" if finished else "stopped", at))


def run(tasks: Sequence[Task], jobs: int, hear: Hear) -> bool:
    """Play all tasks, at most ``jobs`` at a time. Ctrl-C lets the rounds in progress end; False if it was pressed."""
    if jobs <= 1 or len(tasks) <= 1:
        return _inline(tasks, hear)
    return _Crew(tasks, min(jobs, len(tasks)), hear).play()


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


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    at: int | None = None
    leaving: bool = False

    def leave(self) -> None:
        """Ask it, once, to end its round and go."""
        if not self.leaving:
            self.leaving = True
            with suppress(BrokenPipeError):
                self.pipe.send(None)


@dataclass
class _Crew:
    """Workers and the tasks that wait for them."""

    tasks: Sequence[Task]
    jobs: int
    hear: Hear
    workers: list[_Worker] = field(default_factory=list)

    def play(self) -> bool:
        waiting = deque(range(len(self.tasks)))
        with interruptible() as pressed:
            try:
                for _ in range(self.jobs):
                    self._hire()
                while any(worker.at is not None for worker in self.workers) or (waiting and not pressed()):
                    for worker in self.workers:
                        if pressed():
                            worker.leave()
                        elif worker.at is None and waiting:
                            self._order(worker, waiting.popleft())
                    self._listen(hiring=bool(waiting) and not pressed())
            finally:
                self._dismiss()
            return not pressed()

    def _hire(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with one_thread(), deaf():
            process.start()
        theirs.close()
        self.workers.append(_Worker(process, ours))

    def _order(self, worker: _Worker, at: int) -> None:
        worker.at = at
        with suppress(BrokenPipeError):  # a worker that is dead already is found by _listen
            worker.pipe.send((at, self.tasks[at]))

    def _listen(self, *, hiring: bool) -> None:
        ready = wait([worker.pipe for worker in self.workers], timeout=0.5)
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                event = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                self._bury(worker)
                if hiring:
                    self._hire()
                continue
            if event.kind in ("done", "stopped", "failed"):
                worker.at = None
            self.hear(event)

    def _bury(self, worker: _Worker) -> None:
        worker.process.join()
        self.workers.remove(worker)
        if worker.at is not None:
            text = f"Its process ended with code {worker.process.exitcode} (memory used up, or killed)."
            self.hear(Event("failed", worker.at, text=text))

    def _dismiss(self) -> None:
        for worker in self.workers:
            if worker.at is None:
                worker.leave()
            else:  # a second Ctrl-C, or an error of ours
                worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
