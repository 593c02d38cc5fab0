"""What clients sent between two steps: screened, counted, and remembered until the guards judge it at the step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids, as_array, as_ids
from sortition.core.cohort import NOBODY, Notes
from sortition.core.errors import InputError, bad, unknown
from sortition.core.guards.answer_screening import (
    Answers,
    RowShape,
    ScreenedAnswer,
    has_scale,
    screen,
    sort_as_asked,
    winsorise,
)
from sortition.core.guards.scales import MODEL
from sortition.core.guards.settings import Guards
from sortition.core.questions import Reading
from sortition.core.selector import AnySelector
from sortition.core.signals import Signal
from sortition.core.storage.safe_files import whole_number
from sortition.core.storage.snapshot import StoredTable

if TYPE_CHECKING:
    from sortition.core.observer import Reports


class SentNorms(NamedTuple):
    """The norms of the rows of a signal that clients sent, one per id."""

    signal: str
    ids: Ids
    norms: Floats


class DimensionVote(NamedTuple):
    """Clients that sent vectors of one dimension, which is their vote on the dimension of the signal's rows."""

    signal: str
    ids: Ids
    dimension: int


class UpdateVerdict(NamedTuple):
    """What the guards say of the updates about to be aggregated.

    Attributes:
        refused_rows: why an update is refused, by its row among those that were judged; not by its client.
        norm_limit: the largest norm that an update, and their combination, may have; infinite: any.
    """

    refused_rows: dict[int, str]
    norm_limit: float


