"""Recompute the choices of an audit log: a fresh registrar gets the logged inputs, and must choose the same clients.

Of vectors the log holds only digests. Where the vectors are available (a simulated run can be replayed), they are
compared with the digests and used; otherwise the rounds that depend on them are reported as not recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from sortition.audit.encoding import EncodedNumbers, decode_ids, decode_numbers, encode_ids, encode_numbers, json_value
from sortition.audit.entry_schema import (
    AnswersEntry,
    Entry,
    GivenUpEntry,
    JoinedEntry,
    QuestionEntry,
    RoundEntry,
    StepEntry,
    answer_ids,
    answer_values,
    cohort_of,
    done_ids,
)
from sortition.audit.entry_writer import (
    encode_answers,
    encode_cohort,
    encode_kept_out,
    encode_notes,
    encode_rehearsal,
    population_digest,
)
from sortition.audit.events import GIVEN_UP, SELECTED, STEP
from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import Cohort
from sortition.core.errors import SortitionError, show_value
from sortition.core.guards.answer_screening import Answers
from sortition.core.guards.scales import MODEL
from sortition.core.in_flight import Normalise
from sortition.core.population import Population
from sortition.core.questions import Reading
from sortition.core.registrar import Registrar
from sortition.core.signals import Signal
from sortition.core.turn import Turn

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)  # of entries of another form
MAX_NAMED = 12  # clients that a message names
KEY_NAMES = {  # how messages call the keys of an entry
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
    """What is known about one round from elsewhere than the log: the configuration, or a replay of the run.

    Attributes:
        answers: what clients answered to each question, in order.
        reports: what they reported after training, by the signal's name.
        expected: values that the entry's keys must have; None means that the key is absent.
    """

    answers: list[Answers] = field(default_factory=list)
    reports: dict[str, Answers] = field(default_factory=dict)
    expected: dict[str, object] = field(default_factory=dict)


EvidenceSource = Callable[[int], Evidence]  # round → evidence
PopulationSource = Callable[[int], Population | None]  # number of clients → the first so many clients, if known
ClientName = Callable[[int], str]  # id → the client's name in messages


@dataclass
class Recomputation:
    """How far the choices were recomputed, and where they differ.

    Attributes:
        rounds: how many entries were recomputed and agree.
        differences: where the log and the recomputation differ, as sentences.
        stopped_because: why later rounds were not recomputed; empty where all were.
    """

    rounds: int = 0
    differences: list[str] = field(default_factory=list)
    stopped_because: str = ""


class Differs(Exception):  # noqa: N818 (an outcome, not an error)
    """The log has something else than the recomputation."""


class Unknown(Exception):  # noqa: N818
    """The log does not hold what the recomputation needs."""


def recompute(
    entries: Sequence[Entry],
    registrar: Registrar,
    *,
    evidence: EvidenceSource = lambda t: Evidence(),
    population: PopulationSource = lambda clients: None,
    client_name: ClientName | None = None,
) -> Recomputation:
    """Recompute the rounds of a log, in order, until one differs or lacks what is needed.

    Args:
        entries: the entries of the rounds, without the header.
        registrar: a fresh registrar of the same selection.
        evidence: returns what is known about a round from elsewhere: it is compared with the log, and vectors are
            taken from it.
        population: returns the first so many clients, for logs of federations that clients joined.
        client_name: returns how messages call a client, where names are known.
    """
    recomputer = _Recomputer(registrar, evidence=evidence, population=population, client_name=client_name)
    result = Recomputation()
    for entry in entries:
        name = _name_of(entry)
        try:
            recomputer.check(entry)
        except Differs as difference:
            result.differences.append(f"{name}: {difference}")
            result.stopped_because = "an earlier round differs"
        except Unknown as reason:
            result.stopped_because = f"{name.lower()}: {reason}"
        except SortitionError as error:
            result.differences.append(f"{name} cannot be recomputed: {error}")
            result.stopped_because = "an earlier round differs"
        except UNREADABLE as error:
            result.differences.append(f"{name} cannot be read: {error!r}.")
            result.stopped_because = "an earlier round cannot be read"
        if result.stopped_because:
            break
        result.rounds += 1
    return result


def _name_of(entry: Entry) -> str:
    """Return how messages call an entry."""
    if entry.get("event") == STEP:
        return f"Step {entry.get('version')}"
    if entry.get("event") == GIVEN_UP:
        return "Work given up"
    return f"Round {entry.get('round')}"


class _Recomputer:
    """Repeats the entries of a log, in order, on a registrar; raises Differs or Unknown at the first that differs."""

    def __init__(
        self,
        registrar: Registrar,
        *,
        evidence: EvidenceSource,
        population: PopulationSource,
        client_name: ClientName | None,
    ) -> None:
        self.registrar = registrar
        self.evidence_of = evidence
        self.population_of = population
        self.client_name = client_name

    def check(self, entry: Entry) -> None:
        """Repeat one entry."""
        if "event" not in entry:
            self._check_round(cast(RoundEntry, entry))
        elif entry["event"] == SELECTED:
            self._check_selection(cast(RoundEntry, entry))
        elif entry["event"] == GIVEN_UP:
            self._give_up(cast(GivenUpEntry, entry))
        elif entry["event"] == STEP:
            self._check_step(cast(StepEntry, entry))
        else:
            raise Differs(f"the log has an event {show_value(entry['event'])}, which does not exist.")

    def _check_round(self, entry: RoundEntry) -> None:
        """Repeat a whole round."""
        self._check_index(entry)
        evidence = self.evidence_of(self.registrar.index)
        turn = self._choose(entry, evidence)
        self._finish(entry, turn, evidence)

    def _check_selection(self, entry: RoundEntry) -> None:
        """Repeat a selection whose round overlaps with others, and send its cohort to work."""
        self._check_index(entry)
        _check_equal("version", self.registrar.version, entry.get("version"))
        turn = self._choose(entry, Evidence())
        _check_equal("refused numbers", json_value(turn.rejected) or None, entry.get("rejected"))
        self.registrar.dispatch(turn)

    def _give_up(self, entry: GivenUpEntry) -> None:
        self.registrar.give_up(decode_ids(entry["ids"]), str(entry["reason"]))

    def _check_step(self, entry: StepEntry) -> None:
        """Repeat a step with the updates that arrived by the log."""
        _check_equal("version", self.registrar.version, entry["version"])
        received = decode_ids(entry["received"])
        step = self.registrar.receive(
            received,
            self._reports(entry.get("reports") or {}, received, Evidence()),
            discounts=_decode_optional(entry.get("discounts"), received.size),
            normalise=cast(Normalise, entry["normalise"]),
            durations=_decode_optional(entry.get("durations"), received.size),
            blamed=_reasons_by_client(entry.get("blamed")),
            excused=entry.get("excused") or (),
        )
        staleness = step.staleness.tolist() if step.staleness.any() else None
        logged_ids = entry.get("used", entry["received"])
        _check_equal("clients whose updates are used", encode_ids(step.ids), logged_ids)
        _check_equal("weights", encode_numbers(step.weights), entry["weights"])
        _check_equal("staleness", staleness, entry.get("staleness"))
        _check_equal("refused numbers", json_value(dict(step.rejected)) or None, entry.get("rejected"))

    def _check_index(self, entry: RoundEntry) -> None:
        if entry["round"] != self.registrar.index:
            raise Differs(f"the log should have round {self.registrar.index} here.")

    def _choose(self, entry: RoundEntry, evidence: Evidence) -> Turn:
        """Begin a turn, answer its questions, and compare its choice with the log."""
        for key, expected in evidence.expected.items():
            _check_equal(KEY_NAMES.get(key, key), expected, entry.get(key))
        joined = entry.get("joined")
        if joined:
            self._join(joined)
        turn = self._begin(entry)
        _check_equal("clients kept out by the guards", encode_kept_out(turn.kept_out), entry.get("kept_out"))
        for number, question in enumerate(entry.get("asked") or [], 1):
            replayed = evidence.answers[number - 1] if number <= len(evidence.answers) else None
            self._answer(turn, entry, question, number=number, replayed=replayed)
        if turn.question is not None:
            signal = turn.question.signal.name
            raise Differs(f"{self.registrar.method_name} asks for {signal!r}, a question that the log lacks.")
        self._compare_cohort(turn.cohort or Cohort.uniform([]), entry)
        _check_equal(
            "remembered scales", _without_update_scale(turn.scales), _without_update_scale(entry.get("scales"))
        )
        return turn

    def _join(self, joined: JoinedEntry) -> None:
        """Let the clients join that joined by the log."""
        population = self.population_of(joined["clients"])
        if population is None or population_digest(population) != joined["population"]:
            raise Unknown(f"{joined['clients']} clients are known from here on, and their facts are not available.")
        self.registrar.join(population)

    def _begin(self, entry: RoundEntry) -> Turn:
        """Begin the turn of an entry."""
        in_flight = None
        if entry.get("in_flight") is not None:
            in_flight = decode_ids(entry["in_flight"])
        return self.registrar.begin(
            decode_ids(entry["available"]),
            entry["budget"],
            in_flight=in_flight,
            clock=entry.get("clock"),
            deadline=entry.get("deadline"),
            excluded={rule: decode_ids(ids) for rule, ids in (entry.get("excluded") or {}).items()},
        )

    def _answer(
        self, turn: Turn, entry: RoundEntry, logged: QuestionEntry, *, number: int, replayed: Answers | None
    ) -> None:
        """Compare a question with the log, and answer it; ``replayed`` is its answer in a replay."""
        question = turn.question
        if question is None:
            raise Differs(f"the log has a question for {logged['signal']!r} that is not asked.")
        signal = question.signal.name
        if signal != logged["signal"]:
            raise Differs(f"question {number} should be for {signal!r}; the log has {logged['signal']!r}.")
        logged_ids = logged.get("ids", entry["available"])
        _check_equal(f"clients asked for {signal!r}", encode_ids(question.ids), logged_ids)
        _check_equal("cohort of the rehearsal", encode_rehearsal(question.after), logged.get("after"))
        answers = self._rows(
            question.signal, logged["answers"], asked=question.ids, replayed=replayed, what=f"answers to {signal!r}"
        )
        turn.answer(answers)

    def _compare_cohort(self, cohort: Cohort, entry: RoundEntry) -> None:
        if self.client_name is not None and encode_ids(cohort.ids) != entry["cohort"]:
            expected = _name_clients(cohort.ids, self.client_name)
            logged = _name_clients(decode_ids(entry["cohort"]), self.client_name)
            raise Differs(f"the cohort should be {expected}; the log has {logged}.")
        _check_equal("cohort", encode_cohort(cohort), cohort_of(entry))
        _check_equal("notes", encode_notes(cohort.notes), entry["notes"])

    def _finish(self, entry: RoundEntry, turn: Turn, evidence: Evidence) -> None:
        """Finish a round with what the log has of its reports and refused updates."""
        completed = done_ids(entry)
        logged_reports = entry.get("reports") or {}
        for name in evidence.reports:
            if name not in logged_reports:
                raise Differs(f"the log lacks the report {name!r}.")
        reports = self._reports(logged_reports, completed, evidence)
        turn.blame(_reasons_by_client(entry.get("blamed")))
        turn.intake.excused |= set(entry.get("excused") or ())
        durations = _decode_optional(entry.get("durations"), completed.size)
        self.registrar.finish(turn, completed, reports, durations=durations)
        _check_equal("refused numbers", json_value(turn.rejected) or None, entry.get("rejected"))

    def _reports(
        self, logged_reports: Mapping[str, AnswersEntry], completed: Ids, evidence: Evidence
    ) -> dict[str, Answers]:
        """Return what clients reported, by the signal's name."""
        signals = {signal.name: signal for signal in self.registrar.needs.reports}
        return {
            name: self._rows(
                signals[name], logged, asked=completed, replayed=evidence.reports.get(name), what=f"report {name!r}"
            )
            for name, logged in logged_reports.items()
        }

    def _rows(
        self, signal: Signal, logged: AnswersEntry, *, asked: Ids, replayed: Answers | None, what: str
    ) -> Answers:
        """Return the rows that the log holds; of vectors those of a replay, if they have the logged digests.

        Args:
            signal: the signal that was asked for or reported.
            logged: what the log holds of the rows.
            asked: who was asked for them.
            replayed: the rows in a replay; None where there is no replay.
            what: how messages call the rows.
        """
        if replayed is not None:
            client_name = self.client_name or "client {}".format
            _check_equal_rows(
                what, encode_answers(signal, replayed, asked), logged, asked=asked, client_name=client_name
            )
            return replayed
        ids = answer_ids(logged, asked)
        if "values" not in logged and ids.size:
            raise Unknown(f"the log holds only digests of the {what} of {ids.size} clients.")
        values = answer_values(logged, asked)
        odd_shapes = logged.get("odd")
        if not odd_shapes:
            return Reading(ids, values)
        rows: dict[int, Any] = dict(zip(ids.tolist(), values, strict=True))
        for client, shape in odd_shapes.items():
            rows[int(client)] = "no number" if shape is None else np.broadcast_to(0.0, shape)
        return rows


