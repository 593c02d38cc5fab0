"""Clients at work: whom each selection sent to train, who of them is in flight, and what their updates weigh."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_read_only, find_outside, mask_others
from sortition.core.cohort import NOBODY, Cohort, Notes, make_unchecked_cohort, rescale
from sortition.core.errors import StorageError, bad
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
    """

    index: int
    version: int
    cohort: Cohort
    since: float | None
    skipped: bool


class _Members(NamedTuple):
    """Members of selections, by id.

    Attributes:
        ids: (n,) sorted.
        rows: (n,) the row of each member's selection.
        places: (n,) the place of each in the cohort of its selection.
    """

    ids: Ids
    rows: Ids
    places: Ids

    @classmethod
    def of(cls, parts: Sequence[_Members]) -> _Members:
        """Return the members of all parts; nobody is in two of them."""
        ids = np.concatenate([part.ids for part in parts])
        order = ids.argsort(kind="stable")
        rows = np.concatenate([part.rows for part in parts])[order]
        places = np.concatenate([part.places for part in parts])[order]
        return cls(as_read_only(ids[order]), rows, places)

    @classmethod
    def of_cohort(cls, row: int, cohort: Cohort, places: Ids) -> _Members:
        """Return the members in these places of the cohort in this row; they are not sorted."""
        return cls(cohort.ids[places], np.full(places.size, row), places)

    def of_ids(self, ids: Ids) -> _Members:
        """Return these members, all of whom are here, in the order of ``ids``."""
        positions = self.ids.searchsorted(ids)
        return _Members(ids, self.rows[positions], self.places[positions])

    def without(self, ids: Ids) -> _Members:
        """Return the others; ``ids`` are all here."""
        is_other = mask_others(self.ids, ids)
        return _Members(as_read_only(self.ids[is_other]), self.rows[is_other], self.places[is_other])

    def selection_order(self) -> Ids:
        """Return the positions of the members in the order of their selections, then of their places."""
        return np.lexsort((self.places, self.rows))

    def mask(self, row: int, size: int) -> Array:
        """Return a mask (size,) of the places of the selection in this row that its members here have."""
        mask = np.zeros(size, bool)
        mask[self.places[self.rows == row]] = True
        return mask


_NO_MEMBERS = _Members(NOBODY, NOBODY, NOBODY)


class Flights:
    """All work in flight. It never changes: each method that changes something returns a new object.

    Attributes:
        selections: those with work that a step has not ended yet, the oldest first.
    """

    def __init__(
        self,
        selections: Sequence[DispatchedSelection] = (),
        at_work: _Members = _NO_MEMBERS,
        ended: _Members = _NO_MEMBERS,
    ) -> None:
        self.selections = tuple(selections)
        self._at_work = at_work
        self._ended = ended  # since the last step, without an update

    @property
    def ids(self) -> Ids:
        """Sorted ids of the clients that are at work."""
        return self._at_work.ids

    @property
    def ended_ids(self) -> Ids:
        """Sorted ids of the clients whose work ended since the last step without an update."""
        return self._ended.ids

    def with_selection(self, selection: DispatchedSelection) -> Flights:
        """Return the work in flight with one more selection, all of whose members are at work."""
        places = np.arange(selection.cohort.ids.size)
        members = _Members.of_cohort(len(self.selections), selection.cohort, places)
        return Flights((*self.selections, selection), _Members.of([self._at_work, members]), self._ended)

    def after_giving_up(self, ids: Ids) -> Flights:
        """Return the work in flight after that of these clients has ended without an update."""
        if not ids.size:
            return self
        ended_members = _Members.of([self._ended, self._at_work.of_ids(ids)])
        return Flights(self.selections, self._at_work.without(ids), ended_members)

    def after_step(self, used_ids: Ids) -> Flights:
        """Return the work after a step that used these updates; selections without anybody at work are forgotten."""
        ids, rows, places = self._at_work.without(used_ids)
        has_work = np.bincount(rows, minlength=len(self.selections)) > 0
        if has_work.all():
            return Flights(self.selections, _Members(ids, rows, places))
        rows_after_step = has_work.cumsum() - 1
        selections = compress(self.selections, has_work.tolist())
        return Flights(tuple(selections), _Members(ids, rows_after_step[rows], places))

    def not_in_flight(self, ids: Ids) -> Ids:
        """Return those of ``ids`` that are not in flight."""
        return find_outside(ids, self.ids)

    def staleness(self, ids: Ids, version: int) -> Ids:
        """Return how many versions were made since each of these was sent to work."""
        if not ids.size:
            return NOBODY
        rows = self._at_work.of_ids(ids).rows.tolist()
        return version - np.array([self.selections[row].version for row in rows], np.int64)

    def selection_order(self, ids: Ids) -> Ids:
        """Return positions in ``ids``, by selection and then by place in the cohort, whatever the order of arrival."""
        return self._at_work.of_ids(ids).selection_order()

    def sort_by_selection(self, ids: Ids) -> Ids:
        """Return these clients by selection and then by place in the cohort."""
        return ids[self.selection_order(ids)]

    def weigh(self, used_ids: Ids, discounts: Floats | None, normalise: Normalise) -> StepWeights:
        """Weigh a step that uses the updates of these clients, and collect the cohort of all whose work ends with it.

        The rule is in docs/design.md ("Weights of a step"). One selection whose members all end with this step, none of
        them discounted, has the weights of its cohort.
        """
        ending = self._ending_with(used_ids)
        ended_selection = self._wholly_ended(ending)
        if ended_selection is not None and (not used_ids.size or not has_discounts(discounts)):
            cohort = ended_selection.cohort
            weights, notes = cohort.weights_of(used_ids)
            return StepWeights(cohort=cohort, weights=weights, notes=notes, skipped=ended_selection.skipped)
        return _weigh_mixed(ending, used_ids, discounts, normalise)

    def _ending_with(self, used_ids: Ids) -> list[_EndingMembers]:
        """Return the selections of which work ends with a step of these updates, the oldest first."""
        members = self._at_work.of_ids(used_ids)
        if self._ended.ids.size:
            columns = zip(members, self._ended, strict=True)
            members = _Members(*(np.concatenate(column) for column in columns))
        if not members.ids.size:
            return []
        order = members.selection_order()
        rows = members.rows[order]
        places = members.places[order]
        is_used = order < used_ids.size
        first_of_others = 1 + np.flatnonzero(rows[1:] != rows[:-1])
        ending = []
        for start, stop in pairwise([0, *first_of_others.tolist(), rows.size]):
            selection = self.selections[rows[start]]
            ending.append(_EndingMembers(selection, places[start:stop], is_used[start:stop]))
        return ending

    def _wholly_ended(self, ending: Sequence[_EndingMembers]) -> DispatchedSelection | None:
        """Return the one selection whose members all end with this step; None where the step mixes selections."""
        if len(ending) == 1 and ending[0].places.size == ending[0].selection.cohort.ids.size:
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
                "in_flight": self._at_work.mask(row, cohort.ids.size),
                "ended": self._ended.mask(row, cohort.ids.size),
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
        at_work_parts = [_NO_MEMBERS]
        ended_parts = [_NO_MEMBERS]
        for row, table in enumerate(tables):
            parts = snapshot.take_part(arrays, f"flights.{row}.")
            selection = _restored_selection(parts, table, n_clients)
            selections.append(selection)
            at_work_parts.append(_Members.of_cohort(row, selection.cohort, np.flatnonzero(parts["in_flight"])))
            ended_parts.append(_Members.of_cohort(row, selection.cohort, np.flatnonzero(parts["ended"])))
        flights = cls(selections, _Members.of(at_work_parts), _Members.of(ended_parts))
        if np.unique(flights.ids).size < flights.ids.size:
            raise StorageError("Snapshot has a client in flight twice.")
        return flights


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
    has_other_shape = any(parts[name].shape != cohort.ids.shape for name in ("in_flight", "ended"))
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


