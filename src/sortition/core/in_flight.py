"""Clients at work: whom each selection sent to train, who of them is in flight, and what their updates weigh."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_read_only
from sortition.core.cohort import NOBODY, Cohort, Notes, rescale
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot
from sortition.core.storage.snapshot import StoredTable

if TYPE_CHECKING:
    from sortition.core.observer import Reports

Normalise = Literal["mass", "count"]
NORMALISE = ("mass", "count")


@dataclass(frozen=True, eq=False)
class DispatchedSelection:
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
    def start(
        cls, *, index: int, version: int, cohort: Cohort, since: float | None, skipped: bool
    ) -> DispatchedSelection:
        """Return a selection that has just been sent to work: all members of its cohort are in flight."""
        return cls(
            index=index,
            version=version,
            cohort=cohort,
            since=since,
            skipped=skipped,
            in_flight=np.ones(cohort.ids.size, bool),
            has_ended=np.zeros(cohort.ids.size, bool),
        )

    def after_giving_up(self, places: list[int]) -> DispatchedSelection:
        """Return the selection after the work of the members in these places has ended without an update."""
        ends_now = self.mask_of(places)
        return replace(self, in_flight=self.in_flight & ~ends_now, has_ended=self.has_ended | ends_now)

    def after_step(self, used_places: list[int]) -> DispatchedSelection:
        """Return the selection after a step that used the updates of the members in these places."""
        still_in_flight = self.in_flight & ~self.mask_of(used_places)
        return replace(self, in_flight=still_in_flight, has_ended=np.zeros(still_in_flight.size, bool))

    def mask_of(self, places: list[int]) -> Array:
        """Return a mask (k,) of the members in these places."""
        mask = np.zeros(self.cohort.ids.size, bool)
        mask[places] = True
        return mask


class Flights:
    """All work in flight. It never changes: each method that changes something returns a new object.

    Attributes:
        selections: those with work that a step has not ended yet, the oldest first.
        ids: sorted ids of the clients that are at work.
        ended_ids: sorted ids of the clients whose work ended since the last step without an update.
    """

    def __init__(self, selections: Sequence[DispatchedSelection] = ()) -> None:
        self.selections = tuple(selections)
        members = [selection.cohort.ids[selection.in_flight] for selection in self.selections]
        locations = [
            _make_locations(row, np.flatnonzero(selection.in_flight)) for row, selection in enumerate(self.selections)
        ]
        everybody = np.concatenate([NOBODY, *members])
        order = np.argsort(everybody, kind="stable")
        self.ids: Ids = as_read_only(everybody[order])
        # (2, n) of each of `ids`: the row of its selection, and its place in the cohort
        self._locations: Ids = np.concatenate([_make_locations(0, NOBODY), *locations], axis=1)[:, order]
        ids_with_end = [selection.cohort.ids[selection.has_ended] for selection in self.selections]
        self.ended_ids: Ids = np.sort(np.concatenate([NOBODY, *ids_with_end]))
        self._rows_with_ended = frozenset(row for row, ids in enumerate(ids_with_end) if ids.size)

    @classmethod
    def _of_sorted(
        cls,
        selections: Sequence[DispatchedSelection],
        *,
        ids: Ids,
        locations: Ids,
        ended_ids: Ids,
        rows_with_ended: frozenset[int],
    ) -> Flights:
        """Return work whose sorted ids are known: neither a refill nor a step looks at every selection."""
        flights = object.__new__(cls)
        flights.selections = tuple(selections)
        flights.ids = as_read_only(ids)
        flights._locations = locations
        flights.ended_ids = ended_ids
        flights._rows_with_ended = rows_with_ended
        return flights

    def with_selection(self, selection: DispatchedSelection) -> Flights:
        """Return the work in flight with one more selection, all of whose members are at work."""
        members = selection.cohort.ids
        everybody = np.concatenate([self.ids, members])
        locations = np.concatenate(
            [self._locations, _make_locations(len(self.selections), np.arange(members.size))], axis=1
        )
        order = np.argsort(everybody, kind="stable")
        return self._of_sorted(
            (*self.selections, selection),
            ids=everybody[order],
            locations=locations[:, order],
            ended_ids=self.ended_ids,
            rows_with_ended=self._rows_with_ended,
        )

    def after_giving_up(self, ids: Ids) -> Flights:
        """Return the work in flight after that of these clients has ended without an update."""
        if not ids.size:
            return self
        places_by_row = self._places_by_row(ids)
        selections = list(self.selections)
        for row, places in places_by_row.items():
            selections[row] = selections[row].after_giving_up(places)
        goes_on = self._goes_on_without(ids)
        return self._of_sorted(
            selections,
            ids=self.ids[goes_on],
            locations=self._locations[:, goes_on],
            ended_ids=np.union1d(self.ended_ids, ids),
            rows_with_ended=self._rows_with_ended | places_by_row.keys(),
        )

    def after_step(self, used_ids: Ids) -> Flights:
        """Return the work after a step that used these updates; selections without anybody at work are forgotten."""
        goes_on = self._goes_on_without(used_ids)
        locations = self._locations[:, goes_on]
        has_work = np.bincount(locations[0], minlength=len(self.selections)) > 0
        selections = list(self.selections)
        for row, used_places in self._places_ending_with(used_ids):
            if has_work[row]:
                selections[row] = selections[row].after_step(used_places)
        row_after_step = np.cumsum(has_work) - 1
        locations[0] = row_after_step[locations[0]]
        return self._of_sorted(
            list(compress(selections, has_work.tolist())),
            ids=self.ids[goes_on],
            locations=locations,
            ended_ids=NOBODY,
            rows_with_ended=frozenset(),
        )

    def _goes_on_without(self, ended_ids: Ids) -> Array:
        """Return a mask of ``ids``: whose work goes on when that of these clients ends."""
        goes_on = np.ones(self.ids.size, bool)
        goes_on[self.ids.searchsorted(ended_ids)] = False
        return goes_on

    def _locate(self, ids: Ids) -> Ids:
        """Return, of each of these clients in flight, the row of its selection and its place in the cohort (2, k)."""
        return self._locations[:, self.ids.searchsorted(ids)]

    def _places_by_row(self, ids: Ids) -> dict[int, list[int]]:
        """Return the places of these clients in their cohorts, by the row of the selection."""
        places_by_row: dict[int, list[int]] = {}
        for row, place in self._locate(ids).T.tolist():
            places_by_row.setdefault(row, []).append(place)
        return places_by_row

    def _places_ending_with(self, used_ids: Ids) -> list[tuple[int, list[int]]]:
        """Return the selections of which work ends with a step of these updates, the oldest first.

        Each is the row of the selection, and the places of those of its members whose updates are used.
        """
        places_by_row = self._places_by_row(used_ids)
        for row in self._rows_with_ended:
            places_by_row.setdefault(row, [])
        return sorted(places_by_row.items())

    def not_in_flight(self, ids: Ids) -> Ids:
        """Return those of ``ids`` that are not in flight."""
        if not self.ids.size:
            return ids
        positions = np.minimum(self.ids.searchsorted(ids), self.ids.size - 1)
        outside: Ids = ids[self.ids[positions] != ids]
        return outside

    def staleness(self, ids: Ids, version: int) -> Ids:
        """Return how many versions were made since each of these was sent to work."""
        if not ids.size:
            return NOBODY
        selection_rows, _ = self._locate(ids)
        versions = [self.selections[row].version for row in selection_rows.tolist()]
        return version - np.array(versions, np.int64)

    def sort_by_selection(self, ids: Ids) -> Ids:
        """Return these clients by selection, then by their place in the cohort, whatever the order of arrival."""
        selection_row, place = self._locate(ids)
        return ids[np.lexsort((place, selection_row))]

    def weigh(self, used_ids: Ids, discounts: Floats | None, normalise: Normalise) -> StepWeights:
        """Weigh a step that uses the updates of these clients, and collect the cohort of all whose work ends with it.

        The rule is in docs/design.md ("Weights of a step"). One selection whose members all end with this step, none of
        them discounted, has the weights of its cohort.
        """
        ending = []
        for row, used_places in self._places_ending_with(used_ids):
            ending.append(_EndingMembers.of(self.selections[row], used_places))
        ended_selection = self._wholly_ended(ending)
        if ended_selection is not None and (not used_ids.size or not has_discounts(discounts)):
            cohort = ended_selection.cohort
            weights, notes = cohort.weights_of(used_ids)
            return StepWeights(cohort=cohort, weights=weights, notes=notes, skipped=ended_selection.skipped)
        return _weigh_mixed(ending, used_ids, discounts, normalise)

    def _wholly_ended(self, ending: Sequence[_EndingMembers]) -> DispatchedSelection | None:
        """Return the one selection whose members all end with this step; None where the step mixes selections."""
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
            selections.append(_restored_selection(snapshot.take_part(arrays, f"flights.{row}."), table, n_clients))
        flights = cls(selections)
        if np.unique(flights.ids).size < flights.ids.size:
            raise StorageError("Snapshot has a client in flight twice.")
        return flights


def _make_locations(row: int, places: Ids) -> Ids:
    """Return where members of one selection are (2, k): its row, and their places in the cohort."""
    locations = np.empty((2, places.size), np.int64)
    locations[0] = row
    locations[1] = places
    return locations


def _restored_selection(parts: Mapping[str, Array], table: StoredTable, n_clients: int) -> DispatchedSelection:
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
    return DispatchedSelection(
        index=int(table["index"]),
        version=int(table["version"]),
        cohort=cohort,
        since=since,
        skipped=bool(table["skipped"]),
        in_flight=in_flight,
        has_ended=has_ended,
    )


@dataclass(frozen=True, eq=False)
class ArrivedUpdates:
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
class ServerStep:
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
class _EndingMembers:
    """The members of one selection whose work ends with a step.

    Attributes:
        selection: the selection.
        is_ending: a mask (k,) of the members whose work ends.
        is_used: a mask of these members: whose updates are used.
    """

    selection: DispatchedSelection
    is_ending: Array
    is_used: Array

    @classmethod
    def of(cls, selection: DispatchedSelection, used_places: list[int]) -> _EndingMembers:
        """Return the members whose work ends with a step that uses the updates of the members in these places."""
        is_used = selection.mask_of(used_places)
        is_ending = selection.has_ended | is_used
        return cls(selection, is_ending, is_used[is_ending])

    @property
    def members(self) -> Ids:
        """The members whose work ends."""
        return self.selection.cohort.ids[self.is_ending]

    def shares(self) -> tuple[Floats, Notes]:
        """Return what each of these members weighs in its own selection, 0 where no update is used, and notes."""
        cohort = self.selection.cohort
        weights = cohort.weights[self.is_ending]
        if self.is_used.all():
            return weights, {}
        groups = None
        if cohort.groups is not None:
            groups = cohort.groups[self.is_ending]
        part = Cohort(self.members, weights, groups=groups, mass=cohort.mass)
        shares = np.zeros(weights.size)
        shares[self.is_used], notes = part.weights_of(part.ids[self.is_used])
        return shares, notes


def has_discounts(discounts: Floats | None) -> bool:
    """Tell whether any update counts less than a fresh one."""
    return discounts is not None and bool(np.any(discounts != 1.0))


def _weigh_mixed(
    ending: Sequence[_EndingMembers], used_ids: Ids, discounts: Floats | None, normalise: Normalise
) -> StepWeights:
    """Weigh a step that mixes selections: a client weighs a_k · |S| / n, times its discount.

    a_k is its weight in its own selection S, and n the number of clients whose work ends with this step.
    """
    n_ending = sum(part.is_used.size for part in ending)
    weight_parts = [np.empty(0)]
    notes: Notes = {}
    for part in ending:
        shares, remarks = part.shares()
        notes |= remarks
        weight_parts.append(shares * (part.selection.cohort.ids.size / n_ending))
    members = np.concatenate([NOBODY, *(part.members for part in ending)])
    weights = np.concatenate(weight_parts)
    if discounts is not None:
        is_used = np.concatenate([np.empty(0, bool), *(part.is_used for part in ending)])
        weights[is_used] *= _look_up_values(members[is_used], used_ids, discounts)
    mass: Literal["one", "expected"] = "one"
    if any(part.selection.cohort.mass == "expected" for part in ending):
        mass = "expected"
    if normalise == "mass" and mass == "one" and weights.sum() > 0:
        weights = rescale(weights, 1.0)
    cohort = Cohort(members, weights, mass=mass)
    return StepWeights(
        cohort=cohort, weights=_look_up_values(used_ids, members, weights), notes=notes, skipped=not members.size
    )


def _look_up_values(ids: Ids, all_ids: Ids, values: Floats) -> Floats:
    """Return the value of each of ``ids``; ``values`` are those of ``all_ids``, in its order."""
    if np.array_equal(ids, all_ids):
        return values.copy()
    if not ids.size:
        return np.empty(0)
    order = np.argsort(all_ids)
    positions = order[np.searchsorted(all_ids[order], ids)]
    return np.asarray(values[positions])
