"""Who plays which run: tasks, what is told of them, and the loop that hands them to workers of any kind."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sortition.core.errors import SortitionError
from sortition.studies.workers.process_control import interruptible

TICK = 0.2  # seconds between two progress messages of one run
ENDS = ("done", "stopped", "failed")


class Task(Protocol):
    """Something that can be sent to another process and called there; True if finished, False if stopped."""

    def __call__(self, tell: Callable[[int, float | None], None], stopping: Callable[[], bool]) -> bool:
        """Do it; ``tell(round, value)`` after each round, end early when ``stopping()``."""


@dataclass(frozen=True)
class Event:
    """What happened to task ``at``: started, tick (``round``, ``value``), done, stopped, failed (``text``).

    ``lost``: its worker died, and another will go on with it.
    """

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


@dataclass
class Worker:
    """Somebody who plays one task at a time; ``at`` is None while idle, ``ready`` False until heard of."""

    at: int | None = None
    ready: bool = True
    leaving: bool = False

    def leave(self) -> None:
        """End the round in progress and go."""
        self.leaving = True


W = TypeVar("W", bound=Worker)


class Crew(ABC, Generic[W]):
    """Workers and the tasks that wait for them."""

    def __init__(self, tasks: Sequence[Task], hear: Hear) -> None:
        self.tasks, self.hear = tasks, hear
        self.waiting = deque(range(len(tasks)))
        self.workers: list[W] = []

    def play(self) -> bool:
        """Play all tasks. Ctrl-C lets the rounds in progress end; False if it was pressed."""
        with interruptible() as pressed:
            try:
                while any(worker.at is not None for worker in self.workers) or (self.waiting and not pressed()):
                    if self.waiting and not pressed():
                        self.hire()
                    for worker in self.workers:
                        if pressed():
                            worker.leave()
                        elif worker.ready and worker.at is None and self.waiting:
                            worker.at = self.waiting.popleft()
                            self.order(worker, worker.at)
                    self.listen()
            finally:
                self.dismiss()
            return not pressed()

    @abstractmethod
    def hire(self) -> None:
        """See that there are as many workers as there should be."""

    @abstractmethod
    def order(self, worker: W, at: int) -> None:
        """Send task ``at`` to a worker."""

    @abstractmethod
    def listen(self) -> None:
        """Wait a moment for what the workers tell, and pass it on to ``hear``."""

    @abstractmethod
    def dismiss(self) -> None:
        """Let all go: in peace who is idle, at once who still plays."""
