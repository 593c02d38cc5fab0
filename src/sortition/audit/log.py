"""The audit log: what went into every choice and what came out of it, as a hash chain of entries.

The first entry commits to the seed without disclosing it: SHA-256(salt ‖ seed). One entry follows per round, or per
event where rounds overlap. Whoever has seed and salt when the run is over can recompute every choice
(:mod:`sortition.audit.recompute`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from sortition.audit import hash_chain
from sortition.audit.encoding import encode_ids, encode_numbers, json_value
from sortition.audit.entries import (
    encode_answers,
    encode_cohort,
    encode_excluded,
    encode_joined,
    encode_kept_out,
    encode_notes,
    header,
)
from sortition.audit.events import GIVEN_UP, SELECTED, STEP
from sortition.audit.schema import AnswersEntry, JoinedEntry, QuestionEntry, compact
from sortition.core.arrays import Ids
from sortition.core.flights import Received
from sortition.core.guards.screening import Answers
from sortition.core.intake import with_ids
from sortition.core.observer import Reports
from sortition.core.questions import Measure
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.selector import Needs
from sortition.core.streams import stream
from sortition.core.turn import Turn


def fresh_salt() -> bytes:
    """A salt for a federation: nobody can guess the seed from its commitment."""
    return secrets.token_bytes(32)


def salt_of(seed: int) -> bytes:
    """A salt for a simulation, where the same seed must give the same bytes and nothing needs to be hidden."""
    return stream(seed, "audit salt").bytes(32)


class AuditLog:
    """An observer that writes one line per event, when the next selection begins or at :meth:`flush`.

    Where rounds do not overlap, a round is one line. Where work outlives a step, a selection, a step and work that was
    given up are a line each, in the order in which they happened. What a server repeats from what was saved before it
    has one line: of two entries in the same place, the later one counts.

    Args:
        registrar: that is observed.
        salt: of the commitment to its seed.
        write: takes each line, with its newline.
        entries: how many entries there are already: 0 writes the header first.
        last: the hash of the last of them.
    """

    def __init__(
        self, registrar: Registrar, salt: bytes, write: Callable[[bytes], object], entries: int = 0, last: str = ""
    ) -> None:
        self._registrar = registrar
        self._write, self.entries, self.last = write, entries, last or hash_chain.START
        self._joined: JoinedEntry | None = None  # who joined since the last line
        self._joined_before: JoinedEntry | None = None  # of these, who had joined when the open turn began
        self._unwritten: list[tuple[int, Mapping[str, Any]]] = []  # the number of an event, and its entry
        self._asked: list[QuestionEntry] = []
        self._begun: tuple[Ids, int] = (np.empty(0, np.int64), 0)
        if not entries:
            self._add(cast(Mapping[str, Any], header(registrar, salt)))

    def _add(self, entry: Mapping[str, Any]) -> None:
        line, own = hash_chain.seal(self.entries, self.last, entry)
        self._write(line)
        self.entries, self.last = self.entries + 1, own

    def _note(self, number: int, entry: Mapping[str, Any]) -> None:
        """Keep an entry until it is written; it takes the place of what was noted there and after it."""
        self._unwritten = [(place, noted) for place, noted in self._unwritten if place < number]
        self._unwritten.append((number, entry))

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Forget a turn that was abandoned, or that is repeated."""
        self._write_before(self._registrar.events)
        self._begun, self._asked = (available, budget), []
        self._joined_before = self._joined

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Note the question and what arrived."""
        entry: QuestionEntry = {
            "signal": question.signal.name,
            "ids": None if np.array_equal(question.ids, self._begun[0]) else encode_ids(question.ids),
            "after": None if question.after is None else encode_cohort(question.after),
            "answers": encode_answers(question.signal, answers, question.ids),
        }
        self._asked.append(compact(entry))

    def _selection(self, turn: Turn) -> dict[str, Any]:
        """What went into a choice and what came out of it."""
        cohort = turn.cohort or Cohort.uniform([])
        return {
            "round": turn.index,
            "budget": self._begun[1],
            "available": encode_ids(self._begun[0]),
            "joined": self._joined_before,
            "excluded": encode_excluded(turn.excluded),
            "kept_out": encode_kept_out(turn.kept_out),
            "asked": self._asked or None,
            **encode_cohort(cohort),
            "notes": encode_notes(cohort.notes),
        }

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Make the round's entry."""
        cohort = turn.cohort or Cohort.uniform([])
        entry: dict[str, Any] = {
            **self._selection(turn),
            "clock": turn.clock,
            "deadline": turn.deadline,
            "done": None if np.array_equal(done, cohort.ids) else encode_ids(done),
            "durations": None if turn.durations is None else encode_numbers(turn.durations),
            "reports": _reports(turn.needs, reports, done),
            "rejected": json_value(turn.rejected) or None,
            "blamed": json_value(turn.blamed) or None,
            "excused": sorted(turn.excused & turn.blamed.keys()) or None,
            "scales": json_value(turn.scales) or None,
        }
        dispatched_before = self._registrar.is_dispatched(turn)
        number = self._registrar.events - (1 if dispatched_before else 0)
        self._note(number, compact(entry))

    def dispatched(self, turn: Turn) -> None:
        """Make the selection's entry; a round that is finished next is one entry with it."""
        entry = {
            "event": SELECTED,
            **self._selection(turn),
            "version": turn.version,
            "clock": turn.clock,
            "deadline": turn.deadline,
            "in_flight": encode_ids(turn.in_flight) if turn.in_flight.size else None,
            "rejected": json_value(turn.rejected) or None,
        }
        self._note(self._registrar.events, compact(entry))

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Note whose work has ended without an update."""
        entry = {"event": GIVEN_UP, "ids": encode_ids(np.sort(ids)), "reason": reason}
        self._note(self._registrar.events, entry)

    def stepped(self, step: Received, reports: Reports) -> None:
        """Make a step's entry: whose updates arrived, how stale, and with what weights they were used."""
        known = not np.isnan(step.durations).any() and step.durations.size > 0
        entry = {
            "event": STEP,
            "version": step.version,
            "received": encode_ids(step.arrived),
            "used": None if np.array_equal(step.ids, step.arrived) else encode_ids(step.ids),
            "staleness": step.staleness.tolist() if step.staleness.any() else None,
            "discounts": None if step.discounts is None else encode_numbers(step.discounts),
            "normalise": step.normalise,
            "weights": encode_numbers(step.weights),
            "durations": encode_numbers(step.durations) if known else None,
            "reports": _reports(self._registrar.needs, reports, step.arrived),
            "rejected": json_value(dict(step.rejected)) or None,
            "blamed": json_value(dict(step.blamed)) or None,
            "excused": sorted(set(step.excused) & step.blamed.keys()) or None,
        }
        self._note(self._registrar.events, compact(entry))

    def flush(self) -> None:
        """Write all lines of what has happened."""
        self._write_before(self._registrar.events + 1)

    def _write_before(self, number: int) -> None:
        """Write the entries of events before this one."""
        ready = [entry for place, entry in self._unwritten if place < number]
        self._unwritten = [(place, entry) for place, entry in self._unwritten if place >= number]
        for entry in ready:
            self._add(entry)
            if entry.get("joined") is self._joined:  # else more joined since that turn began
                self._joined = None

    def joined(self, population: Population) -> None:
        """The next round is chosen from this population."""
        self._joined = encode_joined(population)


def _reports(needs: Needs, reports: Reports, done: Ids) -> dict[str, AnswersEntry] | None:
    signals = {signal.name: signal for signal in needs.reports}
    return {
        name: encode_answers(signals[name], with_ids(name, rows, done), done) for name, rows in reports.items()
    } or None
