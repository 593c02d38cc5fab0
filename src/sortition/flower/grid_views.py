"""The grid as a strategy's loop is shown it: with chosen nodes only, or with a round that closes early."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from sortition.flower.exchange import collect


class NodesView:
    """A grid with just these nodes: the chosen ones, or those that were online at one moment."""

    def __init__(self, grid: Grid, nodes: Collection[int]) -> None:
        self._grid, self._nodes = grid, list(nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> list[int]:
        """These nodes."""
        return list(self._nodes)

    def get_nodes(self) -> list[Any]:
        """What is known of these nodes."""
        return [info for info in self._grid.get_nodes() if info.node_id in self._nodes]


class EarlyClose:
    """A grid whose exchanges end when ``target()`` clients have answered, or at the time limit; at 0, as usual."""

    def __init__(self, grid: Grid, target: Callable[[], int]) -> None:
        self._grid, self._target = grid, target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """The replies that were there when it closed; what comes later is never read."""
        sent = list(messages)
        if target := self._target():
            return collect(self._grid, sent, math.inf if timeout is None else timeout, target)
        return self._grid.send_and_receive(sent, timeout=timeout)