def _reasons_by_client(reasons: Mapping[str, str] | None) -> dict[int, str]:
    """Return the reasons of a log, in which ids are texts, by id."""
    return {int(client): reason for client, reason in (reasons or {}).items()}


def _decode_optional(logged: EncodedNumbers | None, count: int) -> Floats | None:
    if logged is None:
        return None
    return decode_numbers(logged, count)


def _without_update_scale(scales: Mapping[str, float] | None) -> dict[str, float]:
    """Return the remembered scales of signals, without that of models' updates, which a log does not hold."""
    return {name: scale for name, scale in (scales or {}).items() if name != MODEL}


def _name_clients(ids: Ids, client_name: ClientName) -> str:
    """Return clients by name; at most a dozen."""
    names = [client_name(client) for client in ids[:MAX_NAMED].tolist()]
    if ids.size > MAX_NAMED:
        names.append("…")
    return ", ".join(names)


def _check_equal(what: str, expected: object, logged: object) -> None:
    """Raise Differs unless the log has the expected value; of mappings the first key that differs is named."""
    if expected == logged:
        return
    if isinstance(expected, Mapping) and isinstance(logged, Mapping):
        for key in {**expected, **logged}:
            key_name = what if key == what else f"{what}'s {key}"
            _check_equal(key_name, expected.get(key), logged.get(key))
    raise Differs(f"the {what} should be {show_value(expected)}; the log has {show_value(logged)}.")


def _check_equal_rows(
    what: str, expected: AnswersEntry, logged: AnswersEntry, *, asked: Ids, client_name: ClientName
) -> None:
    """Raise Differs unless the log has the expected rows; the first client whose row differs is named."""
    if expected == logged:
        return
    ids = answer_ids(expected, asked).tolist()
    for expected_rows, logged_rows in (
        (expected.get("values"), logged.get("values")),
        (expected.get("sha256"), logged.get("sha256")),
    ):
        if not isinstance(expected_rows, list) or not isinstance(logged_rows, list):
            continue
        if len(expected_rows) != len(logged_rows):
            continue
        for client, expected_row, logged_row in zip(ids, expected_rows, logged_rows, strict=True):
            _check_equal(f"{what} of {client_name(client)}", expected_row, logged_row)
    _check_equal(what, expected, logged)
