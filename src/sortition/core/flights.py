"""Clients at work: whom each selection sent to train, who of them is in flight, and what their updates weigh."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, frozen
from sortition.core.errors import StorageError
from sortition.core.rounds import Cohort, rescaled

Normalise = Literal["mass", "count"]
NORMALISE = ("mass", "count")


FEW = 256  # ids for which a set is faster than a sort


def _among(ids: Ids, others: Ids) -> Array:
    """(k,) which of ``ids`` are among the others."""
    if ids.size > FEW or others.size > 16 * FEW:
        return np.isin(ids, others)
    lookup = set(others.tolist())
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
        in_flight: (k,) who of the cohort is at work.
        ended: (k,) whose work ended since the last step without an update that is used.
    """

    index: int
    version: int
    cohort: Cohort
    since: float | None
    skipped: bool
    in_flight: Array
    ended: Array

    @classmethod
    def begun(cls, index: int, version: int, cohort: Cohort, since: float | None, *, skipped: bool) -> Dispatched:
        """All members of a cohort at work."""
        nobody = np.zeros(cohort.ids.size, bool)
        return cls(index, version, cohort, since, skipped, ~nobody, nobody)

    def given_up(self, ids: Ids) -> Dispatched:
        """The same when the work of these members has ended without an update."""
        gone = _among(self.cohort.ids, ids) & self.in_flight
        return replace(self, in_flight=self.in_flight & ~gone, ended=self.ended | gone)

    def stepped(self, used: Ids) -> Dispatched:
        """The same after a step that used the updates of these."""
        left = self.in_flight & ~_among(self.cohort.ids, used)
        return replace(self, in_flight=left, ended=np.zeros(left.size, bool))

    def resolved(self, used: Ids) -> Array:
        """(k,) whose work ends with a step that uses the updates of these."""
        return self.ended | (self.in_flight & _among(self.cohort.ids, used))


class Flights:
    """All work in flight. A change gives a new object: whoever holds the old one sees nothing of it."""

    def __init__(self, selections: Sequence[Dispatched] = ()) -> None:
        self.selections = tuple(selections)
        members = [selection.cohort.ids[selection.in_flight] for selection in self.selections]
        owners = [np.full(ids.size, row) for row, ids in enumerate(members)]
        everybody = np.concatenate([np.empty(0, np.int64), *members])
        order = np.argsort(everybody, kind="stable")
        self.ids: Ids = frozen(everybody[order])
        self._row: Ids = np.concatenate([np.empty(0, np.int64), *owners])[order]

    @property
    def ended(self) -> Ids:
        """Sorted ids of the clients whose work ended since the last step without an update."""
        parts = [selection.cohort.ids[selection.ended] for selection in self.selections]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))

    def with_selection(self, selection: Dispatched) -> Flights:
        """With one more cohort at work."""
        return Flights([*self.selections, selection])

    def given_up(self, ids: Ids) -> Flights:
        """Without the work of these clients."""
        rows = set(self._rows_of(ids).tolist())
        return Flights([s.given_up(ids) if row in rows else s for row, s in enumerate(self.selections)])

    def stepped(self, used: Ids) -> Flights:
        """After a step that used the updates of these; selections without anybody at work are forgotten."""
        touched = set(self._rows_of(used).tolist())
        after = []
        for row, selection in enumerate(self.selections):
            if row in touched or selection.ended.any():
                after.append(selection.stepped(used))
            elif selection.in_flight.any():
                after.append(selection)
        return Flights([selection for selection in after if selection.in_flight.any()])

    def missing(self, ids: Ids) -> Ids:
        """The ones of ``ids`` that are not in flight."""
        if not self.ids.size:
            return ids
        rows = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        not_in_flight: Ids = ids[self.ids[rows] != ids]
        return not_in_flight

    def staleness(self, ids: Ids, version: int) -> Ids:
        """How many versions were made since each of these was sent to work."""
        versions = np.array([selection.version for selection in self.selections], np.int64)
        return version - versions[self._rows_of(ids)] if ids.size else np.empty(0, np.int64)

    def in_order(self, ids: Ids) -> Ids:
        """The same clients by selection, then by their place in the cohort, whatever the order of arrival."""
        rows = self._rows_of(ids)
        parts = [ids[:0]]
        for row in np.unique(rows).tolist():
            members = self.selections[row].cohort.ids
            parts.append(members[_among(members, ids[rows == row])])
        return np.concatenate(parts)

    def _rows_of(self, ids: Ids) -> Ids:
        return self._row[np.searchsorted(self.ids, ids)]

    def weigh(self, used: Ids, discounts: Floats | None, normalise: Normalise) -> StepWeights:
        """The weights of a step that uses the updates of these, and the cohort of all whose work ends with it.

        The rule is in docs/design.md ("Weights of a step"). One selection whose members all end with this step, none of
        them discounted, has the weights of its cohort.
        """
        touched = set(self._rows_of(used).tolist())
        ending = []
        for row, selection in enumerate(self.selections):
            if row in touched or selection.ended.any():
                ending.append((selection, selection.resolved(used)))
        latest = self.selections[-1] if self.selections else None
        alone = len(ending) == 1 and bool(ending[0][1].all())
        nobody = not ending and latest is not None and not self.ids.size
        if alone or nobody:
            whole = ending[0][0] if alone else latest
            if whole is not None and (not discounted(discounts) or not used.size):
                weights, notes = whole.cohort.weights_of(used)
                return StepWeights(whole.cohort, weights, notes, whole)
        return _mixed(ending, used, discounts, normalise)


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
    reports: Mapping[str, Any]
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
        weights: theirs.
        staleness: theirs.
        durations: theirs, in seconds; NaN where there is no clock.
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
    guarded: Mapping[str, Any]
    notes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StepWeights:
    """What the updates of a step weigh.

    Attributes:
        cohort: everybody whose work ends with the step; with the weights that are used, 0 for those without an update.
        weights: of those whose updates are used, in their order.
        notes: what the record says of it.
        whole: the selection, where the step is made of one that ends with it.
    """

    cohort: Cohort
    weights: Floats
    notes: dict[str, Any]
    whole: Dispatched | None = None


