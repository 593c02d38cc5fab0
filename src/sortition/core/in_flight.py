"""Clients at work: whom each selection sent to train, who of them is in flight, and what their updates weigh."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, frozen
from sortition.core.cohort import NOBODY, Cohort, Notes, rescaled
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot
from sortition.core.storage.snapshot import StoredTable

if TYPE_CHECKING:
    from sortition.core.observer import Reports

Normalise = Literal["mass", "count"]
NORMALISE = ("mass", "count")


FEW = 256  # ids for which a set is faster than a sort


def _among(ids: Ids, members: Ids) -> Array:
    """Return a mask (k,) of those ``ids`` that are members."""
    if ids.size > FEW or members.size > 16 * FEW:
        return np.isin(ids, members)
    lookup = set(members.tolist())
    return np.fromiter((client in lookup for client in ids.tolist()), bool, ids.size)


@dataclass(frozen=True, eq=False)
class Dispatched:
    """A selection whose cohort was sent to work.

    Attributes:
        index: of the selection.
        version: of the model that its members train.
        cohort: who was chosen, with what weight.
        since: the clock when they were sent; None where there is none.
        skipped: whether nobody could be chosen.
        in_flight: a mask (k,) of the members that are at work.
        has_ended: a mask (k,) of the members whose work ended since the last step without an update that is used.
    """

    index: int
    version: int
    cohort: Cohort
    since: float | None
    skipped: bool
    in_flight: Array
    has_ended: Array

    @classmethod
    def begun(cls, *, index: int, version: int, cohort: Cohort, since: float | None, skipped: bool) -> Dispatched:
        """Return a selection of whose cohort all members are at work."""
        return cls(
            index=index,
            version=version,
            cohort=cohort,
            since=since,
            skipped=skipped,
            in_flight=np.ones(cohort.ids.size, bool),
            has_ended=np.zeros(cohort.ids.size, bool),
        )

    def given_up(self, ids: Ids) -> Dispatched:
        """Return the same selection when the work of these members has ended without an update."""
        ends_now = _among(self.cohort.ids, ids) & self.in_flight
        return replace(self, in_flight=self.in_flight & ~ends_now, has_ended=self.has_ended | ends_now)

    def stepped(self, used_ids: Ids) -> Dispatched:
        """Return the same selection after a step that used the updates of these clients."""
        still_in_flight = self.in_flight & ~_among(self.cohort.ids, used_ids)
        return replace(self, in_flight=still_in_flight, has_ended=np.zeros(still_in_flight.size, bool))

    def ends_with(self, used_ids: Ids) -> Array:
        """Return a mask (k,) of the members whose work ends with a step that uses the updates of these clients."""
        return self.has_ended | (self.in_flight & _among(self.cohort.ids, used_ids))


class Flights:
    """All work in flight. A change gives a new object: whoever holds the old one sees nothing of it.

    Attributes:
        selections: those with work that a step has not ended yet, the oldest first.
        ids: sorted ids of the clients that are at work.
        ended_ids: sorted ids of the clients whose work ended since the last step without an update.
    """

    def __init__(self, selections: Sequence[Dispatched] = ()) -> None:
        self.selections = tuple(selections)
        members = [selection.cohort.ids[selection.in_flight] for selection in self.selections]
        selection_rows = [np.full(ids.size, row) for row, ids in enumerate(members)]
        everybody = np.concatenate([NOBODY, *members])
        order = np.argsort(everybody, kind="stable")
        self.ids: Ids = frozen(everybody[order])
        self._selection_row: Ids = np.concatenate([NOBODY, *selection_rows])[order]  # of each of `ids`
        ids_with_end = [selection.cohort.ids[selection.has_ended] for selection in self.selections]
        self.ended_ids: Ids = np.sort(np.concatenate([NOBODY, *ids_with_end]))
        self._rows_with_ended = frozenset(row for row, ids in enumerate(ids_with_end) if ids.size)

    def _changed(
        self,
        selections: Sequence[Dispatched],
        *,
        ids: Ids,
        selection_row: Ids,
        ended_ids: Ids,
        rows_with_ended: frozenset[int],
    ) -> Flights:
        """Return other work whose sorted ids are known: neither a refill nor a step looks at every selection."""
        flights = copy(self)
        flights.selections = tuple(selections)
        flights.ids = frozen(ids)
        flights._selection_row = selection_row
        flights.ended_ids = ended_ids
        flights._rows_with_ended = rows_with_ended
        return flights

    def with_selection(self, selection: Dispatched) -> Flights:
        """Return the same work and one more cohort, all of whose members are at work."""
        members = np.sort(selection.cohort.ids)
        places = np.searchsorted(self.ids, members)
        return self._changed(
            (*self.selections, selection),
            ids=np.insert(self.ids, places, members),
            selection_row=np.insert(self._selection_row, places, len(self.selections)),
            ended_ids=self.ended_ids,
            rows_with_ended=self._rows_with_ended,
        )

    def given_up(self, ids: Ids) -> Flights:
        """Return the same work without that of these clients."""
        if not ids.size:
            return self
        touched_rows = frozenset(self._rows_of(ids).tolist())
        selections = list(self.selections)
        for row in touched_rows:
            selections[row] = selections[row].given_up(ids)
        places = np.searchsorted(self.ids, ids)
        return self._changed(
            selections,
            ids=np.delete(self.ids, places),
            selection_row=np.delete(self._selection_row, places),
            ended_ids=np.union1d(self.ended_ids, ids),
            rows_with_ended=self._rows_with_ended | touched_rows,
        )

    def stepped(self, used_ids: Ids) -> Flights:
        """Return the work after a step that used these updates; selections without anybody at work are forgotten."""
        selections = list(self.selections)
        for row in self._rows_ending_with(used_ids):
            selections[row] = selections[row].stepped(used_ids)
        places = np.searchsorted(self.ids, used_ids)
        selection_row = np.delete(self._selection_row, places)
        is_at_work = np.bincount(selection_row, minlength=len(selections)) > 0
        row_after_step = np.cumsum(is_at_work) - 1
        return self._changed(
            list(compress(selections, is_at_work.tolist())),
            ids=np.delete(self.ids, places),
            selection_row=row_after_step[selection_row],
            ended_ids=NOBODY,
            rows_with_ended=frozenset(),
        )

    def _rows_ending_with(self, used_ids: Ids) -> list[int]:
        """Return the rows of the selections of which work ends with a step of these updates, the oldest first."""
        return sorted(self._rows_with_ended.union(self._rows_of(used_ids).tolist()))

    def not_in_flight(self, ids: Ids) -> Ids:
        """Return those of ``ids`` that are not in flight."""
        if not self.ids.size:
            return ids
        positions = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        outside: Ids = ids[self.ids[positions] != ids]
        return outside

    def staleness(self, ids: Ids, version: int) -> Ids:
        """Return how many versions were made since each of these was sent to work."""
        if not ids.size:
            return NOBODY
        versions = [self.selections[row].version for row in self._rows_of(ids).tolist()]
        return version - np.array(versions, np.int64)

    def in_order(self, ids: Ids) -> Ids:
        """Return these clients by selection, then by their place in the cohort, whatever the order of arrival."""
        rows = self._rows_of(ids)
        parts = [ids[:0]]
        for row in np.unique(rows).tolist():
            members = self.selections[row].cohort.ids
            parts.append(members[_among(members, ids[rows == row])])
        return np.concatenate(parts)

    def _rows_of(self, ids: Ids) -> Ids:
        """Return the row in ``selections`` of each of these clients, who are in flight."""
        return self._selection_row[np.searchsorted(self.ids, ids)]

    def weigh(self, used_ids: Ids, discounts: Floats | None, normalise: Normalise) -> StepWeights:
        """Weigh a step that uses the updates of these clients, and collect the cohort of all whose work ends with it.

        The rule is in docs/design.md ("Weights of a step"). One selection whose members all end with this step, none of
        them discounted, has the weights of its cohort.
        """
        ending = []
        for row in self._rows_ending_with(used_ids):
            selection = self.selections[row]
            ending.append(_Ending(selection, selection.ends_with(used_ids)))
        ended_selection = self._wholly_ended(ending)
        if ended_selection is not None and (not used_ids.size or not discounted(discounts)):
            cohort = ended_selection.cohort
            weights, notes = cohort.weights_of(used_ids)
            return StepWeights(cohort=cohort, weights=weights, notes=notes, skipped=ended_selection.skipped)
        return _mixed(ending, used_ids, discounts, normalise)

    def _wholly_ended(self, ending: Sequence[_Ending]) -> Dispatched | None:
        """Return the selection that a step alone is made of and that ends with it; None where it mixes selections."""
        if len(ending) == 1 and ending[0].is_ending.all():
            return ending[0].selection
        if not ending and self.selections and not self.ids.size:  # the latest one is of nobody
            return self.selections[-1]
        return None

    # -- in a snapshot -------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Return the named arrays of a snapshot: clients, weights and masks of every selection."""
        arrays: dict[str, Array] = {}
        for row, selection in enumerate(self.selections):
            cohort = selection.cohort
            parts = {
                "ids": cohort.ids,
                "weights": cohort.weights,
                "in_flight": selection.in_flight,
                "ended": selection.has_ended,
            }
            if cohort.groups is not None:
                parts["groups"] = cohort.groups
            arrays |= {f"flights.{row}.{name}": value.copy() for name, value in parts.items()}
        return arrays

    def tables(self) -> list[dict[str, object]]:
        """Return what a snapshot's header says of each selection, as JSON knows it."""
        return [
            {
                "index": selection.index,
                "version": selection.version,
                "since": selection.since,
                "skipped": selection.skipped,
                "full": selection.cohort.full,
                "mass": selection.cohort.mass,
                "expected_size": selection.cohort.expected_size,
            }
            for selection in self.selections
        ]

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], tables: Sequence[StoredTable], n_clients: int) -> Flights:
        """Return what :meth:`arrays` and :meth:`tables` described; refuse unknown clients, and one in flight twice."""
        selections = []
        for row, table in enumerate(tables):
            selections.append(_restored_selection(snapshot.part(arrays, f"flights.{row}."), table, n_clients))
        flights = cls(selections)
        if np.unique(flights.ids).size < flights.ids.size:
            raise StorageError("Snapshot has a client in flight twice.")
        return flights


