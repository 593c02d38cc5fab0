"""A file that one process locks at a time; the lock ends with its process."""

from __future__ import annotations

import os
from pathlib import Path

from sortition.core.storage.journal import NO_FOLLOW
from sortition.core.storage.safe_files import NON_BLOCKING

try:
    import fcntl
except ImportError:  # no advisory locks on this system
    fcntl = None  # type: ignore[assignment]


def acquire(path: Path) -> int | None:
    """Lock the file, made where there is none, until the returned handle is closed; None if another process has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | NON_BLOCKING, 0o644)
    if _try_lock(handle, exclusive=True):
        return handle
    os.close(handle)
    return None


def is_locked(path: Path) -> bool:
    """Tell whether some process holds the lock of the file at this moment.

    A file that is absent or cannot be opened is not in use. To find out, the file is locked for an instant, beside
    other readers: a process that calls :func:`acquire` within that instant is refused.
    """
    try:
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW | NON_BLOCKING)
    except OSError:
        return False
    try:
        return not _try_lock(handle, exclusive=False)
    finally:
        os.close(handle)


def _try_lock(handle: int, *, exclusive: bool) -> bool:
    """Try to lock an open file, for this process alone or beside other readers, and tell whether that succeeded.

    Where the system or the file system has no locks, it always succeeds.
    """
    if fcntl is None:
        return True
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True
