"""A recorded trace: CSV or Parquet with ``client_id,start,end`` or ``client_id,time,state``, or a 0/1 matrix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sortition.availability._events import Events
from sortition.availability._mode import Facts, Mask, Masks, Mode
from sortition.availability._tables import as_matrix, from_table, read_trace
from sortition.core.errors import bad


class Trace(Mode):
    """Clients are reachable as in a record; round t is the moment ``start`` + t · ``step``.

    Attributes:
        path: the file; client ids are 0 … N − 1.
        matrix: rounds × clients of 0 and 1, instead of a file.
        frame: a polars frame with the columns of a file, instead of a file; from Python only.
        step: time between rounds, in the trace's unit (seconds where it has dates).
        start: moment of round 0; default: the trace's first moment.
        after: what follows the trace's end: "loop" begins again, "hold" keeps the last state (of transitions, the one
            that the last of them made), "end" leaves nobody reachable.
    """

    path: str | None = None
    matrix: list[list[int]] | None = None
    frame: Any = None
    step: float = Field(1.0, gt=0)
    start: float | None = None
    after: Literal["loop", "hold", "end"] = "loop"

    def masks(self, facts: Facts) -> Masks:
        """Look rounds up in the matrix or among the events."""
        sources = [name for name in ("path", "matrix", "frame") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise bad("availability trace", "given either path or matrix", " and ".join(sources) or "neither of them")
        trace: Events | Mask
        if self.frame is not None:
            trace = from_table(self.frame, facts.clients, facts.notes)
        elif self.matrix is not None:
            trace = as_matrix(self.matrix, facts.clients)
        else:
            trace = read_trace(Path(str(self.path)).expanduser(), facts.clients, facts.notes)
        if isinstance(trace, Events):
            return self._masks_of_events(trace, facts.clients)
        return self._masks_of_matrix(trace)

    def _masks_of_matrix(self, matrix: Mask) -> Masks:
        rounds, clients = matrix.shape
        return self._continue_masks(
            mask_within=lambda t: matrix[t].copy(),
            rounds=rounds,
            clients=clients,
            last_mask=lambda: matrix[rounds - 1].copy(),
        )

    def _masks_of_events(self, events: Events, clients: int) -> Masks:
        first, last = events.span
        start = first
        if self.start is not None:
            start = self.start
            if start >= last:
                raise bad("availability trace.start", f"before the trace's end, {last:g}", start)
        rounds = max(1, int(np.ceil((last - start) / self.step)))
        last_moment = start + (rounds - 1) * self.step
        if events.lasting:
            last_moment = last
        return self._continue_masks(
            mask_within=lambda t: events.at(start + t * self.step),
            rounds=rounds,
            clients=clients,
            last_mask=lambda: events.at(last_moment),
        )

    def _continue_masks(self, *, mask_within: Masks, rounds: int, clients: int, last_mask: Callable[[], Mask]) -> Masks:
        """Return the masks of all rounds, given those of the rounds within the trace and the one that "hold" keeps."""

        def mask_of_round(t: int) -> Mask:
            if t < rounds:
                return mask_within(t)
            if self.after == "loop":
                return mask_within(t % rounds)
            if self.after == "hold":
                return last_mask()
            return np.zeros(clients, dtype=bool)

        return mask_of_round
