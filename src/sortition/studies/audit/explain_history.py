"""Why a client was chosen, or was not, as far as the history of a federation tells it without an audit log."""

from __future__ import annotations

from sortition.audit.encoding import decode_ids
from sortition.core.arrays import Ids
from sortition.core.errors import bad, printable
from sortition.core.round_record import RoundRecord, cohort_ids
from sortition.results.history import History
from sortition.results.names import ClientNames
from sortition.studies.audit.explain import (
    MAX_REASON,
    chosen_sentence,
    excluded_sentence,
    explored_sentence,
    fate_sentence,
    not_eligible_sentence,
    note_sentences,
    short_fate,
)
from sortition.studies.audit.log_reader import reading
from sortition.studies.types import TomlTable

ONLY_A_LOG = (
    "Only an audit log could tell what each client answered, whom the guards kept out, and that nobody changed the "
    'history; a federation that is given audit="audit.jsonl" keeps one.'
)
NOT_AVAILABLE = (
    "A client is not available while it is offline, not eligible, still at work for an earlier round, or left out for "
    "a while after silence; the history does not say which."
)


def explain_cohort(history: History, t: int, names: ClientNames) -> list[str]:
    """Explain a whole round."""
    record = _record(history, t)
    sentences = [
        f"Round {t}: {record.get('available', '?')} of {known_clients(history, t)} clients were available; a round of "
        f"{history.method} is to use {history.cohort}."
    ]
    if busy := record.get("busy"):
        sentences.append(f"{busy} more were online, and still at work for an earlier round.")
    sentences += [excluded_sentence(rule, ids.tolist(), names) for rule, ids in _excluded(record).items()]
    sentences += _question_sentences(record)
    members = cohort_ids(record)
    if not members:
        sentences.append("Nobody was chosen.")
    outcomes = history.outcomes[t]
    for member, weight in zip(members, record.get("weights") or [], strict=True):
        sentence = f"{names.sentence_start(member)} was chosen with weight {weight:.4g}"
        outcome = outcomes[member]
        if outcome.fate != "used":
            sentence += f"; {short_fate(outcome)}"
        elif outcome.round != t:
            sentence += f"; used in round {outcome.round}"
        sentences.append(f"{sentence}.")
    if late := record.get("late"):
        sentences.append(f"Answers to earlier rounds came from {names.list_clients(late)}: too late to be used.")
    return [*sentences, *note_sentences(_notes(record)), ONLY_A_LOG]


def explain_client(history: History, t: int, client_id: int, names: ClientNames) -> list[str]:
    """Explain one client in one round."""
    record = _record(history, t)
    sentences = _availability_sentences(record, client_id, names=names, method=history.method)
    sentences += _question_sentences(record)
    members = cohort_ids(record)
    if client_id in members:
        sentences.append(chosen_sentence(record.get("weights") or [], members.index(client_id)))
        guard_notes = (record.get("notes") or {}).get("guards") or {}
        if client_id in (guard_notes.get("explored") or ()):
            sentences.append(explored_sentence(history.method))
        outcome = history.outcomes[t][client_id]
        if outcome.fate != "used":
            sentences.append(fate_sentence(outcome))
        elif outcome.round == t:
            sentences.append("Its update was used.")
        else:
            sentences.append(f"Its update was used in round {outcome.round}.")
    else:
        sentences += _not_chosen_sentences(history, record, client_id, names)
    if client_id in (record.get("late") or ()):
        sentences.append("Its answer to an earlier round came in this one: too late to be used.")
    if reason := (record.get("rejected") or {}).get(str(client_id)):
        shown_reason = printable(str(reason), MAX_REASON)
        sentences.append(f"Numbers that it sent were withheld from {history.method}: {shown_reason}.")
    return [*sentences, *note_sentences(_notes(record)), _earlier_rounds(history, t, client_id), ONLY_A_LOG]


def _not_chosen_sentences(history: History, record: RoundRecord, client_id: int, names: ClientNames) -> list[str]:
    """Say why a client was not chosen, as far as the record tells it; nothing of one that was away."""
    for rule, ids in _excluded(record).items():
        if client_id in ids:
            return [not_eligible_sentence(rule, history.method)]
    if _was_away(record, client_id):
        return []
    members = cohort_ids(record)
    if not members:
        return ["It was not chosen: nobody was."]
    return [f"It was not chosen; {history.method} chose {names.list_clients(members)}."]


def known_clients(history: History, t: int) -> int:
    """Return how many clients were known in a round."""
    return _record(history, t).get("members") or history.clients


def _record(history: History, t: int) -> RoundRecord:
    rounds = history.played_records()
    record = history.record(t)
    if record is None:
        raise bad("--round", f"{rounds[0]['round']} to {rounds[-1]['round']}, as this history has them", t)
    return record


def _excluded(record: RoundRecord) -> dict[str, Ids]:
    """Return whom each rule of a policy left out; a very large federation's history does not say whom."""
    with reading(record["round"]):
        return {rule: decode_ids(ids) for rule, ids in (record.get("excluded_ids") or {}).items()}


def _was_away(record: RoundRecord, client_id: int) -> bool:
    """Tell whether the record says that a client was not available."""
    return "present" in record and client_id not in decode_ids(record["present"])


def _availability_sentences(record: RoundRecord, client_id: int, *, names: ClientNames, method: str) -> list[str]:
    t = record["round"]
    if "present" not in record:
        return [f"The history does not say whether {names.name_with_id(client_id)} was available in round {t}."]
    subject = names.sentence_start(client_id)
    if _was_away(record, client_id):
        return [f"{subject} was not available in round {t}, so {method} could not choose it.", NOT_AVAILABLE]
    return [f"{subject} was one of {decode_ids(record['present']).size} clients available in round {t}."]


def _question_sentences(record: RoundRecord) -> list[str]:
    return [
        f"{question['asked']} clients were asked for {printable(question['signal'])}; "
        f"{question.get('answered', '?')} answered."
        for question in record.get("questions") or []
    ]


def _notes(record: RoundRecord) -> TomlTable:
    """Return the notes that say something."""
    return {key: value for key, value in (record.get("notes") or {}).items() if value not in ({}, [])}


def _earlier_rounds(history: History, t: int, client_id: int) -> str:
    """Say how often a client was available, chosen and used before."""
    earlier = [record for record in history.records if record["round"] < t]
    chosen = [record for record in earlier if client_id in cohort_ids(record)]
    outcomes = [history.outcomes[record["round"]][client_id] for record in chosen]
    n_used = sum(outcome.fate == "used" and (outcome.round or 0) < t for outcome in outcomes)
    if chosen:
        last = f", last in round {chosen[-1]['round']}"
    else:
        last = ""
    available = ""
    if history.says_who_was_there:
        n_available = sum("present" in record and not _was_away(record, client_id) for record in earlier)
        available = f"available in {n_available} of {len(earlier)} rounds, "
    return f"Before, it was {available}chosen in {len(chosen)}{last}, and its update was used in {n_used}."
