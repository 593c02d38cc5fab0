"""Objects that are used by one thread at a time: a second one that comes meanwhile is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sortition.core.errors import InputError


class OneThread:
    """Guards an object; the same thread may enter several times."""

    def __init__(self, who: str) -> None:
        self._who, self._lock = who, threading.RLock()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block, unless another thread is inside one; then nothing has been changed."""
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._who} must be called from one thread at a time; got a call during another one.")
        try:
            yield
        finally:
            self._lock.release()
