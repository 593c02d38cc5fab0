"""The audit log: what went into every choice and what came out of it, as a hash chain of entries.

The first entry commits to the seed without disclosing it: SHA-256(salt ‖ seed). One entry follows per round. Whoever
has seed and salt when the run is over can recompute every choice (:mod:`sortition.audit.recompute`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from sortition.audit import hash_chain
from sortition.audit.encoding import encode_ids, json_value
from sortition.audit.entries import (
    encode_answers,
    encode_cohort,
    encode_excluded,
    encode_joined,
    encode_kept_out,
    encode_notes,
    header,
)
from sortition.audit.schema import JoinedEntry, QuestionEntry, RoundEntry, compact
from sortition.core.arrays import Ids
from sortition.core.guards.screening import Answers
from sortition.core.observer import Reports
from sortition.core.questions import Measure
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.streams import stream
from sortition.core.turn import Turn, with_ids


def fresh_salt() -> bytes:
    """A salt for a federation: nobody can guess the seed from its commitment."""
    return secrets.token_bytes(32)


def salt_of(seed: int) -> bytes:
    """A salt for a simulation, where the same seed must give the same bytes and nothing needs to be hidden."""
    return stream(seed, "audit salt").bytes(32)


class AuditLog:
    """An observer that writes one line per finished turn, when the next one begins or at :meth:`flush`.

    So a round in which a server stops, and which is repeated from what was saved before it, has one line.

    Args:
        write: takes each line, with its newline.
        entries: how many entries there are already: 0 writes the header first.
        last: the hash of the last of them.
    """

    def __init__(
        self, registrar: Registrar, salt: bytes, write: Callable[[bytes], object], entries: int = 0, last: str = ""
    ) -> None:
        self._write, self.entries, self.last = write, entries, last or hash_chain.START
        self._joined: JoinedEntry | None = None  # who joined since the last line
        self._joined_before: JoinedEntry | None = None  # of these, who had joined when the open turn began
        self._pending: RoundEntry | None = None
        self._asked: list[QuestionEntry] = []
        self._begun: tuple[Ids, int] = (np.empty(0, np.int64), 0)
        if not entries:
            self._add(cast(Mapping[str, Any], header(registrar, salt)))

    def _add(self, entry: Mapping[str, Any]) -> None:
        line, own = hash_chain.seal(self.entries, self.last, entry)
        self._write(line)
        self.entries, self.last = self.entries + 1, own

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Forget a turn that was abandoned, or that is repeated."""
        if self._pending is not None and self._pending["round"] < turn.index:
            self.flush()
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

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Make the round's entry."""
        cohort = turn.cohort or Cohort.uniform([])
        signals = {signal.name: signal for signal in turn.needs.reports}
        entry: RoundEntry = {
            "round": turn.index,
            "budget": self._begun[1],
            "available": encode_ids(self._begun[0]),
            "joined": self._joined_before,
            "excluded": encode_excluded(turn.excluded),
            "kept_out": encode_kept_out(turn.kept_out),
            "asked": self._asked or None,
            **encode_cohort(cohort),
            "notes": encode_notes(cohort.notes),
            "done": None if np.array_equal(done, cohort.ids) else encode_ids(done),
            "reports": {
                name: encode_answers(signals[name], with_ids(name, rows, done), done) for name, rows in reports.items()
            }
            or None,
            "rejected": json_value(turn.rejected) or None,
            "blamed": json_value(turn.blamed) or None,
            "excused": sorted(turn.excused & turn.blamed.keys()) or None,
            "scales": json_value(turn.scales) or None,
        }
        self._pending = compact(entry)

    def flush(self) -> None:
        """Write the line of the turn that finished last."""
        if self._pending is not None:
            self._add(cast(Mapping[str, Any], self._pending))
            if self._pending.get("joined") is self._joined:  # else more joined since that turn began
                self._joined = None
            self._pending = None

    def joined(self, population: Population) -> None:
        """The next round is chosen from this population."""
        self._joined = encode_joined(population)
