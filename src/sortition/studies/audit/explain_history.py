"""Why a client was chosen, or was not, as far as the history of a federation tells it without an audit log."""

from __future__ import annotations

from typing import Any

from sortition.audit.encoding import decode_ids
from sortition.core.errors import bad
from sortition.core.record import RoundRecord
from sortition.results.history import History, cohort_of, fates
from sortition.results.names import ClientNames, printable
from sortition.studies.audit.explain import REASON, chosen_sentence, fate_sentence, noted, short_fate

ONLY_A_LOG = (
    "Only an audit log could tell what each client answered, whom the guards kept out, and that nobody changed the "
    'history; a federation that is given audit="audit.jsonl" keeps one.'
)
NOT_AVAILABLE = (
    "A client is not available while it is offline, not eligible, still at work for an earlier round, or left out for "
    "a while after silence; the history does not say which."
)


def cohort(history: History, t: int, names: ClientNames) -> list[str]:
    """A whole round in words."""
    record = _record(history, t)
    said = [
        f"Round {t}: {record.get('available', '?')} of {known_clients(history, t)} clients were available; a round of "
        f"{history.method} is to use {history.cohort}."
    ]
    if busy := record.get("busy"):
        said.append(f"{busy} more were online, and still at work for an earlier round.")
    said += _questions(record)
    members = cohort_of(record)
    if not members:
        said.append("Nobody was chosen.")
    outcome = fates(record)
    for member, weight in zip(members, record.get("weights") or [], strict=True):
        end = "" if outcome[member] == "used" else f"; {short_fate(record, member)}"
        said.append(f"{names.at_the_start(member)} was chosen with weight {weight:.4g}{end}.")
    if late := record.get("late"):
        said.append(f"Answers to earlier rounds came from {names.listed(late)}: too late to be used.")
    return [*said, *noted(_notes(record)), ONLY_A_LOG]


def client(history: History, t: int, who: int, names: ClientNames) -> list[str]:
    """One client in one round, in words."""
    record = _record(history, t)
    members = cohort_of(record)
    said = [*_available(record, t, who, names, history.method), *_questions(record)]
    away = "present" in record and who not in decode_ids(record["present"])
    if who in members:
        said.append(chosen_sentence(members, record.get("weights") or [], members.index(who)))
        explored = (record.get("notes") or {}).get("guards") or {}
        if who in (explored.get("explored") or ()):
            said.append(f"That was the guards' doing: it was drawn to explore, not chosen by {history.method}.")
        used = fates(record)[who] == "used"
        said.append("Its update was used." if used else fate_sentence(record, who))
    elif away:
        pass
    elif members:
        said.append(f"It was not chosen; {history.method} chose {names.listed(members)}.")
    else:
        said.append("It was not chosen: nobody was.")
    if who in (record.get("late") or ()):
        said.append("Its answer to an earlier round came in this one: too late to be used.")
    if reason := (record.get("rejected") or {}).get(str(who)):
        said.append(f"Numbers that it sent were withheld from {history.method}: {printable(str(reason), REASON)}.")
    return [*said, *noted(_notes(record)), _before(history, t, who), ONLY_A_LOG]


def known_clients(history: History, t: int) -> int:
    """How many clients were known in a round."""
    return _record(history, t).get("members") or history.clients


def _record(history: History, t: int) -> RoundRecord:
    rounds = history.played()
    record = history.record(t)
    if record is None:
        raise bad("--round", f"{rounds[0]['round']} to {rounds[-1]['round']}, as this history has them", t)
    return record


def _available(record: RoundRecord, t: int, who: int, names: ClientNames, method: str) -> list[str]:
    subject = names.at_the_start(who)
    if "present" not in record:
        return [f"The history does not say whether {names.called(who)} was available in round {t}."]
    present = decode_ids(record["present"])
    if who in present:
        return [f"{subject} was one of {present.size} clients available in round {t}."]
    return [f"{subject} was not available in round {t}, so {method} could not choose it.", NOT_AVAILABLE]


def _questions(record: RoundRecord) -> list[str]:
    return [
        f"{question['asked']} clients were asked for {printable(question['signal'])}; "
        f"{question.get('answered', '?')} answered."
        for question in record.get("questions") or []
    ]


def _notes(record: RoundRecord) -> dict[str, Any]:
    """The notes that say something."""
    return {key: value for key, value in (record.get("notes") or {}).items() if value not in ({}, [])}


def _before(history: History, t: int, who: int) -> str:
    """How often it was there, chosen and used before."""
    earlier = [record for record in history.records if record["round"] < t]
    chosen = [record for record in earlier if who in cohort_of(record)]
    used = sum(fates(record)[who] == "used" for record in chosen)
    last = f", last in round {chosen[-1]['round']}" if chosen else ""
    there = sum(who in decode_ids(record["present"]) for record in earlier if "present" in record)
    known = f"available in {there} of {len(earlier)} rounds, " if history.says_who_was_there else ""
    return f"Before, it was {known}chosen in {len(chosen)}{last}, and its update was used in {used}."
