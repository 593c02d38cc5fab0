"""Which worker plays which run: tasks, the events that they report, and the loop that submits them to workers."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from sortition.core.errors import SortitionError
from sortition.studies.workers.process_control import interruptible

SECONDS_PER_TICK = 0.2  # between two progress events of one run
ENDS = ("done", "stopped", "failed")  # kinds of events after which a job is over
EventKind = Literal["started", "tick", "done", "stopped", "failed", "lost"]


class Job(Protocol):
    """Something that can be sent to another process and called there."""

    def __call__(
        self, on_round: Callable[[int, float | None, float | None], None], stopping: Callable[[], bool]
    ) -> bool:
        """Do the job, and return True if it is finished, False if it was stopped.

        It calls ``on_round(rounds, value, share)`` after each round, and ends early when ``stopping()``.
        """


@dataclass(frozen=True)
class Event:
    """What happened to a job.

    Attributes:
        kind: "lost" means that its worker failed, and another one continues it.
        index: the number of the job.
        round: of a tick, the rounds played.
        value: of a tick, the figure of the last evaluation; None where there was none.
        share: of a tick, how much of the cost at which the job ends is spent, 0 to 1; None where no cost ends it.
        text: of a failure, why.
    """

    kind: EventKind
    index: int
    round: int = 0
    value: float | None = None
    text: str = ""
    share: float | None = None


OnEvent = Callable[[Event], None]


class Attempt:
    """Reports how a job goes: started, at most one tick in a while, and how it ended."""

    def __init__(self, index: int, on_event: OnEvent) -> None:
        self.index = index
        self.on_event = on_event
        self.reported_at = 0.0
        self.last_tick: Event | None = None
        on_event(Event("started", index))

    def on_round(self, played: int, value: float | None, share: float | None = None) -> None:
        """Report a round that was played."""
        self.last_tick = Event("tick", self.index, round=played, value=value, share=share)
        if time.monotonic() - self.reported_at >= SECONDS_PER_TICK:
            self.reported_at = time.monotonic()
            self.on_event(self.last_tick)

    def ended(self, finished: bool) -> None:
        """Report that the job is done, or was stopped."""
        if self.last_tick is not None:
            self.on_event(self.last_tick)
        self.on_event(Event("done" if finished else "stopped", self.index))

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Turn an exception into a ``failed`` event."""
        try:
            yield
        except BrokenPipeError:  # nobody receives the events any more
            raise
        except SortitionError as error:
            self.on_event(Event("failed", self.index, text=str(error)))
        except Exception:
            self.on_event(Event("failed", self.index, text=traceback.format_exc()))


def attempt(index: int, job: Job, on_event: OnEvent, stopping: Callable[[], bool]) -> None:
    """Call a job and report how it went."""
    attempt = Attempt(index, on_event)
    with attempt.failing():
        attempt.ended(job(attempt.on_round, stopping))


@dataclass
class WorkerHandle:
    """A worker, which plays one job at a time.

    Attributes:
        job_index: the job that it plays; None while it is idle.
        has_answered: whether it has answered.
        stopping: whether it was asked to end.
    """

    job_index: int | None = None
    has_answered: bool = True
    stopping: bool = False

    def stop(self) -> None:
        """Ask it to end the round in progress, and then itself."""
        self.stopping = True


W = TypeVar("W", bound=WorkerHandle)
J = TypeVar("J")


class Scheduler(ABC, Generic[W, J]):
    """Gives jobs, or groups of them, to workers that are idle, and passes on what the workers report."""

    def __init__(self, jobs: Sequence[J], on_event: OnEvent) -> None:
        self.jobs = jobs
        self.on_event = on_event
        self.waiting_jobs = deque(range(len(jobs)))
        self.workers: list[W] = []

    def run(self) -> bool:
        """Play all jobs; return True, or False after Ctrl-C, which lets the rounds in progress end."""
        with interruptible() as pressed:
            try:
                while self._is_busy() or (self.waiting_jobs and not pressed()):
                    if pressed():
                        for worker in self.workers:
                            worker.stop()
                    else:
                        self._submit_waiting()
                    self.receive()
            finally:
                self.stop_workers()
            return not pressed()

    def _is_busy(self) -> bool:
        """Tell whether a worker plays a job."""
        return any(worker.job_index is not None for worker in self.workers)

    def _submit_waiting(self) -> None:
        """Give the next waiting jobs to idle workers, after starting the workers that are missing."""
        if self.waiting_jobs:
            self.start_workers()
        for worker in self.workers:
            if worker.has_answered and worker.job_index is None and self.waiting_jobs:
                worker.job_index = self.waiting_jobs.popleft()
                self.submit(worker, worker.job_index)

    @abstractmethod
    def start_workers(self) -> None:
        """Start the workers that are missing."""

    @abstractmethod
    def submit(self, worker: W, index: int) -> None:
        """Send job ``index`` to a worker."""

    @abstractmethod
    def receive(self) -> None:
        """Wait a moment for events of the workers, and pass them on to ``on_event``."""

    @abstractmethod
    def stop_workers(self) -> None:
        """End all workers: idle ones orderly, others at once."""
