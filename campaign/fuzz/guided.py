"""The same targets under atheris, which looks for inputs that reach new code. Not a dependency: pip install atheris."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from campaign.fuzz.loop import Hang, Target, guarded, place, watched


class Bytes(random.Random):
    """A random source whose draws are read from bytes; when they end, zeros."""

    def __new__(cls, data: bytes) -> Bytes:
        """The bytes are no seed."""
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._at = data, 0

    def random(self) -> float:
        """In [0, 1)."""
        return self.getrandbits(24) / 2**24

    def getrandbits(self, k: int, /) -> int:
        """The next bits."""
        size = (k + 7) // 8
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part.ljust(size, b"\0"), "little") >> (8 * size - k)


def guide(target: Target, seconds: float) -> int:
    """Run until the time is up; whatever comes out that is not ours stops it."""
    import atheris

    atheris.instrument_all()
    calls, begun = [0], time.monotonic()

    def one(data: bytes) -> Any:
        calls[0] += 1
        if time.monotonic() - begun > seconds:
            print(f"{target.name}: {calls[0]} guided inputs, nothing else came out", flush=True)
            sys.stdout.flush()
            import os

            os._exit(0)
        try:
            with_guard(data)
        except (Exception, Hang) as error:
            print(f"{target.name}: {place(error)}", flush=True)
            raise

    def with_guard(data: bytes) -> None:
        guarded(target, Bytes(data))

    with watched():
        atheris.Setup([sys.argv[0], "-max_len=400", "-rss_limit_mb=0"], one)
        atheris.Fuzz()
    return 0