class _EndingMembers(NamedTuple):
    """The members of one selection whose work ends with a step.

    Attributes:
        selection: the selection.
        places: (k,) the places in its cohort of the members whose work ends, rising.
        is_used: a mask (k,) of these members: whose updates are used.
    """

    selection: DispatchedSelection
    places: Ids
    is_used: Array

    @property
    def members(self) -> Ids:
        """The members whose work ends."""
        return self.selection.cohort.ids[self.places]

    def shares(self) -> tuple[Floats, Notes]:
        """Return what each of these members weighs in its own selection, 0 where no update is used, and notes."""
        cohort = self.selection.cohort
        weights = cohort.weights[self.places]
        if self.is_used.all():
            return weights, {}
        groups = None
        if cohort.groups is not None:
            groups = cohort.groups[self.places]
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
    members = np.concatenate([NOBODY, *(part.members for part in ending)])
    everybody_is_used = used_ids.size == members.size
    weights, notes = _undiscounted_weights(ending, n_ending=members.size, everybody_is_used=everybody_is_used)
    is_in_order = everybody_is_used and bool((members == used_ids).all())
    if discounts is not None and is_in_order:
        weights *= discounts
    elif discounts is not None:
        is_used = np.concatenate([np.empty(0, bool), *(part.is_used for part in ending)])
        weights[is_used] *= _look_up_values(members[is_used], used_ids, discounts)
    mass: Literal["one", "expected"] = "one"
    if any(part.selection.cohort.mass == "expected" for part in ending):
        mass = "expected"
    total = float(weights.sum())
    if not 0 <= total < math.inf:
        raise bad("discounts", "finite and ≥ 0", discounts)
    if normalise == "mass" and mass == "one" and total > 0:
        weights = rescale(weights, 1.0)
    cohort = make_unchecked_cohort(members, weights, mass=mass)
    used_weights = weights.copy()
    if not is_in_order:
        used_weights = _look_up_values(used_ids, members, weights)
    return StepWeights(cohort=cohort, weights=used_weights, notes=notes, skipped=not members.size)


def _undiscounted_weights(
    ending: Sequence[_EndingMembers], *, n_ending: int, everybody_is_used: bool
) -> tuple[Floats, Notes]:
    """Return a_k · |S| / n of all members whose work ends, 0 where no update is used, and notes."""
    weight_parts = [np.empty(0)]
    notes: Notes = {}
    for part in ending:
        if everybody_is_used:
            shares = part.selection.cohort.weights[part.places]
        else:
            shares, remarks = part.shares()
            notes |= remarks
        weight_parts.append(shares * (part.selection.cohort.ids.size / n_ending))
    return np.concatenate(weight_parts), notes


def _look_up_values(ids: Ids, all_ids: Ids, values: Floats) -> Floats:
    """Return the value of each of ``ids``; ``values`` are those of ``all_ids``, in its order."""
    if not ids.size:
        return np.empty(0)
    order = np.argsort(all_ids)
    positions = order[np.searchsorted(all_ids[order], ids)]
    return np.asarray(values[positions])
