"""The audit log: what went into every choice and what came out of it, as a hash chain of entries.

The first entry commits to the seed without disclosing it: SHA-256(salt ‖ seed). One entry follows per round, or per
event where rounds overlap. Whoever has seed and salt when the run is over can recompute every choice
(:mod:`sortition.audit.recompute`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from sortition.audit import hash_chain
from sortition.audit.encoding import (
    encode_ids,
    encode_ids_unless_implied,
    encode_numbers,
    encode_optional_numbers,
    json_value,
)
from sortition.audit.entry_schema import (
    AnswersEntry,
    Entry,
    GivenUpEntry,
    JoinedEntry,
    JsonObject,
    QuestionEntry,
    RoundEntry,
    StepEntry,
    drop_empty_keys,
)
from sortition.audit.entry_writer import (
    encode_answers,
    encode_cohort,
    encode_excluded,
    encode_joined,
    encode_kept_out,
    encode_notes,
    encode_rehearsal,
    make_header,
)
from sortition.audit.events import GIVEN_UP, SELECTED, STEP
from sortition.core.arrays import Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.guards.answer_screening import Answers
from sortition.core.in_flight import ServerStep
from sortition.core.intake import attach_ids
from sortition.core.observer import Reports
from sortition.core.population import Population
from sortition.core.questions import Measure
from sortition.core.registrar import Registrar
from sortition.core.selector import Needs
from sortition.core.streams import stream
from sortition.core.turn import Turn


def draw_salt() -> bytes:
    """Return a salt for a federation: with it, nobody can guess the seed from its commitment."""
    return secrets.token_bytes(32)


def derive_salt(seed: int) -> bytes:
    """Return a salt for a simulation, where one seed must give the same bytes and nothing needs to be hidden."""
    return stream(seed, "audit salt").bytes(32)


class PendingEntry(NamedTuple):
    """An entry that is not written yet, with the number of its event."""

    event_number: int
    entry: Entry


class AuditLog:
    """An observer that writes one line per event, when the next selection begins or at :meth:`flush`.

    Where rounds do not overlap, a round is one line. Where work outlives a step, a selection, a step and work that was
    given up are a line each, in the order in which they happened. A server that resumes repeats what happened after
    its last save: of two entries with the same number, only the later one is written.

    Args:
        registrar: the registrar that is observed.
        salt: the salt of the commitment to its seed.
        write: takes each line, with its newline.
        n_entries: how many entries the log has already; with 0 the header is written first.
        last_hash: the hash of the last of them.
    """

    def __init__(
        self,
        registrar: Registrar,
        salt: bytes,
        write: Callable[[bytes], object],
        n_entries: int = 0,
        last_hash: str = "",
    ) -> None:
        self.n_entries = n_entries
        self.last_hash = last_hash or hash_chain.START
        self._registrar = registrar
        self._write = write
        self._pending: list[PendingEntry] = []
        self._joined: JoinedEntry | None = None  # who joined since the last line
        # Of the open turn:
        self._joined_at_start: JoinedEntry | None = None
        self._available = NOBODY
        self._budget = 0
        self._questions: list[QuestionEntry] = []
        if not n_entries:
            self._add(cast(Entry, make_header(registrar, salt)))

    def _add(self, entry: Entry) -> None:
        """Write an entry as the next line of the chain."""
        line, line_hash = hash_chain.seal(self.n_entries, self.last_hash, entry)
        self._write(line)
        self.n_entries += 1
        self.last_hash = line_hash

    def _keep_pending(self, event_number: int, entry: RoundEntry | GivenUpEntry | StepEntry) -> None:
        """Keep an entry until it is written; it replaces the entries with this number and later ones."""
        self._pending = [pending for pending in self._pending if pending.event_number < event_number]
        self._pending.append(PendingEntry(event_number, cast(Entry, entry)))

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Start a turn, and forget one that was abandoned or is repeated."""
        self._write_before(self._registrar.n_log_entries)
        self._available = available
        self._budget = budget
        self._questions = []
        self._joined_at_start = self._joined

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Note the question and what arrived."""
        entry: QuestionEntry = {
            "signal": question.signal.name,
            "ids": encode_ids_unless_implied(question.ids, implied=self._available),
            "after": encode_rehearsal(question.after),
            "answers": encode_answers(question.signal, answers, question.ids),
        }
        self._questions.append(drop_empty_keys(entry))

    def _encode_selection(self, turn: Turn) -> JsonObject:
        """Return what went into a choice and what came out of it."""
        cohort = turn.cohort or Cohort.uniform([])
        return {
            "round": turn.index,
            "budget": self._budget,
            "available": encode_ids(self._available),
            "joined": self._joined_at_start,
            "excluded": encode_excluded(turn.excluded),
            "kept_out": encode_kept_out(turn.kept_out),
            "asked": self._questions or None,
            **encode_cohort(cohort),
            "notes": encode_notes(cohort.notes),
        }

    def finished(self, turn: Turn, completed: Ids, reports: Reports) -> None:
        """Note the round's entry."""
        cohort = turn.cohort or Cohort.uniform([])
        entry: JsonObject = {
            **self._encode_selection(turn),
            "clock": turn.clock,
            "deadline": turn.deadline,
            "done": encode_ids_unless_implied(completed, implied=cohort.ids),
            "durations": encode_optional_numbers(turn.durations),
            "reports": _encode_reports(turn.needs, reports, completed),
            "rejected": json_value(turn.rejected) or None,
            "blamed": json_value(turn.blamed) or None,
            "excused": sorted(turn.excused & turn.blamed.keys()) or None,
            "scales": json_value(turn.scales) or None,
        }
        event_number = self._registrar.n_log_entries
        if self._registrar.is_dispatched(turn):
            event_number -= 1  # the round's entry replaces the one of its selection
        self._keep_pending(event_number, cast(RoundEntry, drop_empty_keys(entry)))

    def dispatched(self, turn: Turn) -> None:
        """Note the selection's entry; if the round is finished next, the round's entry replaces it."""
        entry: JsonObject = {
            "event": SELECTED,
            **self._encode_selection(turn),
            "version": turn.version,
            "clock": turn.clock,
            "deadline": turn.deadline,
            "in_flight": encode_ids_unless_implied(turn.in_flight, implied=NOBODY),
            "rejected": json_value(turn.rejected) or None,
        }
        self._keep_pending(self._registrar.n_log_entries, cast(RoundEntry, drop_empty_keys(entry)))

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Note whose work has ended without an update."""
        entry: GivenUpEntry = {"event": GIVEN_UP, "ids": encode_ids(np.sort(ids)), "reason": reason}
        self._keep_pending(self._registrar.n_log_entries, entry)

    def stepped(self, step: ServerStep, reports: Reports) -> None:
        """Note a step's entry: whose updates arrived, how stale, and with what weights they were used."""
        durations = None
        if step.durations.size > 0 and not np.isnan(step.durations).any():
            durations = step.durations
        entry: StepEntry = {
            "event": STEP,
            "version": step.version,
            "received": encode_ids(step.arrived),
            "used": encode_ids_unless_implied(step.ids, implied=step.arrived),
            "staleness": step.staleness.tolist() if step.staleness.any() else None,
            "discounts": encode_optional_numbers(step.discounts),
            "normalise": step.normalise,
            "weights": encode_numbers(step.weights),
            "durations": encode_optional_numbers(durations),
            "reports": _encode_reports(self._registrar.needs, reports, step.arrived),
            "rejected": json_value(dict(step.rejected)) or None,
            "blamed": json_value(dict(step.blamed)) or None,
            "excused": sorted(set(step.excused) & step.blamed.keys()) or None,
        }
        self._keep_pending(self._registrar.n_log_entries, drop_empty_keys(entry))

    def flush(self) -> None:
        """Write all lines of what has happened."""
        self._write_before(self._registrar.n_log_entries + 1)

    def _write_before(self, event_number: int) -> None:
        """Write the entries of events before this one."""
        ready = [pending.entry for pending in self._pending if pending.event_number < event_number]
        self._pending = [pending for pending in self._pending if pending.event_number >= event_number]
        for entry in ready:
            self._add(entry)
            if entry.get("joined") is self._joined:  # otherwise more clients joined since that turn began
                self._joined = None

    def joined(self, population: Population) -> None:
        """Note that the next round is chosen from this population."""
        self._joined = encode_joined(population)


def _encode_reports(needs: Needs, reports: Reports, completed: Ids) -> dict[str, AnswersEntry] | None:
    """Return the reports of clients that completed, by signal; None where there are none."""
    if not reports:
        return None
    signals = {signal.name: signal for signal in needs.reports}
    return {
        name: encode_answers(signals[name], attach_ids(name, rows, completed), completed)
        for name, rows in reports.items()
    }
