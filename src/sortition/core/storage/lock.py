"""A file that one process locks at a time; the lock ends with its process."""

from __future__ import annotations

import os
from pathlib import Path

from sortition.core.storage.journal import NO_LINKS
from sortition.core.storage.safe_files import AT_ONCE

try:
    import fcntl
except ImportError:  # no advisory locks on this system
    fcntl = None  # type: ignore[assignment]


def acquire(path: Path) -> int | None:
    """Lock the file, made where there is none, until the returned handle is closed; None if another process has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS | AT_ONCE, 0o644)
    if _locked(handle, alone=True):
        return handle
    os.close(handle)
    return None


def in_use(path: Path) -> bool:
    """Tell whether some process locks the file at this moment."""
    try:
        handle = os.open(path, os.O_RDONLY | NO_LINKS | AT_ONCE)
    except OSError:
        return False
    try:
        return not _locked(handle, alone=False)
    finally:
        os.close(handle)


def _locked(handle: int, *, alone: bool) -> bool:
    """Try to lock an open file, alone or beside other readers; where there are no locks, that succeeds."""
    if fcntl is None:
        return True
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True
