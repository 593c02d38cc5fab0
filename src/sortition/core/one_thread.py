"""Objects that are used by one thread at a time: a second one that comes meanwhile is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sortition.core.errors import InputError


class OneThread:
    """Guard an object against a second thread; the same thread may enter several times."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._lock = threading.RLock()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block; refuse it, before anything has changed, while another thread is inside one."""
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._who} must be called from one thread at a time; got a call during another one.")
        try:
            yield
        finally:
            self._lock.release()
