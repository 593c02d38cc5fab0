"""Choices recomputed from an audit log: a fresh registrar is fed what the log says went in, and must choose the same.

Vectors stand in the log as digests only. Where they can be had again (a simulated run is played once more), they are
compared with the digests and fed in; where not, the rounds that depend on them are told as not recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.audit.encoding import decode_ids, decode_numbers, encode_ids, plain
from sortition.audit.log import FORMAT, digest_of, encode_answers, encode_cohort, encode_notes, kept_out
from sortition.core.arrays import Ids
from sortition.core.errors import SortitionError, shown
from sortition.core.guards.screening import Answers
from sortition.core.questions import Reading
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import Signal
from sortition.core.turn import Turn

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)  # of entries of another make
NAMES = {
    "available": "available clients",
    "joined": "population",
    "done": "completed clients",
    "blamed": "clients with refused updates",
}


@dataclass
class Evidence:
    """What is known of one round from elsewhere than the log: the set-up, or the run played again."""

    asked: list[Answers] = field(default_factory=list)  # what clients answered, in order
    reports: dict[str, Answers] = field(default_factory=dict)  # what they reported, by name
    told: dict[str, Any] = field(default_factory=dict)  # keys that the entry must hold so; None: must not hold


@dataclass
class Recomputation:
    """How far the choices were recomputed, and where they differ."""

    rounds: int = 0  # recomputed, all alike
    differences: list[str] = field(default_factory=list)
    left: str = ""  # why later rounds were not recomputed


class Differs(Exception):  # noqa: N818 (an outcome, not an error)
    """The log tells something else than the recomputation."""


class Unknown(Exception):  # noqa: N818
    """The log does not hold what the recomputation needs."""


def recompute(
    entries: Sequence[Mapping[str, Any]],
    registrar: Registrar,
    *,
    again: Callable[[int], Evidence] | None = None,
    population: Callable[[int], Population | None] = lambda clients: None,
    form: int = FORMAT,
) -> Recomputation:
    """Recompute the rounds of a log, in order, until one differs or lacks what is needed.

    Args:
        entries: those of the rounds, without the header.
        registrar: a fresh one of the same selection.
        again: what is known of a round from elsewhere: held against the log, and vectors are taken from it.
        population: the first so many clients, for logs of federations that clients joined.
        form: the log's format; older ones do not say whom the guards kept out, nor how many places stayed empty.
    """
    result = Recomputation()
    for entry in entries:
        where = f"Round {entry.get('round')}"
        try:
            _round(entry, registrar, again, population, form)
        except Differs as difference:
            result.differences.append(f"{where}: {difference}")
            result.left = "an earlier round differs"
            break
        except Unknown as reason:
            result.left = f"{where.lower()}: {reason}"
            break
        except SortitionError as error:
            result.differences.append(f"{where} cannot be recomputed: {error}")
            result.left = "an earlier round differs"
            break
        except UNREADABLE as error:
            result.differences.append(f"{where} cannot be read: {error!r}.")
            result.left = "an earlier round cannot be read"
            break
        result.rounds += 1
    return result


def _round(entry: Mapping[str, Any], registrar: Registrar, again: Any, population: Any, form: int) -> None:
    if entry["round"] != registrar.index:
        raise Differs(f"the log should tell of round {registrar.index} here.")
    heard = again(registrar.index) if again is not None else None
    for key, expected in ({} if heard is None else heard.told).items():
        _same(NAMES.get(key, key), expected, entry.get(key))
    _join(entry.get("joined"), registrar, population)
    available = decode_ids(entry["available"])
    turn = registrar.begin(available, entry["budget"])
    if form > 1 or "kept_out" in entry:
        _same("clients kept out by the guards", kept_out(turn, available) or None, entry.get("kept_out"))
    for at, asked in enumerate(entry.get("asked", [])):
        _answer(turn, at, asked, entry, heard)
    if turn.question is not None:
        raise Differs(f"{registrar.owner} asks for {turn.question.signal.name!r}, a question that the log lacks.")
    cohort = turn.cohort or Cohort.uniform([])
    _same(
        "cohort",
        encode_cohort(cohort),
        {key: entry[key] for key in ("cohort", "weights", "groups", "full") if key in entry},
    )
    noted = dict(cohort.notes)
    if form == 1 and encode_notes(noted) != entry["notes"]:
        noted.pop("shortfall", None)  # older versions did not note it
    _same("notes", encode_notes(noted), entry["notes"])
    done = decode_ids(entry["done"]) if "done" in entry else cohort.ids
    signals = {signal.name: signal for signal in registrar.needs.reports}
    told = entry.get("reports", {})
    if heard is not None and (missing := [name for name in heard.reports if name not in told]):
        raise Differs(f"the log lacks the report {missing[0]!r}.")
    reports = {
        name: _rows(signals[name], one, done, None if heard is None else heard.reports.get(name), f"report {name!r}")
        for name, one in told.items()
    }
    turn.blame({int(client): reason for client, reason in entry.get("blamed", {}).items()})
    registrar.finish(turn, done, reports)
    _same("refused numbers", plain(turn.rejected) or None, entry.get("rejected"))


def _join(told: Mapping[str, Any] | None, registrar: Registrar, population: Any) -> None:
    if told is None:
        return
    grown = population(told["clients"])
    if grown is None or digest_of(grown) != told["population"]:
        raise Unknown(f"{told['clients']} clients are known from here on, and their facts are not at hand.")
    registrar.join(grown)


def _answer(turn: Turn, at: int, asked: Mapping[str, Any], entry: Mapping[str, Any], heard: Evidence | None) -> None:
    question = turn.question
    if question is None:
        raise Differs(f"the log has a question for {asked['signal']!r} that is not asked.")
    if question.signal.name != asked["signal"]:
        raise Differs(f"question {at + 1} should be for {question.signal.name!r}; the log has {asked['signal']!r}.")
    ids = encode_ids(question.ids)
    _same(f"clients asked for {question.signal.name!r}", ids, asked.get("ids", entry["available"]))
    after = None if question.after is None else encode_cohort(question.after)
    _same("cohort of the rehearsal", after, asked.get("after"))
    sent = heard.asked[at] if heard is not None and at < len(heard.asked) else None
    turn.answer(_rows(question.signal, asked["answers"], question.ids, sent, f"answers to {question.signal.name!r}"))


def _rows(signal: Signal, told: Mapping[str, Any], asked: Ids, sent: Answers | None, what: str) -> Answers:
    """The rows that the log tells, or, of vectors, those that were sent again and have its digests."""
    if sent is not None:
        _same_rows(what, encode_answers(signal, sent, asked), told, asked)
        return sent
    ids = decode_ids(told["ids"]) if "ids" in told else asked
    if "values" not in told and ids.size:
        raise Unknown(f"{what} of {ids.size} clients stand in the log by digest only.")
    values = decode_numbers(told["values"], ids.size, told["dtype"]) if ids.size else np.empty(0)
    if not told.get("odd"):
        return Reading(ids, values)
    rows: dict[int, Any] = dict(zip(ids.tolist(), values, strict=True))
    return rows | {
        int(k): "no number" if shape is None else np.broadcast_to(0.0, shape) for k, shape in told["odd"].items()
    }


def _same(what: str, expected: Any, logged: Any) -> None:
    if expected == logged:
        return
    if isinstance(expected, Mapping) and isinstance(logged, Mapping):
        for key in {**expected, **logged}:
            _same(what if key == what else f"{what}'s {key}", expected.get(key), logged.get(key))
    raise Differs(f"the {what} should be {shown(expected)}; the log has {shown(logged)}.")


def _same_rows(what: str, expected: Mapping[str, Any], logged: Mapping[str, Any], asked: Ids) -> None:
    """The same rows; else the first client whose row differs is named."""
    if expected == logged:
        return
    ids = decode_ids(expected["ids"]).tolist() if "ids" in expected else asked.tolist()
    for key in ("values", "sha256"):
        mine, theirs = expected.get(key), logged.get(key)
        if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
            for client, one, other in zip(ids, mine, theirs, strict=True):
                _same(f"{what} of client {client}", one, other)
    _same(what, expected, logged)
