"""The same targets under atheris, which looks for inputs that reach new code. Not a dependency: pip install atheris."""

from __future__ import annotations

import os
import random
import sys
import time


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


def guide(name: str, seconds: float) -> int:
    """Run until the time is up; whatever comes out that is not ours stops it."""
    import atheris

    with atheris.instrument_imports(include=["sortition"]):  # ours alone: torch would take minutes
        from campaign.fuzz.loop import Hang, guarded, place, watched
        from campaign.fuzz.run import target

        found = target(name)
    calls, begun = 0, time.monotonic()

    def one(data: bytes) -> None:
        nonlocal calls
        if time.monotonic() - begun > seconds:
            print(f"{name}: {calls} guided inputs, only errors of ours came out", flush=True)
            os._exit(0)  # the only way out of atheris.Fuzz
        calls += 1
        try:
            guarded(found, Bytes(data))
        except (Exception, Hang) as error:
            print(f"{name}: {place(error)}", flush=True)
            raise

    with watched():
        atheris.Setup([sys.argv[0], "-max_len=400", "-rss_limit_mb=0"], one)
        atheris.Fuzz()
    return 0
