"""A question to clients, the answer, and what came back from training. Values always travel with their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids, as_array, as_ids, as_read_only, fix_width
from sortition.core.cohort import NOBODY, Cohort, Round
from sortition.core.errors import UndeclaredError, bad
from sortition.core.sampling import take_largest
from sortition.core.signals import Signal

NO_DURATIONS: Floats = as_read_only(np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A question: ask ``ids`` for ``signal``.

    Attributes:
        signal: what is asked for.
        ids: (n,) who is asked.
        after: the cohort of a rehearsal: the signal is measured under the model that this cohort would give. Default:
            none, the current model.
    """

    signal: Signal
    ids: Ids
    after: Cohort | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.signal, Signal):
            raise bad("Measure.signal", "a Signal", self.signal)
        object.__setattr__(self, "ids", as_read_only(as_ids("Measure.ids", self.ids)))


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The answer to a question.

    Attributes:
        ids: (n,) who answered.
        values: (n, …) a row each; of a pairs signal, row i holds the products with the asked ids in order.
    """

    ids: Ids
    values: Array

    def __post_init__(self) -> None:
        ids = as_ids("Reading.ids", self.ids)
        values = as_array("Reading.values", self.values)
        if values.dtype.kind not in "fiub":
            raise bad("Reading.values", "numbers, all rows of one shape", f"dtype {values.dtype}")
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
        if ids.size == 0 and values.size == 0:
            values = values.reshape(0, *values.shape[1:])
        if values.ndim < 1 or len(values) != ids.size:
            raise bad("Reading.values", f"one row per id, {ids.size} in all", f"shape {values.shape}")
        object.__setattr__(self, "ids", as_read_only(ids))
        object.__setattr__(self, "values", as_read_only(values))

    def __len__(self) -> int:
        return int(self.ids.size)

    def largest(self, k: int, rng: np.random.Generator | None = None) -> Ids:
        """Return the ids of the k largest values, largest first; ties go to the lowest id, or at random by ``rng``."""
        return take_largest(self.ids, self.values, k, rng)

    def restrict(self, ids: npt.ArrayLike) -> Reading:
        """Return the rows of these ids alone, in this reading's order; those who did not answer are left out."""
        is_wanted = np.isin(self.ids, np.asarray(ids, dtype=np.int64))
        return Reading(self.ids[is_wanted], self.values[is_wanted])

    def scatter(self, into: Array) -> Array:
        """Write each row to its client's place in a table of all clients, and return that table.

        A table declared with ``per_client(width=0)`` takes its width from the first rows, so use what is returned.
        """
        if not len(self):
            return into
        if into.ndim == 2 and self.values.ndim == 2:
            into = fix_width(into, self.values.shape[1])
        into[self.ids] = self.values
        return into

    @classmethod
    def empty(cls) -> Reading:
        """Return the reading of a question that nobody answered."""
        return cls(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class Feedback:
    """What came back since the last step.

    Attributes:
        round: the latest selection.
        cohort: everybody whose work ended since the last step, whether or not an update came of it. Where a step is
            made of one selection, it is that cohort; where it mixes several, the weights are those that the step used.
        ids: (k,) those whose updates are used.
        reports: a reading by the name of each declared report.
        staleness: (k,) versions that were made while each of ``ids`` trained; 0 for a fresh update.
        durations: (k,) seconds from the dispatch of each of ``ids`` to its arrival; NaN where there is no clock.
    """

    round: Round
    cohort: Cohort
    ids: Ids
    reports: Mapping[str, Reading]
    _method_name: str = "observe"
    staleness: Ids = field(default_factory=lambda: NOBODY)
    durations: Floats = field(default_factory=lambda: NO_DURATIONS)

    def __post_init__(self) -> None:
        if self.staleness is NOBODY and self.ids.size:
            object.__setattr__(self, "staleness", np.zeros(self.ids.size, np.int64))
        if self.durations is NO_DURATIONS and self.ids.size:
            object.__setattr__(self, "durations", np.full(self.ids.size, np.nan))

    def report(self, signal: Signal) -> Reading:
        """Return the reports of one signal, empty if nobody sent any; refuse one that ``needs.reports`` lacks."""
        if signal.name not in self.reports:
            raise UndeclaredError(
                f"{self._method_name} read reports of {signal.name!r}, which needs.reports do not declare."
            )
        return self.reports[signal.name]
