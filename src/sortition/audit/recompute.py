"""Recompute the choices of an audit log: a fresh registrar gets what went in, and must choose the same.

Of vectors the log holds only digests. Where the vectors are available (a simulated run can be replayed), they are
compared with the digests and used; where not, the rounds that depend on them are reported as not recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from sortition.audit.encoding import decode_ids, decode_numbers, encode_ids, encode_numbers, json_value
from sortition.audit.entries import digest_of, encode_answers, encode_cohort, encode_kept_out, encode_notes
from sortition.audit.events import GIVEN_UP, SELECTED, STEP
from sortition.audit.schema import (
    AnswersEntry,
    JoinedEntry,
    QuestionEntry,
    RoundEntry,
    answer_ids,
    answer_values,
    cohort_of,
    done_ids,
)
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import SortitionError, shown
from sortition.core.guards.scales import MODEL
from sortition.core.guards.screening import Answers
from sortition.core.questions import Reading
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import Signal
from sortition.core.turn import Turn

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)  # of entries of another form
NAMES = {
    "available": "available clients",
    "excluded": "clients that the policy leaves out",
    "joined": "population",
    "done": "completed clients",
    "blamed": "clients with refused updates",
    "excused": "refused updates that are no strike",
    "scales": "remembered scales",
}


@dataclass
class Evidence:
    """What is known of one round from elsewhere than the log: the configuration, or a replay of the run."""

    asked: list[Answers] = field(default_factory=list)  # what clients answered, in order
    reports: dict[str, Answers] = field(default_factory=dict)  # what they reported, by name
    expected: dict[str, Any] = field(default_factory=dict)  # values of the entry's keys; None: the key is absent


@dataclass
class Recomputation:
    """How far the choices were recomputed, and where they differ."""

    rounds: int = 0  # recomputed, all alike
    differences: list[str] = field(default_factory=list)
    left: str = ""  # why later rounds were not recomputed


class Differs(Exception):  # noqa: N818 (an outcome, not an error)
    """The log has something else than the recomputation."""


class Unknown(Exception):  # noqa: N818
    """The log does not hold what the recomputation needs."""


def recompute(
    entries: Sequence[Mapping[str, Any]],
    registrar: Registrar,
    *,
    evidence: Callable[[int], Evidence] = lambda t: Evidence(),
    population: Callable[[int], Population | None] = lambda clients: None,
    called: Callable[[int], str] | None = None,
) -> Recomputation:
    """Recompute the rounds of a log, in order, until one differs or lacks what is needed.

    Args:
        entries: those of the rounds, without the header.
        registrar: a fresh one of the same selection.
        evidence: what is known of a round from elsewhere: compared with the log, and vectors are taken from it.
        population: the first so many clients, for logs of federations that clients joined.
        called: what a client is called in messages, where names are known.
    """
    result = Recomputation()
    for entry in entries:
        where = _where(entry)
        try:
            if "event" in entry:
                _check_event(entry, registrar, population, called)
            else:
                _Round(cast(RoundEntry, entry), registrar, evidence, called).check(population)
        except Differs as difference:
            result.differences.append(f"{where}: {difference}")
            result.left = "an earlier round differs"
        except Unknown as reason:
            result.left = f"{where.lower()}: {reason}"
        except SortitionError as error:
            result.differences.append(f"{where} cannot be recomputed: {error}")
            result.left = "an earlier round differs"
        except UNREADABLE as error:
            result.differences.append(f"{where} cannot be read: {error!r}.")
            result.left = "an earlier round cannot be read"
        if result.left:
            break
        result.rounds += 1
    return result


def _where(entry: Mapping[str, Any]) -> str:
    """What an entry is called in messages."""
    if entry.get("event") == STEP:
        return f"Step {entry.get('version')}"
    return "Work given up" if entry.get("event") == GIVEN_UP else f"Round {entry.get('round')}"


def _check_event(
    entry: Mapping[str, Any],
    registrar: Registrar,
    population: Callable[[int], Population | None],
    called: Callable[[int], str] | None,
) -> None:
    """Do again what an entry of a log of overlapping rounds says."""
    if entry["event"] == SELECTED:
        _Round(cast(RoundEntry, entry), registrar, lambda t: Evidence(), called).check_selection(population)
    elif entry["event"] == GIVEN_UP:
        registrar.give_up(decode_ids(entry["ids"]), str(entry["reason"]))
    elif entry["event"] == STEP:
        _check_step(entry, registrar, called)
    else:
        raise Differs(f"the log has an event {shown(entry['event'])}, which is none.")


def _check_step(entry: Mapping[str, Any], registrar: Registrar, called: Callable[[int], str] | None) -> None:
    """Make a step again, of the updates that the log says arrived."""
    _same("version", registrar.version, entry["version"])
    received = decode_ids(entry["received"])
    signals = {signal.name: signal for signal in registrar.needs.reports}
    reports = {
        name: _rows(signals[name], answers, received, None, f"report {name!r}", called)
        for name, answers in (entry.get("reports") or {}).items()
    }
    step = registrar.receive(
        received,
        reports,
        discounts=_numbers(entry.get("discounts"), received.size),
        normalise=entry["normalise"],
        durations=_numbers(entry.get("durations"), received.size),
        blamed={int(client): reason for client, reason in (entry.get("blamed") or {}).items()},
        excused=entry.get("excused") or (),
    )
    _same("clients whose updates are used", encode_ids(step.ids), entry.get("used", entry["received"]))
    _same("weights", encode_numbers(step.weights), entry["weights"])
    _same("staleness", step.staleness.tolist() if step.staleness.any() else None, entry.get("staleness"))
    _same("refused numbers", json_value(dict(step.rejected)) or None, entry.get("rejected"))


def _numbers(logged: Any, count: int) -> Floats | None:
    return None if logged is None else decode_numbers(logged, count)


class _Round:
    """One round of a log, recomputed step by step."""

    def __init__(
        self,
        entry: RoundEntry,
        registrar: Registrar,
        evidence: Callable[[int], Evidence],
        called: Callable[[int], str] | None,
    ) -> None:
        if entry["round"] != registrar.index:
            raise Differs(f"the log should have round {registrar.index} here.")
        self.entry = entry
        self.registrar = registrar
        self.called = called
        self.evidence = evidence(registrar.index)

    def check(self, population: Callable[[int], Population | None]) -> None:
        """Raise Differs or Unknown unless the round is as the log has it."""
        self._finish(self._chosen(population))

    def check_selection(self, population: Callable[[int], Population | None]) -> None:
        """Raise Differs or Unknown unless the selection is as the log has it, and send its cohort to work."""
        _same("version", self.registrar.version, self.entry.get("version"))
        turn = self._chosen(population)
        _same("refused numbers", json_value(turn.rejected) or None, self.entry.get("rejected"))
        self.registrar.dispatch(turn)

    def _chosen(self, population: Callable[[int], Population | None]) -> Turn:
        """A turn that chose what the log has."""
        for key, expected in self.evidence.expected.items():
            _same(NAMES.get(key, key), expected, self.entry.get(key))
        if joined := self.entry.get("joined"):
            self._join(joined, population)
        available = decode_ids(self.entry["available"])
        in_flight = self.entry.get("in_flight")
        turn = self.registrar.begin(
            available,
            self.entry["budget"],
            in_flight=None if in_flight is None else decode_ids(in_flight),
            clock=self.entry.get("clock"),
            deadline=self.entry.get("deadline"),
            excluded={rule: decode_ids(ids) for rule, ids in (self.entry.get("excluded") or {}).items()},
        )
        _same("clients kept out by the guards", encode_kept_out(turn.kept_out), self.entry.get("kept_out"))
        for at, question in enumerate(self.entry.get("asked") or []):
            self._answer(turn, at, question)
        if turn.question is not None:
            name = turn.question.signal.name
            raise Differs(f"{self.registrar.owner} asks for {name!r}, a question that the log lacks.")
        self._compare_cohort(turn.cohort or Cohort.uniform([]))
        _same("remembered scales", _of_signals(turn.scales), _of_signals(self.entry.get("scales")))
        return turn

    def _join(self, joined: JoinedEntry, population: Callable[[int], Population | None]) -> None:
        grown = population(joined["clients"])
        if grown is None or digest_of(grown) != joined["population"]:
            raise Unknown(f"{joined['clients']} clients are known from here on, and their facts are not available.")
        self.registrar.join(grown)

    def _answer(self, turn: Turn, at: int, logged: QuestionEntry) -> None:
        question = turn.question
        if question is None:
            raise Differs(f"the log has a question for {logged['signal']!r} that is not asked.")
        name = question.signal.name
        if name != logged["signal"]:
            raise Differs(f"question {at + 1} should be for {name!r}; the log has {logged['signal']!r}.")
        asked = logged.get("ids", self.entry["available"])
        _same(f"clients asked for {name!r}", encode_ids(question.ids), asked)
        after = None if question.after is None else encode_cohort(question.after)
        _same("cohort of the rehearsal", after, logged.get("after"))
        sent = self.evidence.asked[at] if at < len(self.evidence.asked) else None
        what = f"answers to {name!r}"
        turn.answer(_rows(question.signal, logged["answers"], question.ids, sent, what, self.called))

    def _compare_cohort(self, cohort: Cohort) -> None:
        if self.called is not None and encode_ids(cohort.ids) != self.entry["cohort"]:
            logged = decode_ids(self.entry["cohort"])
            raise Differs(f"the cohort should be {self._named(cohort.ids)}; the log has {self._named(logged)}.")
        _same("cohort", encode_cohort(cohort), cohort_of(self.entry))
        _same("notes", encode_notes(cohort.notes), self.entry["notes"])

    def _named(self, ids: Ids) -> str:
        """Clients by name; at most a dozen."""
        if self.called is None:
            return shown(ids.tolist())
        return ", ".join(map(self.called, ids[:12].tolist())) + (", …" if ids.size > 12 else "")

    def _finish(self, turn: Turn) -> None:
        done, logged, sent = done_ids(self.entry), self.entry.get("reports") or {}, self.evidence.reports
        if missing := [name for name in sent if name not in logged]:
            raise Differs(f"the log lacks the report {missing[0]!r}.")
        signals = {signal.name: signal for signal in self.registrar.needs.reports}
        reports = {
            name: _rows(signals[name], one, done, sent.get(name), f"report {name!r}", self.called)
            for name, one in logged.items()
        }
        turn.blame({int(client): reason for client, reason in (self.entry.get("blamed") or {}).items()})
        turn.intake.excused |= set(self.entry.get("excused") or ())
        self.registrar.finish(turn, done, reports, durations=_numbers(self.entry.get("durations"), done.size))
        _same("refused numbers", json_value(turn.rejected) or None, self.entry.get("rejected"))


def _of_signals(scales: Mapping[str, float] | None) -> dict[str, float]:
    """The remembered scales of signals; that of models' updates, which a log does not hold, is left out."""
    return {name: scale for name, scale in (scales or {}).items() if name != MODEL}