def _restored_selection(parts: Mapping[str, Array], table: StoredTable, n_clients: int) -> Dispatched:
    """Read one selection of a snapshot."""
    cohort = Cohort(
        ids=parts["ids"],
        weights=parts["weights"],
        groups=parts.get("groups"),
        full=bool(table["full"]),
        mass=table["mass"],
        expected_size=table["expected_size"],
    )
    in_flight = np.asarray(parts["in_flight"], bool)
    has_ended = np.asarray(parts["ended"], bool)
    has_other_shape = in_flight.shape != cohort.ids.shape or has_ended.shape != cohort.ids.shape
    if has_other_shape or (cohort.ids >= n_clients).any():
        raise StorageError("Snapshot has work in flight of clients that are not known.")
    since = table["since"]
    if since is not None:
        since = float(since)
    return Dispatched(
        index=int(table["index"]),
        version=int(table["version"]),
        cohort=cohort,
        since=since,
        skipped=bool(table["skipped"]),
        in_flight=in_flight,
        has_ended=has_ended,
    )


@dataclass(frozen=True, eq=False)
class Arrived:
    """Updates that have arrived, as they are handed over.

    Attributes:
        ids: clients in flight, in any order.
        reports: rows by signal.
        discounts: one factor per id, where any update counts less.
        durations: seconds per id, where there is a clock.
        blamed: clients in flight that sent an unsound update, and why.
    """

    ids: Ids
    reports: Reports
    discounts: Floats | None
    durations: Floats | None
    blamed: Mapping[int, str]


