"""Who was there and who was chosen over the rounds, client by client: evenness, who was never chosen, how long ago."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.choice_counts import ChoiceCounts

NEVER = -1  # the last round of a client that was never chosen


class Participation:
    """Counts cohorts.

    Attributes:
        chosen: (N,) how often each client was chosen.
        present: (N,) in how many rounds each could be chosen.
        last: (N,) the last round in which each was chosen; −1: never.
    """

    def __init__(self) -> None:
        self.chosen: Ids = np.zeros(0, np.int64)
        self.present: Ids = np.zeros(0, np.int64)
        self.last: Ids = np.zeros(0, np.int64)
        self._knows_present = True  # until somebody does not say who was there

    def count(self, *, cohort: Ids, present: Ids | None, round_index: int, clients: int) -> None:
        """Take one round into account.

        Args:
            cohort: ids that were chosen.
            present: ids that could be chosen; None where that is not known.
            round_index: from 0.
            clients: how many are known.
        """
        ids = np.empty(0, np.int64)
        if present is not None:
            ids = present
        highest = max(int(cohort.max(initial=-1)), int(ids.max(initial=-1)))
        self._grow(max(clients, highest + 1))
        self.chosen[cohort] += 1
        self.last[cohort] = round_index
        self.present[ids] += 1
        self._knows_present = self._knows_present and present is not None

    def _grow(self, clients: int) -> None:
        joined = clients - self.chosen.size
        if joined <= 0:
            return
        self.chosen = np.pad(self.chosen, (0, joined))
        self.present = np.pad(self.present, (0, joined))
        self.last = np.pad(self.last, (0, joined), constant_values=NEVER)

    @property
    def evenness(self) -> float | None:
        """Jain's index of how often clients were chosen, of the rounds in which they could be: 1 is even."""
        return self._choice_counts.jain

    @property
    def never_chosen(self) -> int:
        """How many clients could be chosen and never were."""
        return self._choice_counts.never_chosen

    @property
    def _choice_counts(self) -> ChoiceCounts:
        if self._knows_present:
            return ChoiceCounts(self.chosen, self.present)
        return ChoiceCounts(self.chosen, None)

    def rounds_since(self, round_index: int) -> Ids:
        """Return how many rounds ago each client that was ever chosen was last chosen; 0 is in this round."""
        last = self.last[self.last != NEVER]
        ago: Ids = round_index - last
        return ago

    def places_by_owner(self, owners: Ids) -> Ids:
        """Return how many places the clients of each owner have had."""
        n_clients = min(owners.size, self.chosen.size)
        places: Ids = np.bincount(owners[:n_clients], weights=self.chosen[:n_clients]).astype(np.int64)
        return places

    def export(self) -> dict[str, Array]:
        """Return the counts as named arrays."""
        return {"chosen": self.chosen.copy(), "present": self.present.copy(), "last": self.last.copy()}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array]) -> Participation:
        """Return what :meth:`export` gave; raise ValueError where it is something else."""
        counts = cls()
        for name in ("chosen", "present", "last"):
            array = arrays[name]
            if array.ndim != 1 or array.dtype.kind != "i" or array.size != arrays["chosen"].size:
                raise ValueError(f"{name} of shape {array.shape} and type {array.dtype}")
            setattr(counts, name, array.astype(np.int64))
        return counts