def _rows(
    signal: Signal,
    logged: AnswersEntry,
    asked: Ids,
    sent: Answers | None,
    what: str,
    called: Callable[[int], str] | None,
) -> Answers:
    """The rows that the log holds, or, of vectors, those of a replay that have its digests."""
    if sent is not None:
        _same_rows(what, encode_answers(signal, sent, asked), logged, asked, called or "client {}".format)
        return sent
    ids = answer_ids(logged, asked)
    if "values" not in logged and ids.size:
        raise Unknown(f"the log holds only digests of the {what} of {ids.size} clients.")
    values = answer_values(logged, asked)
    odd = logged.get("odd")
    if not odd:
        return Reading(ids, values)
    rows: dict[int, Any] = dict(zip(ids.tolist(), values, strict=True))
    return rows | {int(k): "no number" if shape is None else np.broadcast_to(0.0, shape) for k, shape in odd.items()}


def _same(what: str, expected: Any, logged: Any) -> None:
    if expected == logged:
        return
    if isinstance(expected, Mapping) and isinstance(logged, Mapping):
        for key in {**expected, **logged}:
            _same(what if key == what else f"{what}'s {key}", expected.get(key), logged.get(key))
    raise Differs(f"the {what} should be {shown(expected)}; the log has {shown(logged)}.")


def _same_rows(
    what: str, expected: AnswersEntry, logged: AnswersEntry, asked: Ids, called: Callable[[int], str]
) -> None:
    """The same rows; else the first client whose row differs is named."""
    if expected == logged:
        return
    ids = answer_ids(expected, asked).tolist()
    for mine, other in (
        (expected.get("values"), logged.get("values")),
        (expected.get("sha256"), logged.get("sha256")),
    ):
        if isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
            for client, one, two in zip(ids, mine, other, strict=True):
                _same(f"{what} of {called(client)}", one, two)
    _same(what, expected, logged)
