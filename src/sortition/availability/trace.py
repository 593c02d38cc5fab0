"""A recorded trace: CSV or Parquet with ``client_id,start,end`` or ``client_id,time,state``, or a 0/1 matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sortition.availability._events import Events
from sortition.availability._mode import Facts, Mask, Masks, Mode
from sortition.availability._tables import as_matrix, from_table, read
from sortition.core.errors import InputError, bad


class Trace(Mode):
    """Round t is the moment ``start`` + t · ``step``; what comes after the trace's end, ``after`` says.

    Attributes:
        path: the file; client ids are 0 … N − 1.
        matrix: rounds × clients of 0 and 1, instead of a file.
        frame: a polars frame with the columns of a file, instead of one; from Python only.
        step: time between rounds, in the trace's unit (seconds where it has dates).
        start: moment of round 0; the trace's first moment unless given.
        after: "loop" begins again, "hold" keeps the last state (of transitions, the one that the last of them made),
            "end" leaves nobody.
    """

    path: str | None = None
    matrix: list[list[int]] | None = None
    frame: Any = None
    step: float = Field(1.0, gt=0)
    start: float | None = None
    after: Literal["loop", "hold", "end"] = "loop"

    def masks(self, facts: Facts) -> Masks:
        """A look-up in the matrix or among the events."""
        given = [name for name in ("path", "matrix", "frame") if getattr(self, name) is not None]
        if len(given) != 1:
            got = "both" if len(given) == 2 else ", ".join(given) or "none"
            raise InputError(f"availability trace must be given either path or matrix; got {got}.")
        if self.frame is not None:
            return self._timed(from_table(self.frame, facts.clients, facts.notes), facts)
        if self.matrix is not None:
            return self._looped(as_matrix(self.matrix, facts.clients))
        found = read(Path(str(self.path)).expanduser(), facts.clients, facts.notes)
        return self._timed(found, facts) if isinstance(found, Events) else self._looped(found)

    def _looped(self, matrix: Mask) -> Masks:
        return self._after(lambda t: matrix[t].copy(), len(matrix), matrix.shape[1])

    def _timed(self, events: Events, facts: Facts) -> Masks:
        first, last = events.span
        start = first if self.start is None else self.start
        if start >= last and self.start is not None:
            raise bad("availability trace.start", f"before the trace's end, {last:g}", start)
        rounds = max(1, int(np.ceil((last - start) / self.step)))
        held = last if events.lasting else start + (rounds - 1) * self.step  # the moment that "hold" keeps
        return self._after(lambda t: events.at(start + t * self.step), rounds, facts.clients, lambda _: events.at(held))

    def _after(self, inside: Masks, rounds: int, clients: int, held: Masks | None = None) -> Masks:
        def at(t: int) -> Mask:
            if t < rounds:
                return inside(t)
            if self.after == "end":
                return np.zeros(clients, dtype=bool)
            if self.after == "hold" and held is not None:
                return held(t)
            return inside(t % rounds if self.after == "loop" else rounds - 1)

        return at
