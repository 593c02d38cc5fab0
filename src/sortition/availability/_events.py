"""Traces as a list of events (time, client, on or off): reading, repairing, and looking up any moment quickly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sortition.availability._mode import Mask
from sortition.core.arrays import Floats, Ids


@dataclass(frozen=True, eq=False)
class Events:
    """Changes of state in the order of time; who has none at or before a moment is in its ``initial`` state.

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
    def _stride(self) -> int:
        return max(len(self.initial), 1024)

    @cached_property
    def _checkpoints(self) -> list[npt.NDArray[np.uint8]]:
        """Packed states before every ``_stride``-th event: a look-up then applies at most that many."""
        state, kept = self.initial.copy(), []
        for start in range(0, len(self.times) + 1, self._stride):
            kept.append(np.packbits(state))
            state[self.ids[start : start + self._stride]] = self.states[start : start + self._stride]
        return kept

    def at(self, moment: float) -> Mask:
        """(N,) bool: an event at the very moment counts."""
        done = int(np.searchsorted(self.times, moment, side="right"))
        page = done // self._stride
        state = np.unpackbits(self._checkpoints[page], count=len(self.initial)).astype(bool)
        recent = slice(page * self._stride, done)
        state[self.ids[recent]] = self.states[recent]  # of several events of one client the last one stays
        return state


def from_intervals(ids: Ids, starts: Floats, ends: Floats, clients: int, notes: list[str]) -> Events:
    """Half-open intervals [start, end); overlapping and touching ones are merged, reversed and empty ones dropped."""
    reversed_, empty = ends < starts, ends == starts
    if reversed_.any():
        notes.append(f"{int(reversed_.sum())} intervals end before they start and were dropped.")
    if empty.any():
        notes.append(f"{int(empty.sum())} intervals of no length were dropped.")
    good = ~(reversed_ | empty)
    ids, starts, ends = ids[good], starts[good], ends[good]
    span = (float(starts.min()), float(ends.max())) if len(ids) else (0.0, 0.0)
    order = np.lexsort((starts, ids))
    ids, starts, ends = ids[order], starts[order], ends[order]
    reach = _running_max(ids, ends)
    fresh = np.ones(len(ids), dtype=bool)
    fresh[1:] = (ids[1:] != ids[:-1]) | (starts[1:] > reach[:-1])
    if overlaps := int(np.sum(~fresh[1:] & (starts[1:] < reach[:-1]))):
        notes.append(f"{overlaps} overlapping intervals were merged.")
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(ids) - 1) if len(ids) else np.empty(0, np.int64)
    ons, offs = (ids[fresh], starts[fresh], True), (ids[last], reach[last], False)
    return _sorted([ons, offs], np.zeros(clients, dtype=bool), span)


def from_transitions(ids: Ids, times: Floats, states: Mask, clients: int, notes: list[str]) -> Events:
    """State from each moment on; before its first transition a client is in the other state."""
    order = np.lexsort((np.arange(len(ids)), times, ids))
    ids, times, states = ids[order], times[order], states[order]
    if repeats := int(np.sum((ids[1:] == ids[:-1]) & (states[1:] == states[:-1]))):
        notes.append(f"{repeats} transitions repeat the state before them; they change nothing.")
    initial = np.zeros(clients, dtype=bool)
    first = np.ones(len(ids), dtype=bool)
    first[1:] = ids[1:] != ids[:-1]
    initial[ids[first]] = ~states[first]
    span = (float(times.min()), float(times.max())) if len(ids) else (0.0, 0.0)
    by_time = np.argsort(times, kind="stable")
    return Events(times[by_time], ids[by_time], states[by_time], initial, span, lasting=True)


def _running_max(ids: Ids, ends: Floats) -> Floats:
    """Per client (ids sorted) the running maximum of ends: rank-shifted so that one accumulate serves all clients."""
    order = np.argsort(ends, kind="stable")
    rank = np.empty(len(ends), dtype=np.int64)
    rank[order] = np.arange(len(ends))
    shifted = np.maximum.accumulate(rank + ids * len(ends)) if len(ends) else rank
    return ends[order][shifted - ids * len(ends)]


def _sorted(parts: list[tuple[Ids, Floats, bool]], initial: Mask, span: tuple[float, float]) -> Events:
    ids = np.concatenate([part[0] for part in parts])
    times = np.concatenate([part[1] for part in parts])
    states = np.concatenate([np.full(len(part[0]), part[2]) for part in parts])
    order = np.argsort(times, kind="stable")
    return Events(times[order], ids[order], states[order], initial, span)
