"""A folder in memory for the files of this process."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path


@functools.cache
def scratch() -> Path:
    """Removed when the process ends."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder with a random name is made in it
    made = Path(tempfile.mkdtemp(prefix="campaign-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
