"""A worker on another machine: it plays one run at a time in a folder of its own, and sends what is new when asked."""

from __future__ import annotations

import platform
import queue
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sortition.core.errors import SortitionError
from sortition.studies import python_objects
from sortition.studies.python_objects import RegisteredObject
from sortition.studies.workers import folder_sync
from sortition.studies.workers.folder_sync import Piece
from sortition.studies.workers.scheduler import ENDS, Event, attempt

if TYPE_CHECKING:
    from sortition.studies.runs.run_task import OneRun

WAIT_SECONDS = 0.5  # that a call waits for something new


class RayWorker:
    """Plays runs that a scheduler sends; on a cluster it is a Ray actor, in a test it is called directly."""

    def __init__(self, objects: Mapping[str, RegisteredObject] | None = None) -> None:
        python_objects.receive(objects or {})
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._sender: folder_sync.FolderSender | None = None

    def submit(self, index: int, task: OneRun, pieces: Sequence[Piece]) -> None:
        """Begin task ``index``, or continue it from the pieces of its folder."""
        try:
            self._home = tempfile.TemporaryDirectory(prefix="sortition-")
            local_task = replace(task, path=Path(self._home.name))
            folder_sync.put(local_task.path, pieces)
        except (OSError, SortitionError) as error:  # no room on this machine
            self._events.put(Event("failed", index, text=str(error)))
            return
        arguments = (index, local_task, self._events.put, self._stop.is_set)
        threading.Thread(target=attempt, args=arguments, daemon=True).start()

    def updates(self, stop: bool = False) -> tuple[list[Event], list[Piece]]:
        """Return what happened since the last call, and the files that it left; wait a moment if nothing did."""
        if stop:
            self._stop.set()
        events = []
        try:
            events.append(self._events.get(timeout=WAIT_SECONDS))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            pass
        if self._home is None:
            return events, []
        home = Path(self._home.name)
        has_ended = any(event.kind in ENDS for event in events)
        if self._sender is None and (has_ended or any(event.kind == "tick" for event in events)):
            self._sender = folder_sync.FolderSender(home)  # not before the journals were cut to their checkpoint
        pieces = self._sender.pieces() if self._sender else []
        if has_ended:
            self._home.cleanup()
            self._home = None
            self._sender = None
        return [_with_machine(event, home) for event in events], pieces


def _with_machine(event: Event, home: Path) -> Event:
    """Let a failure name the machine where it happened, and not the folder that no longer exists."""
    if event.kind != "failed":
        return event
    text = f"{event.text.strip()} (on {platform.node()})"
    return replace(event, text=text.replace(str(home), "the run's folder"))
