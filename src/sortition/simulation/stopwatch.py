"""Wall-clock seconds of the steps of a round."""

from __future__ import annotations

import time


class Stopwatch:
    """Started when made; each lap takes the time since the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str, less: float = 0.0) -> None:
        """End a step, ``less`` the seconds that are counted elsewhere."""
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last - less, now
