"""The entries of an audit log, for writers and readers: the keys of each line, and what an absent key means.

Ids and numbers are as :mod:`sortition.audit.encoding` writes them. A key without a value is left out of the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import numpy as np

from sortition.audit.encoding import EncodedIds, EncodedNumbers, decode_ids, decode_numbers
from sortition.core.arrays import Floats, Ids

FORMAT = 1  # of the log, in its first line

JsonObject = dict[str, Any]  # parameters and notes of a method: whatever JSON holds
Entry = Mapping[str, Any]  # a line of the log, of any kind
EntryT = TypeVar("EntryT")


class Header(TypedDict):
    """The first line: which selection this is, and the commitment to its seed."""

    format: int
    selector: str
    parameters: JsonObject
    guards: NotRequired[JsonObject | None]
    clients: int
    population: str
    horizon: int | None
    commitment: str
    versions: dict[str, str]


class CohortEntry(TypedDict):
    """Who was chosen, and with what weight."""

    cohort: EncodedIds
    weights: EncodedNumbers
    groups: NotRequired[list[int] | None]
    full: NotRequired[bool | None]
    mass: NotRequired[str | None]  # "expected": the weights sum to 1 in expectation only
    expected_size: NotRequired[float | None]  # of a cohort whose size is random


class AnswersEntry(TypedDict):
    """What arrived, before it was screened: scalars in full, vectors by digest, rows of another form by their shape."""

    ids: NotRequired[EncodedIds | None]  # absent: all who were asked
    dtype: str
    values: NotRequired[EncodedNumbers | None]
    shape: NotRequired[list[int] | None]
    sha256: NotRequired[str | list[str] | None]
    odd: NotRequired[dict[str, list[int] | None] | None]


class QuestionEntry(TypedDict):
    """One question and its answers."""

    signal: str
    ids: NotRequired[EncodedIds | None]  # absent: all who were available
    after: NotRequired[CohortEntry | None]
    answers: AnswersEntry


class JoinedEntry(TypedDict):
    """The population from this round on."""

    clients: int
    population: str


class RoundEntry(TypedDict):
    """One round, or one selection where rounds overlap (``event = "selected"``)."""

    event: NotRequired[str]
    round: int
    version: NotRequired[int]  # of the model that the chosen train, where rounds overlap
    clock: NotRequired[float | None]  # seconds since the start
    deadline: NotRequired[float | None]  # seconds after which nobody waited for the chosen any longer
    in_flight: NotRequired[EncodedIds | None]  # who was at work
    budget: int
    available: EncodedIds
    joined: NotRequired[JoinedEntry | None]
    excluded: NotRequired[dict[str, EncodedIds] | None]  # by a policy: rule → clients
    kept_out: NotRequired[dict[str, EncodedIds] | None]  # by the guards: reason → clients
    asked: NotRequired[list[QuestionEntry] | None]
    cohort: EncodedIds
    weights: EncodedNumbers
    groups: NotRequired[list[int] | None]
    full: NotRequired[bool | None]
    mass: NotRequired[str | None]  # "expected": the weights sum to 1 in expectation only
    expected_size: NotRequired[float | None]  # of a cohort whose size is random
    notes: JsonObject
    done: NotRequired[EncodedIds | None]  # absent: the whole cohort
    durations: NotRequired[EncodedNumbers | None]  # seconds from dispatch to arrival of those who completed
    reports: NotRequired[dict[str, AnswersEntry] | None]
    rejected: NotRequired[dict[str, str] | None]  # client → why its numbers were refused
    blamed: NotRequired[dict[str, str] | None]  # client → why its update was refused
    excused: NotRequired[list[int] | None]  # of these, whose refused update is no strike
    scales: NotRequired[dict[str, float] | None]  # remembered when the round began, by signal; "model": of updates


class GivenUpEntry(TypedDict):
    """Work that ended without an update (``event = "given up"``)."""

    event: str
    ids: EncodedIds
    reason: str


class StepEntry(TypedDict):
    """One step where rounds overlap (``event = "step"``): whose updates arrived, and how they were used."""

    event: str
    version: int
    received: EncodedIds
    used: NotRequired[EncodedIds | None]  # absent: all that were received
    staleness: NotRequired[list[int] | None]  # absent: all are fresh
    discounts: NotRequired[EncodedNumbers | None]
    normalise: str
    weights: EncodedNumbers
    durations: NotRequired[EncodedNumbers | None]
    reports: NotRequired[dict[str, AnswersEntry] | None]
    rejected: NotRequired[dict[str, str] | None]
    blamed: NotRequired[dict[str, str] | None]
    excused: NotRequired[list[int] | None]


class Disclosure(TypedDict):
    """What is published beside the log when a federation is over."""

    seed: int
    salt: str
    entries: int
    final: str
    facts: NotRequired[dict[str, list[Any]] | None]
    types: NotRequired[dict[str, str] | None]
    known: NotRequired[list[int] | None]
    names: NotRequired[list[str]]  # of the clients by id, where the operator discloses them


COHORT_KEYS = tuple(CohortEntry.__annotations__)


def drop_empty_keys(entry: EntryT, *always: str) -> EntryT:
    """Return the entry without the keys that have no value; those in ``always`` stay."""
    items = cast(Entry, entry).items()
    return cast(EntryT, {key: value for key, value in items if value is not None or key in always})


def cohort_of(entry: RoundEntry) -> CohortEntry:
    """Return the keys of the entry that describe its cohort."""
    return cast(CohortEntry, {key: value for key, value in entry.items() if key in COHORT_KEYS})


def asked_ids(question: QuestionEntry, entry: RoundEntry) -> Ids:
    """Return who was asked."""
    return decode_ids(question.get("ids", entry["available"]))


def answer_ids(answers: AnswersEntry, asked: Ids) -> Ids:
    """Return who answered."""
    if "ids" not in answers:
        return asked
    return decode_ids(answers["ids"])


def answer_values(answers: AnswersEntry, asked: Ids) -> Floats:
    """Return the scalars that clients answered."""
    count = answer_ids(answers, asked).size
    if count == 0:
        return np.empty(0)
    return decode_numbers(answers["values"], count, answers["dtype"])


def done_ids(entry: RoundEntry) -> Ids:
    """Return who completed."""
    return decode_ids(entry.get("done", entry["cohort"]))
