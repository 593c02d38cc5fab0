"""Objects that are used by one thread at a time: a second one that comes meanwhile is refused."""

from __future__ import annotations

import threading

from sortition.core.errors import InputError


class OneThread:
    """Guards an object: a ``with`` block is refused while another thread is inside one; one thread may nest them."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Enter the block; refuse it, before anything has changed, while another thread is inside one."""
        if not self._lock.acquire(blocking=False):
            raise InputError(
                f"{self._subject} must be called from one thread at a time; got a call during another one."
            )

    def __exit__(self, *_: object) -> None:
        """Leave the block."""
        self._lock.release()
