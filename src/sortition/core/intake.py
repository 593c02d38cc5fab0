"""What clients sent between two steps: screened, counted, and remembered until the guards judge it at the step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids, as_array, as_ids
from sortition.core.errors import InputError, bad, unknown
from sortition.core.guards.scales import MODEL
from sortition.core.guards.screening import Answers, Screened, in_order_asked, is_compared, screen, winsorised
from sortition.core.guards.settings import Guards
from sortition.core.questions import Reading
from sortition.core.rounds import NOBODY
from sortition.core.selector import Selector
from sortition.core.signals import Signal
from sortition.core.storage.safe_files import whole_number

if TYPE_CHECKING:
    from sortition.core.observer import Reports


class UpdateVerdict(NamedTuple):
    """What the guards say of the updates of a step.

    Attributes:
        refused: which updates are refused, by their row, and why.
        longest: the largest length that an update, and their combination, may have; infinite: any.
    """

    refused: dict[int, str]
    longest: float


@dataclass
class Intake:
    """The numbers that clients sent since the last step.

    Attributes:
        selector: the method that gets them.
        guards: how far clients are trusted.
        shapes: the shapes of vector signals' rows that are known.
        scale: gives how long the rows of a signal usually are, where that is remembered.
        shortest: gives the length to which updates of these lengths are shortened while there is no scale.
        longest: the largest length that a vector may have where its shape is not known.
        just_come: clients that are new, or back after an absence, where the guards ask.
        rejected: client → why something that it sent was withheld.
        blamed: client → why its update is unsound.
        excused: clients whose refused update is no strike.
        sent: signal, clients, and the norms of what they sent.
        votes: signal, clients, and the length of the vectors that they sent.
        misshapen: client → signal → a length that was refused.
        unsound: clients with something that was refused for another reason.
        counters: messages that were late or rejected.
        guarded: what the guards did.
    """

    selector: Selector[Any]
    guards: Guards
    shapes: dict[str, tuple[int, ...]]
    scale: Callable[[str], float | None] = lambda name: None
    shortest: Callable[[Floats], float] = lambda norms: float(norms.min(initial=np.inf))
    longest: int | None = None
    just_come: Ids = field(default_factory=lambda: NOBODY)
    rejected: dict[int, str] = field(default_factory=dict)
    blamed: dict[int, str] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    sent: list[tuple[str, Ids, Floats]] = field(default_factory=list)
    votes: list[tuple[str, Ids, int]] = field(default_factory=list)
    misshapen: dict[int, dict[str, int]] = field(default_factory=dict)
    unsound: set[int] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=lambda: {"late": 0, "rejected": 0})
    guarded: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> Intake:
        """An independent copy: what a step adds to it counts when the step does."""
        return replace(
            self,
            shapes=dict(self.shapes),
            rejected=dict(self.rejected),
            blamed=dict(self.blamed),
            excused=set(self.excused),
            sent=list(self.sent),
            votes=list(self.votes),
            misshapen={client: dict(lengths) for client, lengths in self.misshapen.items()},
            unsound=set(self.unsound),
            counters=dict(self.counters),
            guarded=dict(self.guarded),
        )

    def joined_by(self, later: Intake) -> Intake:
        """This one and what came after it, as one; what the later one knows of shapes counts."""
        both = self.copy()
        both.shapes |= later.shapes
        both.rejected |= later.rejected
        both.blamed |= later.blamed
        both.excused |= later.excused
        both.sent += later.sent
        both.just_come = np.union1d(self.just_come, later.just_come)
        both.votes += later.votes
        for client, lengths in later.misshapen.items():
            both.misshapen.setdefault(client, {}).update(lengths)
        both.unsound |= later.unsound
        for name, count in later.counters.items():
            both.counters[name] += count
        both.guarded |= later.guarded
        return both

    def accept(self, signal: Signal, answers: Answers, asked: Ids) -> Reading:
        """The sound rows of an answer, for the method."""
        return self._accepted(signal, self._screened(signal, answers, asked))

    def reports(self, done: Ids, reports: Reports) -> dict[str, Reading]:
        """What the selector gets of the reports of those who completed: a reading per declared signal.

        All of them are screened before any is accepted: a caller's mistake leaves everything as it was.
        """
        if not isinstance(reports, Mapping):
            raise bad("finish(reports)", "a mapping from a signal's name to its rows", reports)
        declared = {signal.name: signal for signal in self.selector.needs.reports}
        screened_rows = dict[Signal, Screened]()
        for name, rows in reports.items():
            if name not in declared:
                raise unknown("report", name, list(declared), f"{type(self.selector).__name__}.needs.reports")
            ordered = in_order_asked(declared[name], with_ids(name, rows, done), done)
            screened_rows[declared[name]] = self._screened(declared[name], ordered, done)
        accepted = {signal.name: self._accepted(signal, rows) for signal, rows in screened_rows.items()}
        return dict.fromkeys(declared, Reading.empty()) | accepted

    def strikes(self, overturned: Mapping[str, int]) -> set[int]:
        """The clients that get a strike; not those whose vectors only have the length that most clients send."""
        wrong = {c for c, sent in self.misshapen.items() if any(overturned.get(name) != n for name, n in sent.items())}
        return self.unsound | wrong | (self.blamed.keys() - self.excused)

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge updates by their lengths ‖Δ_k‖ (k,), in the order of ``ids``."""
        guards = self.guards
        scale = self.scale(MODEL)
        compared = guards.too_far(norms, scale)
        refused = compared | guards.absurd(norms)
        if self._excuses(ids, scale):
            self.excused |= {int(ids[row]) for row, reason in compared.items() if refused[row] == reason}
        self.sent.append((MODEL, ids, np.asarray(norms, np.float64)))
        accepted = np.delete(norms, list(refused))
        longest = np.inf
        if guards.clip and scale is not None:
            longest = guards.clip * scale
        elif guards.clip:
            longest = self.shortest(accepted)
        shortened = int((accepted > longest).sum())
        if shortened:
            self.guarded["shortened"] = shortened
        return UpdateVerdict(refused, longest)

    def _excuses(self, ids: Ids, scale: float | None) -> bool:
        """Whether norms that exceed those of others are no strike: nobody knows what is usual, or most have just come.

        Without a memory they always are one.
        """
        if not self.guards.remember:
            return False
        return scale is None or 2 * int(np.isin(ids, self.just_come).sum()) > ids.size

    def sent_norms(self) -> list[tuple[str, Ids, Floats]]:
        """The norms of what clients sent, by signal: the votes on scales of those who have not just come."""
        votes = []
        for name, ids, norms in self.sent:
            settled = np.isin(ids, self.just_come, invert=True)
            votes.append((name, ids[settled], norms[settled]))
        return votes

    def _screened(self, signal: Signal, answers: Answers, asked: Ids) -> Screened:
        shape = self.shapes.get(signal.name)
        scale = self.scale(signal.name)
        guards = self.guards
        if self._is_winsorised(signal) and guards.remember:
            guards = replace(guards, norm=0)  # what is only larger than usual is clipped, not refused
        return screen(signal, answers, asked, shape, guards, longest=self.longest, scale=scale)

    def _is_winsorised(self, signal: Signal) -> bool:
        """Whether large numbers of a signal are clipped."""
        return bool(self.guards.winsorise) and signal.scalar and signal.nonnegative

    def _accepted(self, signal: Signal, screened: Screened) -> Reading:
        """The sound rows, winsorised; unsound ones are counted, and the shape is remembered."""
        reading = screened.reading
        rejected = screened.rejected
        lengths = screened.lengths
        self.counters["rejected"] += len(rejected)
        self.rejected.update({client: f"{signal.name}: {reason}" for client, reason in rejected.items()})
        if len(reading) and signal.of != "pairs":
            self.shapes.setdefault(signal.name, reading.values.shape[1:])
        if len(reading) and reading.values.ndim == 2 and signal.of != "pairs":
            self.votes.append((signal.name, reading.ids, reading.values.shape[1]))
        self.votes += [(signal.name, np.array([client]), length) for client, length in lengths.items()]
        self.unsound |= self._struck(signal, screened)
        for client, length in lengths.items():
            self.misshapen.setdefault(client, {})[signal.name] = length
        if self._is_winsorised(signal):
            reading = self._winsorised(signal, reading)
        return reading

    def _winsorised(self, signal: Signal, reading: Reading) -> Reading:
        """The rows with large numbers clipped, those against the remembered scale too; how many is noted."""
        scale = self.scale(signal.name)
        most = np.inf
        if scale is not None and self.guards.norm:
            most = self.guards.norm * scale
        reading, clipped = winsorised(reading, self.guards.winsorise, most)
        if clipped:
            self.guarded["winsorised"] = self.guarded.get("winsorised", 0) + clipped
        return reading

    def _struck(self, signal: Signal, screened: Screened) -> set[int]:
        """Whose rows are a strike; where norms are remembered, they are noted."""
        struck = screened.rejected.keys() - screened.lengths.keys()
        if signal.of == "pairs":
            return struck - screened.compared
        if is_compared(signal) and self.guards.remember:
            if self._excuses(screened.ids, self.scale(signal.name)):
                struck -= screened.compared
            self.sent.append((signal.name, screened.ids, np.asarray(screened.norms, np.float64)))
        return struck

    def export(self) -> dict[str, Any]:
        """What the next step needs of it, as JSON knows it."""
        return {
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "rejected": {str(client): reason for client, reason in self.rejected.items()},
            "blamed": {str(client): reason for client, reason in self.blamed.items()},
            "votes": [[name, clients.tolist(), length] for name, clients, length in self.votes],
            "misshapen": {str(client): lengths for client, lengths in self.misshapen.items()},
            "unsound": sorted(self.unsound),
            "excused": sorted(self.excused),
            "sent": [[name, clients.tolist(), norms.tolist()] for name, clients, norms in self.sent],
            "just_come": self.just_come.tolist(),
            "counters": dict(self.counters),
        }

    def restored(self, stored: Mapping[str, Any], names: Collection[str], n_clients: int) -> Intake:
        """What :meth:`export` gave, for the same selection; refused where it is not of these clients and signals."""

        def clients(ids: Iterable[Any]) -> Ids:
            checked = as_ids("clients of a snapshot", [int(client) for client in ids])
            if checked.size and checked.max() >= n_clients:
                raise bad("clients of a snapshot", f"below {n_clients}", int(checked.max()))
            return checked

        def by_client(table: Mapping[str, Any]) -> dict[int, Any]:
            return dict(zip(clients(table).tolist(), table.values(), strict=True))

        sent = [(str(name), clients(ids), np.array(norms, np.float64)) for name, ids, norms in stored["sent"]]
        for name, ids, norms in sent:
            if name not in names or norms.shape != ids.shape or not (norms[np.isfinite(norms)] >= 0).all():
                raise ValueError(f"norms of {name!r} of shape {norms.shape}")
        return replace(
            self,
            shapes={str(name): tuple(int(n) for n in shape) for name, shape in stored["shapes"].items()},
            rejected={client: str(reason) for client, reason in by_client(stored["rejected"]).items()},
            blamed={client: str(reason) for client, reason in by_client(stored["blamed"]).items()},
            votes=[(str(name), clients(ids), int(length)) for name, ids, length in stored["votes"]],
            misshapen={
                client: {str(name): int(length) for name, length in lengths.items()}
                for client, lengths in by_client(stored["misshapen"]).items()
            },
            unsound=set(clients(stored["unsound"]).tolist()),
            excused=set(clients(stored["excused"]).tolist()),
            sent=sent,
            just_come=clients(stored["just_come"]),
            counters={name: whole_number(stored["counters"][name], name) for name in ("late", "rejected")},
        )


def with_ids(name: str, rows: Answers | npt.ArrayLike, done: Ids) -> Answers:
    """Reports with their ids: rows without any belong to those who completed, in their order."""
    if isinstance(rows, Reading | Mapping):
        return rows
    try:
        table = as_array(f"{name} reports", rows)
    except InputError:  # rows of different lengths are the caller's mistake
        raise
    except Exception:  # one row can raise anything; it is screened by itself
        table = np.fromiter(rows, object) if isinstance(rows, list | tuple) else np.empty(0)
    if table.dtype.kind not in "biuf" and table.ndim and len(table) == done.size:  # screened row by row
        return dict(zip(done.tolist(), table, strict=True))
    return Reading(done, table)