def discounted(discounts: Floats | None) -> bool:
    """Whether any update counts less than a fresh one."""
    return discounts is not None and bool(np.any(discounts != 1.0))


def _mixed(
    ending: Sequence[tuple[Dispatched, Array]], used: Ids, discounts: Floats | None, normalise: Normalise
) -> StepWeights:
    """A step that mixes selections: a_k times the size of its selection, discounted, by the number of those ending."""
    count = sum(int(mask.sum()) for _, mask in ending)
    expected = any(selection.cohort.mass == "expected" for selection, _ in ending)
    ids = [np.empty(0, np.int64)]
    base = [np.empty(0)]
    notes: dict[str, Any] = {}
    for selection, mask in ending:
        cohort = selection.cohort
        part = Cohort(
            cohort.ids[mask],
            cohort.weights[mask],
            groups=None if cohort.groups is None else cohort.groups[mask],
            mass=cohort.mass,
        )
        answered = part.ids[_among(part.ids, used)]
        weights, remarks = part.weights_of(answered)
        notes |= remarks
        every_weight = np.zeros(part.ids.size)
        every_weight[_among(part.ids, answered)] = weights * (cohort.ids.size / count)
        ids.append(part.ids)
        base.append(every_weight)
    members = np.concatenate(ids)
    weights = np.concatenate(base)
    completed = _among(members, used)
    if discounts is not None:
        order = np.argsort(used)
        weights[completed] *= discounts[order[np.searchsorted(used[order], members[completed])]]
    if normalise == "mass" and not expected and weights.sum() > 0:
        weights = rescaled(weights, 1.0)
    cohort = Cohort(members, weights, mass="expected" if expected else "one")
    order = np.argsort(members)
    used_weights = weights[order[np.searchsorted(members[order], used)]] if used.size else np.empty(0)
    return StepWeights(cohort, used_weights, notes)


# -- in a snapshot -----------------------------------------------------------------------------------------------------


def export_flights(flights: Flights) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Work in flight as named arrays and a JSON-able list, one table a selection."""
    arrays: dict[str, Array] = {}
    tables: list[dict[str, Any]] = []
    for row, selection in enumerate(flights.selections):
        cohort = selection.cohort
        parts = {
            "ids": cohort.ids,
            "weights": cohort.weights,
            "in_flight": selection.in_flight,
            "ended": selection.ended,
        }
        if cohort.groups is not None:
            parts["groups"] = cohort.groups
        arrays |= {f"flights.{row}.{name}": value.copy() for name, value in parts.items()}
        tables.append(
            {
                "index": selection.index,
                "version": selection.version,
                "since": selection.since,
                "skipped": selection.skipped,
                "full": cohort.full,
                "mass": cohort.mass,
                "expected_size": cohort.expected_size,
            }
        )
    return arrays, tables


def restore_flights(arrays: Mapping[str, Array], tables: Sequence[Mapping[str, Any]], clients: int) -> Flights:
    """What :func:`export_flights` gave; refused where it is of clients that are not known, or of one client twice."""
    selections: list[Dispatched] = []
    for row, table in enumerate(tables):
        cohort = Cohort(
            arrays[f"flights.{row}.ids"],
            arrays[f"flights.{row}.weights"],
            groups=arrays.get(f"flights.{row}.groups"),
            full=bool(table["full"]),
            mass=table["mass"],
            expected_size=table["expected_size"],
        )
        masks = [np.asarray(arrays[f"flights.{row}.{name}"], bool) for name in ("in_flight", "ended")]
        if any(mask.shape != cohort.ids.shape for mask in masks) or (cohort.ids >= clients).any():
            raise StorageError("Snapshot has work in flight of clients that are not known.")
        selections.append(
            Dispatched(
                index=int(table["index"]),
                version=int(table["version"]),
                cohort=cohort,
                since=None if table["since"] is None else float(table["since"]),
                skipped=bool(table["skipped"]),
                in_flight=masks[0],
                ended=masks[1],
            )
        )
    flights = Flights(selections)
    if np.unique(flights.ids).size < flights.ids.size:
        raise StorageError("Snapshot has a client in flight twice.")
    return flights
