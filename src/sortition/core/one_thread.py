"""Objects that are used by one thread at a time: a second one that comes meanwhile is refused."""

from __future__ import annotations

import threading
from typing import Self

from sortition.core.errors import InputError


class OneThread:
    """Guard an object against a second thread; the same thread may enter several times."""

    def __init__(self, subject: str) -> None:
        self._who = subject
        self._lock = threading.RLock()

    def inside(self) -> Self:
        """Return a guard of a ``with`` block, which is refused while another thread is inside one."""
        return self

    def __enter__(self) -> None:
        """Enter the block; refuse it, before anything has changed, while another thread is inside one."""
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._who} must be called from one thread at a time; got a call during another one.")

    def __exit__(self, *_: object) -> None:
        """Leave the block."""
        self._lock.release()