@dataclass(frozen=True, eq=False)
class Received:
    """A step as it was made.

    Attributes:
        version: of the model before it.
        ids: whose updates are used, by selection and then by their place in the cohort; nobody, if fewer than the
            minimum arrived.
        weights: of each of ``ids``.
        staleness: of each of ``ids``, in versions.
        durations: of each of ``ids``, in seconds; NaN where there is no clock.
        discounts: of all that arrived; None where each counts fully.
        normalise: the rule for the weights.
        arrived: whose updates arrived.
        cohort: everybody whose work ended since the last step.
        blamed: clients whose updates are unsound, and why.
        excused: of these, whose refused update is no strike.
        rejected: clients of whom something was withheld from the method, and why.
        guarded: what the guards did.
        notes: of the weights.
    """

    version: int
    ids: Ids
    weights: Floats
    staleness: Ids
    durations: Floats
    discounts: Floats | None
    normalise: Normalise
    arrived: Ids
    cohort: Cohort
    blamed: Mapping[int, str]
    excused: Collection[int]
    rejected: Mapping[int, str]
    guarded: Notes
    notes: Notes


@dataclass(frozen=True, eq=False)
class StepWeights:
    """What the updates of a step weigh.

    Attributes:
        cohort: everybody whose work ends with the step; with the weights that are used, 0 for those without an update.
        weights: of those whose updates are used, in their order.
        notes: what the record says of it.
        skipped: whether the method chose nobody, so that there is nothing to observe.
    """

    cohort: Cohort
    weights: Floats
    notes: Notes
    skipped: bool


