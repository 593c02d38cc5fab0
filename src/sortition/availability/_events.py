"""Traces as a list of events (time, client, on or off): merging intervals, and looking up any moment quickly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sortition.availability._mode import Mask
from sortition.core.arrays import Floats, Ids


@dataclass(frozen=True, eq=False)
class Events:
    """Changes of state in the order of time; a client without one at or before a moment is in its ``initial`` state.

    Attributes:
        times: (M,) ascending.
        ids: (M,) clients.
        states: (M,) bool, the state from that moment on.
        initial: (N,) bool.
        span: first and last moment that the trace covers.
        lasting: whether the last states go on beyond the span, as those of transitions do (of intervals not).
    """

    times: Floats
    ids: Ids
    states: Mask
    initial: Mask
    span: tuple[float, float]
    lasting: bool = False

    @cached_property
    def _page_size(self) -> int:
        """How many events lie between two checkpoints."""
        return max(len(self.initial), 1024)

    @cached_property
    def _checkpoints(self) -> list[npt.NDArray[np.uint8]]:
        """Packed states at the beginning of every page of events: a look-up then applies at most one page."""
        state = self.initial.copy()
        checkpoints = []
        for start in range(0, len(self.times) + 1, self._page_size):
            checkpoints.append(np.packbits(state))
            page = slice(start, start + self._page_size)
            state[self.ids[page]] = self.states[page]
        return checkpoints

    def at(self, moment: float) -> Mask:
        """Return who is on at a moment, (N,) bool; an event at that very moment counts."""
        n_past = int(np.searchsorted(self.times, moment, side="right"))
        page = n_past // self._page_size
        state = np.unpackbits(self._checkpoints[page], count=len(self.initial)).astype(bool)
        recent = slice(page * self._page_size, n_past)
        state[self.ids[recent]] = self.states[recent]  # of several events of one client the last one stays
        return state


def from_intervals(ids: Ids, starts: Floats, ends: Floats, clients: int, notes: list[str]) -> Events:
    """Return the events of half-open intervals [start, end) in which clients are on.

    Overlapping and touching intervals are merged, reversed and empty ones dropped; ``notes`` says so.
    """
    is_reversed = ends < starts
    is_empty = ends == starts
    if is_reversed.any():
        notes.append(f"{int(is_reversed.sum())} intervals end before they start and were dropped.")
    if is_empty.any():
        notes.append(f"{int(is_empty.sum())} intervals of no length were dropped.")
    sound = np.flatnonzero(~(is_reversed | is_empty))
    span = (0.0, 0.0)
    if len(sound):
        span = (float(starts[sound].min()), float(ends[sound].max()))

    order = sound[np.lexsort((starts[sound], ids[sound]))]
    ids = ids[order]
    starts = starts[order]
    reach = _running_max(ids, ends[order])
    opens = np.ones(len(ids), dtype=bool)  # whether an interval begins a merged one
    opens[1:] = (ids[1:] != ids[:-1]) | (starts[1:] > reach[:-1])
    overlaps = int(np.sum(~opens[1:] & (starts[1:] < reach[:-1])))
    if overlaps:
        notes.append(f"{overlaps} overlapping intervals were merged.")
    closes = np.ones(len(ids), dtype=bool)  # whether an interval is the last of a merged one
    closes[:-1] = opens[1:]

    times = np.concatenate([starts[opens], reach[closes]])
    clients_of_events = np.concatenate([ids[opens], ids[closes]])
    states = np.repeat([True, False], [np.sum(opens), np.sum(closes)])
    by_time = np.argsort(times, kind="stable")
    return Events(
        times=times[by_time],
        ids=clients_of_events[by_time],
        states=states[by_time],
        initial=np.zeros(clients, dtype=bool),
        span=span,
    )


def from_transitions(ids: Ids, times: Floats, states: Mask, clients: int, notes: list[str]) -> Events:
    """Return the events of transitions to a state; before its first transition a client is in the other state."""
    order = np.lexsort((np.arange(len(ids)), times, ids))
    ids = ids[order]
    times = times[order]
    states = states[order]
    repeats = int(np.sum((ids[1:] == ids[:-1]) & (states[1:] == states[:-1])))
    if repeats:
        notes.append(f"{repeats} transitions repeat the state that the client is in; they change nothing.")
    is_first = np.ones(len(ids), dtype=bool)
    is_first[1:] = ids[1:] != ids[:-1]
    initial = np.zeros(clients, dtype=bool)
    initial[ids[is_first]] = ~states[is_first]
    span = (0.0, 0.0)
    if len(ids):
        span = (float(times.min()), float(times.max()))
    by_time = np.argsort(times, kind="stable")
    return Events(
        times=times[by_time],
        ids=ids[by_time],
        states=states[by_time],
        initial=initial,
        span=span,
        lasting=True,
    )


def _running_max(ids: Ids, ends: Floats) -> Floats:
    """Return the running maximum of ``ends`` of each client; ``ids`` are sorted.

    Ranks of ends are shifted by client, so that one ``accumulate`` serves all clients.
    """
    if not len(ends):
        return ends
    order = np.argsort(ends, kind="stable")
    rank = np.empty(len(ends), dtype=np.int64)
    rank[order] = np.arange(len(ends))
    shift = ids * len(ends)
    highest_rank = np.maximum.accumulate(rank + shift) - shift
    return ends[order][highest_rank]
