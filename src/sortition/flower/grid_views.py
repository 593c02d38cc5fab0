"""The grid as a stock loop is shown it: with the nodes of one moment, or with a round that closes early."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from sortition.flower.exchange import collected


class Seen:
    """A grid whose nodes are those of one moment: who goes offline meanwhile is not waited for."""

    def __init__(self, grid: Grid, online: Collection[int]) -> None:
        self._grid, self._online = grid, list(online)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> list[int]:
        """The nodes of that moment."""
        return list(self._online)


class Closing:
    """A grid whose exchanges end when ``target()`` clients have answered, or at the time limit; at 0, as usual."""

    def __init__(self, grid: Grid, target: Callable[[], int]) -> None:
        self._grid, self._target = grid, target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """The replies that were there when it closed; what comes later is never read."""
        sent = list(messages)
        if target := self._target():
            return collected(self._grid, sent, math.inf if timeout is None else timeout, target)
        return self._grid.send_and_receive(sent, timeout=timeout)