@dataclass(frozen=True, eq=False)
class _Ending:
    """A selection of which work ends with a step; ``is_ending`` is a mask (k,) of the members whose work does."""

    selection: Dispatched
    is_ending: Array

    def cohort(self) -> Cohort:
        """Return the members whose work ends with the step as a cohort."""
        cohort = self.selection.cohort
        groups = None
        if cohort.groups is not None:
            groups = cohort.groups[self.is_ending]
        return Cohort(cohort.ids[self.is_ending], cohort.weights[self.is_ending], groups=groups, mass=cohort.mass)


def discounted(discounts: Floats | None) -> bool:
    """Tell whether any update counts less than a fresh one."""
    return discounts is not None and bool(np.any(discounts != 1.0))


def _mixed(ending: Sequence[_Ending], used_ids: Ids, discounts: Floats | None, normalise: Normalise) -> StepWeights:
    """Weigh a step that mixes selections.

    The weight of a client is a_k times the size of its selection, discounted, by the number of those whose work ends.
    """
    n_ending = sum(int(part.is_ending.sum()) for part in ending)
    member_parts = [NOBODY]
    weight_parts = [np.empty(0)]
    notes: Notes = {}
    for part in ending:
        cohort = part.cohort()
        is_used = _among(cohort.ids, used_ids)
        weights, remarks = cohort.weights_of(cohort.ids[is_used])
        notes |= remarks
        every_weight = np.zeros(cohort.ids.size)
        every_weight[is_used] = weights * (part.selection.cohort.ids.size / n_ending)
        member_parts.append(cohort.ids)
        weight_parts.append(every_weight)
    members = np.concatenate(member_parts)
    weights = np.concatenate(weight_parts)
    if discounts is not None:
        is_used = _among(members, used_ids)
        weights[is_used] *= _values_of(members[is_used], used_ids, discounts)
    mass: Literal["one", "expected"] = "one"
    if any(part.selection.cohort.mass == "expected" for part in ending):
        mass = "expected"
    if normalise == "mass" and mass == "one" and weights.sum() > 0:
        weights = rescaled(weights, 1.0)
    cohort = Cohort(members, weights, mass=mass)
    return StepWeights(
        cohort=cohort, weights=_values_of(used_ids, members, weights), notes=notes, skipped=not members.size
    )


def _values_of(ids: Ids, owners: Ids, values: Floats) -> Floats:
    """Return the value of each of ``ids``, where ``values`` belong to ``owners``, in any order."""
    if not ids.size:
        return np.empty(0)
    order = np.argsort(owners)
    found_values: Floats = values[order[np.searchsorted(owners[order], ids)]]
    return found_values
