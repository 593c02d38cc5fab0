"""The dimension of a vector signal's rows: as the model says where it is known, else as most clients send them.

The dimension is the number of a row's entries. Nobody can fix it alone. Each client has one vote, the dimension that it
sent last; the one with the most votes is in force, ties stay with the one before. So a wrong dimension that came first
is overturned as soon as more clients send another one, and nobody gets a strike for a dimension that most clients send.

Selectors keep one row per client, so the dimension of one client's vector decides how much memory the server takes for
all of them. Where the model does not say the dimension, a vector is refused of which a table with a row for every
client would take more than ``TABLE_BYTES``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad
from sortition.core.signals import ModelSize, Signal

Votes = Iterable[tuple[str, Ids, int]]  # signal, clients, and the dimension that they sent
PREFIX = "lengths."  # in snapshots
TABLE_BYTES = 1 << 30  # of a table of float64 that clients' vectors alone can make a selector allocate


class Dimensions:
    """The dimensions of one selection's vector signals.

    Attributes:
        fixed: the dimension of each signal of which the model says it.
        votes: of every other signal, the dimension (N,) that each client sent last; 0 where it sent none.
        n_clients: N.
    """

    def __init__(self, signals: Iterable[Signal], model: ModelSize | None, n_clients: int) -> None:
        if model is not None and not isinstance(model, ModelSize):
            raise bad("model", "a ModelSize or None", model, "Make one with ModelSize(parameters=…).")
        vectors = [signal for signal in signals if not signal.scalar and signal.of != "pairs"]
        dimensions = {signal.name: signal.dimension(model) for signal in vectors}
        self.fixed = {name: dimension for name, dimension in dimensions.items() if dimension is not None}
        self.votes = {name: np.zeros(n_clients, np.int64) for name in dimensions if name not in self.fixed}
        self.n_clients = n_clients

    @property
    def largest_dimension(self) -> int:
        """The largest dimension that is believed where the model does not say it."""
        return TABLE_BYTES // (8 * self.n_clients)

    def copy_for(self, n_clients: int) -> Dimensions:
        """Return a copy for a larger population; clients that joined have not voted yet."""
        twin = object.__new__(Dimensions)
        twin.fixed = self.fixed
        twin.n_clients = n_clients
        twin.votes = {name: np.pad(votes, (0, n_clients - votes.size)) for name, votes in self.votes.items()}
        return twin

    def resized(self, of_model: Dimensions) -> Dimensions:
        """Return the dimensions of a model of another size, with the votes so far."""
        of_model.votes |= {name: votes for name, votes in self.votes.items() if name in of_model.votes}
        return of_model

    def in_force(self, row_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each signal's rows: the model's where it says one, else that of earlier turns."""
        return {**row_shapes, **{name: (dimension,) for name, dimension in self.fixed.items()}}

    def changed_since(self, row_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the model's dimensions that differ from those that votes or another model gave earlier."""
        return {
            name: dimension
            for name, dimension in self.fixed.items()
            if name in row_shapes and row_shapes[name] != (dimension,)
        }

    def vote(self, votes: Votes, row_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Count the votes of a turn; return, by signal, the dimension that most clients send now, where it is new."""
        for name, clients, dimension in votes:
            if name in self.votes:
                self.votes[name][clients] = dimension
        overturned = {}
        for name in self.votes:
            winner = self._new_winner(name, row_shapes.get(name))
            if winner is not None:
                overturned[name] = winner
        return overturned

    def _new_winner(self, name: str, shape: tuple[int, ...] | None) -> int | None:
        """Return the dimension that has more votes than the one in force; None where there is none."""
        votes = self.votes[name][self.votes[name] > 0]
        if shape is None or not votes.size or len(shape) != 1:
            return None
        dimensions, counts = np.unique(votes, return_counts=True)
        winner = int(counts.argmax())
        votes_in_force = int((votes == shape[0]).sum())
        if counts[winner] <= votes_in_force:
            return None
        return int(dimensions[winner])

    def export(self) -> dict[str, Array]:
        """Return the votes as named arrays."""
        return {f"{PREFIX}{name}": votes for name, votes in self.votes.items()}

    def restored(self, arrays: Mapping[str, Array], row_shapes: Mapping[str, tuple[int, ...]]) -> Dimensions:
        """Return a copy with the votes of a snapshot."""
        twin = self.copy_for(self.n_clients)
        for name, votes in twin.votes.items():
            stored = arrays.get(f"{PREFIX}{name}")
            if stored is None:  # the model said the dimension: everybody stands for it
                shape = row_shapes.get(name)
                votes[:] = shape[0] if shape else 0
                continue
            fits = stored.ndim == 1 and stored.size <= votes.size
            if not fits or stored.dtype.kind not in "iu" or stored.min(initial=0) < 0:
                raise ValueError(f"votes on the dimension of {name!r} of shape {stored.shape} and type {stored.dtype}")
            votes[: stored.size] = stored
        return twin