@dataclass
class Intake:
    """The numbers that clients sent since the last step.

    Attributes:
        selector: the method that gets them.
        guards: how far clients are trusted.
        row_shapes: the shape of one client's row, by vector signal, where it is known.
        scale_of: returns the usual norm of a signal's rows, where that is remembered.
        limit_without_scale: returns the norm to which updates of these norms are shortened while there is no scale.
        largest_dimension: the largest dimension that a vector may have where its shape is not known.
        just_come: clients that are new, or back after an absence, where the guards ask.
        rejected: client → why something that it sent was withheld.
        blamed: client → why its update is unsound.
        excused: clients whose refused update is no strike.
        sent_norms: the norms of the rows and updates that clients sent.
        votes: the dimensions of the vectors that clients sent.
        misshapen: client → signal → a dimension that was refused.
        unsound: clients with something that was refused for another reason.
        shortened: clients whose update is longer than it may be, as judged last.
        counters: messages that were late or rejected.
        guarded: what the guards did.
    """

    selector: AnySelector
    guards: Guards
    row_shapes: dict[str, RowShape]
    scale_of: Callable[[str], float | None] = lambda name: None
    limit_without_scale: Callable[[Floats], float] = lambda norms: float(norms.min(initial=np.inf))
    largest_dimension: int | None = None
    just_come: Ids = field(default_factory=lambda: NOBODY)
    rejected: dict[int, str] = field(default_factory=dict)
    blamed: dict[int, str] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    sent_norms: list[SentNorms] = field(default_factory=list)
    votes: list[DimensionVote] = field(default_factory=list)
    misshapen: dict[int, dict[str, int]] = field(default_factory=dict)
    unsound: set[int] = field(default_factory=set)
    shortened: set[int] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=lambda: {"late": 0, "rejected": 0})
    guarded: Notes = field(default_factory=dict)

    def copy(self) -> Intake:
        """Return an independent copy: what a step adds to it counts when the step does."""
        copied = copy.copy(self)
        copied.row_shapes = dict(self.row_shapes)
        copied.rejected = dict(self.rejected)
        copied.blamed = dict(self.blamed)
        copied.excused = set(self.excused)
        copied.sent_norms = list(self.sent_norms)
        copied.votes = list(self.votes)
        copied.misshapen = {client: dict(dimensions) for client, dimensions in self.misshapen.items()}
        copied.unsound = set(self.unsound)
        copied.shortened = set(self.shortened)
        copied.counters = dict(self.counters)
        copied.guarded = dict(self.guarded)
        return copied

    def merge(self, later: Intake) -> Intake:
        """Return what this intake and a later one hold together; where both know a shape, the later one's counts."""
        merged = self.copy()
        merged.row_shapes |= later.row_shapes
        merged.rejected |= later.rejected
        merged.blamed |= later.blamed
        merged.excused |= later.excused
        merged.sent_norms += later.sent_norms
        merged.just_come = np.union1d(self.just_come, later.just_come)
        merged.votes += later.votes
        for client, dimensions in later.misshapen.items():
            merged.misshapen.setdefault(client, {}).update(dimensions)
        merged.unsound |= later.unsound
        merged.shortened |= later.shortened
        for name, count in later.counters.items():
            merged.counters[name] += count
        merged.guarded = _add_guard_notes(self.guarded, later.guarded)
        return merged

    def accept(self, signal: Signal, answers: Answers, asked: Ids) -> Reading:
        """Screen an answer, and return its sound rows for the method."""
        return self._take_sound_rows(signal, self._screen(signal, answers, asked))

    def screen_reports(self, completed: Ids, reports: Reports) -> dict[str, Reading]:
        """Screen the reports of those who completed, and return a reading for each signal that the method declared.

        All of them are screened before any is accepted: a caller's mistake leaves everything as it was.
        """
        declared = {signal.name: signal for signal in self.selector.needs.reports}
        screened_rows = dict[Signal, ScreenedAnswer]()
        for name, rows in reports.items():
            if name not in declared:
                raise unknown("report", name, list(declared), f"{type(self.selector).__name__}.needs.reports")
            signal = declared[name]
            ordered = sort_as_asked(signal, attach_ids(name, rows, completed), completed)
            screened_rows[signal] = self._screen(signal, ordered, completed)
        accepted = {signal.name: self._take_sound_rows(signal, rows) for signal, rows in screened_rows.items()}
        return dict.fromkeys(declared, Reading.empty()) | accepted

    def strikes(self, overturned: Mapping[str, int]) -> set[int]:
        """Return the clients that get a strike.

        Clients whose only fault was to send the dimension that most clients send (``overturned``) get none.
        """
        wrong_dimension = set()
        for client, dimensions in self.misshapen.items():
            if any(overturned.get(name) != dimension for name, dimension in dimensions.items()):
                wrong_dimension.add(client)
        return self.unsound | wrong_dimension | (self.blamed.keys() - self.excused)

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge updates by their norms ‖Δ_i‖, shape (k,), in the order of ``ids``, and record these norms."""
        guards = self.guards
        scale = self.scale_of(MODEL)
        refused_by_comparison = guards.find_too_far(norms, scale)
        refused = refused_by_comparison | guards.find_absurd(norms)
        if self._excuses_comparisons(ids, scale):
            self.excused |= {int(ids[row]) for row, reason in refused_by_comparison.items() if refused[row] == reason}
        self._remember_norms(MODEL, ids, norms)
        is_sound = np.ones(ids.size, bool)
        is_sound[list(refused)] = False
        sound_norms = norms[is_sound]
        norm_limit = np.inf
        if guards.clip and scale is not None:
            norm_limit = guards.clip * scale
        elif guards.clip:
            norm_limit = self.limit_without_scale(sound_norms)
        self._note_shortened(ids, ids[is_sound][sound_norms > norm_limit])
        return UpdateVerdict(refused, norm_limit)

    def _note_shortened(self, judged: Ids, too_long: Ids) -> None:
        """Note whose updates are shortened, of those that were judged; where one is judged again, this counts."""
        self.shortened.difference_update(judged.tolist())
        self.shortened.update(too_long.tolist())
        if self.shortened:
            self.guarded["shortened"] = len(self.shortened)
        else:
            self.guarded.pop("shortened", None)

    def _excuses_comparisons(self, ids: Ids, scale: float | None) -> bool:
        """Tell whether norms of these clients that are far above those of others are no strike.

        They are excused, all of them, where no scale is known, or most of these clients have just come; never where the
        guards remember nothing.
        """
        if not self.guards.remember:
            return False
        if scale is None:
            return True
        n_just_come = int(np.isin(ids, self.just_come).sum())
        return 2 * n_just_come > ids.size

    def _remember_norms(self, signal: str, ids: Ids, norms: Array) -> None:
        self.sent_norms.append(SentNorms(signal, ids, np.asarray(norms, np.float64)))

    def scale_votes(self) -> list[SentNorms]:
        """Return the votes on scales: the norms of what clients sent who have not just come."""
        votes = []
        for signal, ids, norms in self.sent_norms:
            may_vote = np.isin(ids, self.just_come, invert=True)
            votes.append(SentNorms(signal, ids[may_vote], norms[may_vote]))
        return votes

    def _screen(self, signal: Signal, answers: Answers, asked: Ids) -> ScreenedAnswer:
        """Screen rows against the known shape and the remembered scale."""
        shape = self.row_shapes.get(signal.name)
        scale = self.scale_of(signal.name)
        guards = self.guards
        if self._is_winsorised(signal) and guards.remember:
            guards = replace(guards, norm=0)  # what is only larger than usual is clipped, not refused
        return screen(
            signal, answers, asked, shape, guards=guards, largest_dimension=self.largest_dimension, scale=scale
        )

    def _is_winsorised(self, signal: Signal) -> bool:
        """Tell whether large numbers of a signal are clipped."""
        return bool(self.guards.winsorise) and signal.scalar and signal.nonnegative

    def _take_sound_rows(self, signal: Signal, screened: ScreenedAnswer) -> Reading:
        """Return the sound rows, large numbers clipped; count the unsound ones, and remember the shape."""
        reading = screened.reading
        rejected = screened.rejected
        dimensions = screened.dimensions
        self.counters["rejected"] += len(rejected)
        self.rejected.update({client: f"{signal.name}: {reason}" for client, reason in rejected.items()})
        if len(reading) and signal.of != "pairs":
            self.row_shapes.setdefault(signal.name, reading.values.shape[1:])
            if reading.values.ndim == 2:
                self.votes.append(DimensionVote(signal.name, reading.ids, reading.values.shape[1]))
        for client, dimension in dimensions.items():
            self.votes.append(DimensionVote(signal.name, np.array([client]), dimension))
            self.misshapen.setdefault(client, {})[signal.name] = dimension
        self.unsound |= self._find_strikes(signal, screened)
        if has_scale(signal) and self.guards.remember:
            self._remember_norms(signal.name, screened.ids, screened.norms)
        if self._is_winsorised(signal):
            reading = self._winsorise(signal, reading)
        return reading

    def _winsorise(self, signal: Signal, reading: Reading) -> Reading:
        """Clip large numbers, also by the remembered scale, and note how many were clipped."""
        scale = self.scale_of(signal.name)
        highest = np.inf
        if scale is not None and self.guards.norm:
            highest = self.guards.norm * scale
        clipped_reading, n_clipped = winsorise(reading, self.guards.winsorise, highest)
        if n_clipped:
            self.guarded["winsorised"] = self.guarded.get("winsorised", 0) + n_clipped
        return clipped_reading

    def _find_strikes(self, signal: Signal, screened: ScreenedAnswer) -> set[int]:
        """Return the clients whose rows are a strike; a row of another dimension is none yet."""
        struck = screened.rejected.keys() - screened.dimensions.keys()
        if signal.of == "pairs":
            return struck - screened.refused_by_comparison
        if has_scale(signal) and self._excuses_comparisons(screened.ids, self.scale_of(signal.name)):
            return struck - screened.refused_by_comparison
        return struck

    def export(self) -> dict[str, object]:
        """Return what the next step needs of it, as JSON knows it."""
        return {
            "shapes": {name: list(shape) for name, shape in self.row_shapes.items()},
            "rejected": {str(client): reason for client, reason in self.rejected.items()},
            "blamed": {str(client): reason for client, reason in self.blamed.items()},
            "votes": [[name, clients.tolist(), dimension] for name, clients, dimension in self.votes],
            "misshapen": {str(client): dimensions for client, dimensions in self.misshapen.items()},
            "unsound": sorted(self.unsound),
            "excused": sorted(self.excused),
            "sent_norms": [[name, clients.tolist(), norms.tolist()] for name, clients, norms in self.sent_norms],
            "just_come": self.just_come.tolist(),
            "counters": dict(self.counters),
        }

    def restored(self, stored: StoredTable, names: Collection[str], n_clients: int) -> Intake:
        """Return what :meth:`export` gave, for the same selection; refuse other clients and signals than these."""

        def read_ids(ids: Iterable[Any]) -> Ids:
            checked = as_ids("clients of a snapshot", [int(client) for client in ids])
            if checked.size and checked.max() >= n_clients:
                raise bad("clients of a snapshot", f"below {n_clients}", int(checked.max()))
            return checked

        def read_by_client(table: StoredTable) -> dict[int, Any]:
            return dict(zip(read_ids(table).tolist(), table.values(), strict=True))

        sent_norms = [
            SentNorms(str(name), read_ids(ids), np.array(norms, np.float64))
            for name, ids, norms in stored["sent_norms"]
        ]
        for name, ids, norms in sent_norms:
            if name not in names or norms.shape != ids.shape or not (norms[np.isfinite(norms)] >= 0).all():
                raise ValueError(f"norms of {name!r} of shape {norms.shape}")
        return replace(
            self,
            row_shapes={str(name): tuple(int(n) for n in shape) for name, shape in stored["shapes"].items()},
            rejected={client: str(reason) for client, reason in read_by_client(stored["rejected"]).items()},
            blamed={client: str(reason) for client, reason in read_by_client(stored["blamed"]).items()},
            votes=[DimensionVote(str(name), read_ids(ids), int(dimension)) for name, ids, dimension in stored["votes"]],
            misshapen={
                client: {str(name): int(dimension) for name, dimension in dimensions.items()}
                for client, dimensions in read_by_client(stored["misshapen"]).items()
            },
            unsound=set(read_ids(stored["unsound"]).tolist()),
            excused=set(read_ids(stored["excused"]).tolist()),
            sent_norms=sent_norms,
            just_come=read_ids(stored["just_come"]),
            counters={name: whole_number(stored["counters"][name], name) for name in ("late", "rejected")},
        )


def _add_guard_notes(earlier: Notes, later: Notes) -> Notes:
    """Return what the guards did in both: counts and lists add up; how many clients were too few is the later one's."""
    notes = {**earlier, **later}
    for name in earlier.keys() & later.keys():
        if not name.startswith("too_few"):
            notes[name] = earlier[name] + later[name]
    return notes


def attach_ids(name: str, rows: Answers | npt.ArrayLike, completed: Ids) -> Answers:
    """Return reports by client: rows without ids belong to those who completed, in their order."""
    if isinstance(rows, Reading | Mapping):
        return rows
    try:
        table = as_array(f"{name} reports", rows)
    except InputError:  # rows of different dimensions are the caller's mistake
        raise
    except Exception:  # one row can raise anything; it is screened by itself
        table = np.empty(0)
        if isinstance(rows, list | tuple):
            table = np.fromiter(rows, object)
    if table.dtype.kind not in "biuf" and table.ndim and len(table) == completed.size:  # screened row by row
        return dict(zip(completed.tolist(), table, strict=True))
    return Reading(completed, table)
