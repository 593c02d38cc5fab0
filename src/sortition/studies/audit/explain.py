"""Why a client was chosen, or was not: one round of an audit log, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sortition.audit.schema import AnswersEntry, answer_ids, answer_values
from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.record import RoundRecord
from sortition.results.history import fates
from sortition.results.names import ClientNames, printable
from sortition.studies.audit.log_reader import DecodedRound, Log, reading

__all__ = ["Log", "client", "cohort"]
NO_NAMES = ClientNames()
REASON = 200  # characters of a reason that a client gave, or of a note
LOST = "It did not complete: what it sent was lost or refused."
KEPT_OUT = {
    "quarantined": "in quarantine for unsound numbers of earlier rounds",
    "ceiling": "that have had their places, the ceiling of their fair share",
    "returning": "that have just come, more than may be chosen in one round, by a random draw",
    "quota": "over the quota of their owner, by a random draw",
}


def cohort(log: Log, t: int, *, names: ClientNames = NO_NAMES, record: RoundRecord | None = None) -> list[str]:
    """A whole round in words; ``record`` is the same round in the federation's history, which knows more of fates."""
    entry = log.round(t)
    with reading(t):
        return _cohort(log, t, entry, names, record)


def client(
    log: Log, t: int, who: int, *, names: ClientNames = NO_NAMES, record: RoundRecord | None = None
) -> list[str]:
    """One client in one round, in words."""
    entry = log.round(t)
    with reading(t):
        return _client(log, t, entry, who, names, record)


def _cohort(log: Log, t: int, entry: DecodedRound, names: ClientNames, record: RoundRecord | None) -> list[str]:
    said = [
        f"Round {t}: {entry.available.size} of {log.clients(t)} clients were available; {log.method} could take "
        f"{entry.entry.get('budget')}."
    ]
    for why, ids in entry.kept_out.items():
        said.append(f"The guards kept out {ids.size} {KEPT_OUT.get(why, why)}: {names.listed(ids.tolist())}.")
    for signal, asked, answers in entry.asked:
        said.append(f"It asked {asked.size} clients for {signal}; {answer_ids(answers, asked).size} answered.")
    if not entry.cohort.size:
        said.append("Nobody was chosen.")
    for member, weight in zip(entry.cohort.tolist(), entry.weights.tolist(), strict=True):
        known = [one for one in entry.asked if "values" in one[2] and member in answer_ids(one[2], one[1])]
        values = "".join(f"; {signal} {_value(answers, asked, member)}" for signal, asked, answers in known)
        end = "" if member in entry.done else f"; {short_fate(record, member)}"
        said.append(f"{names.at_the_start(member)} was chosen with weight {weight:.4g}{values}{end}.")
    return said + noted(entry.notes)


def _client(
    log: Log, t: int, entry: DecodedRound, who: int, names: ClientNames, record: RoundRecord | None
) -> list[str]:
    known = log.clients(t)
    if not 0 <= who < known:
        raise bad("--client", f"0 to {known - 1}, the clients known in round {t}", who)
    kept = next((why for why, ids in entry.kept_out.items() if who in ids), "")
    if who not in entry.available:
        said = [f"{names.at_the_start(who)} was not available in round {t}, so {log.method} could not choose it."]
    else:
        said = [f"{names.at_the_start(who)} was one of {entry.available.size} clients available in round {t}."]
    if kept:
        said.append(_kept(log, t, who, kept))
    else:
        said += [_question(signal, asked, answers, who) for signal, asked, answers in entry.asked]
    if who in entry.cohort:
        said += _chosen(log, entry, who, record)
    elif who in entry.available and not kept:
        said.append(f"It was not chosen; {_instead(log, entry, names)}.")
    just_said = "" if record is None else (record.get("left_out") or {}).get(str(who))
    for reason in entry.refused(who):
        if reason != just_said:
            said.append(f"Something it sent was refused: {printable(reason, REASON)}.")
    return said + noted(entry.notes) + [_history(log, t, who)]


def _chosen(log: Log, entry: DecodedRound, who: int, record: RoundRecord | None) -> list[str]:
    """With what weight a client was chosen, whether by the guards, and what became of it."""
    position = int(np.flatnonzero(entry.cohort == who)[0])
    said = [chosen_sentence(entry.cohort.tolist(), entry.weights.tolist(), position)]
    if who in (_guards(entry).get("explored") or ()):
        said.append(f"That was the guards' doing: it was drawn to explore, not chosen by {log.method}.")
    said.append("It completed." if who in entry.done else fate_sentence(record, who))
    return said


def chosen_sentence(cohort_ids: list[int], weights: list[float], position: int) -> str:
    """With what weight the client at a position of the cohort was chosen."""
    return f"It was chosen, as one of {len(cohort_ids)}, with weight {weights[position]:.4g} of {sum(weights):.4g}."


def fate_sentence(record: RoundRecord | None, who: int) -> str:
    """What became of a client that was chosen and whose update was not used."""
    fate = None if record is None else fates(record).get(who)
    if record is None or fate in (None, "lost", "used"):
        return LOST
    if fate == "standby":
        return "It was not needed: the round closed when enough others had answered."
    if fate == "silent":
        return "It did not answer before the round closed, though it was waited for."
    if fate == "failed":
        return f"Its program failed: {reason_of(record, who)}."
    return f"The model that it sent could not be used: {reason_of(record, who)}."


def short_fate(record: RoundRecord | None, who: int) -> str:
    """The same in few words, for a line of the whole cohort."""
    fate = None if record is None else fates(record).get(who)
    if record is None or fate in (None, "lost", "used"):
        return "did not complete"
    if fate == "standby":
        return "not needed"
    if fate == "silent":
        return "silent"
    return f"{fate}: {reason_of(record, who)}"


def reason_of(record: RoundRecord, who: int) -> str:
    """Why a client failed or was left out, as its program or the server said it."""
    reasons = {**(record.get("left_out") or {}), **(record.get("failed") or {})}
    return printable(reasons.get(str(who), "").strip(), REASON).rstrip(".")


def _kept(log: Log, t: int, who: int, why: str) -> str:
    """What the guards did to a client that was available."""
    if why == "ceiling":
        return "The guards left it out: it has had all the places that the ceiling of its fair share allows."
    if why == "returning":
        return (f"The guards left it out by a random draw: it had just come, with more such clients than may be "
                f"chosen in one round, so {log.method} could not choose it.")  # fmt: skip
    if why == "quota":
        return (f"The guards left it out by a random draw: its owner had more clients there than places, so "
                f"{log.method} could not choose it.")  # fmt: skip
    strikes = [before for before in range(t) if log.round(before).refused(who)]
    when = f" in round{'s' if len(strikes) > 1 else ''} {', '.join(map(str, strikes[-12:]))}" if strikes else ""
    return f"The guards held it in quarantine for unsound numbers{when}, so {log.method} could not choose it."


def _instead(log: Log, entry: DecodedRound, names: ClientNames) -> str:
    """Who was chosen, or why nobody."""
    if entry.cohort.size:
        return f"{log.method} chose {names.listed(entry.cohort.tolist())}"
    guards = _guards(entry)
    if why := next((key for key in ("too_few_eligible", "too_few_chosen") if key in guards), ""):
        return f"nobody was, since the guards skip a round with so few clients ({why.replace('_', ' ')}: {guards[why]})"
    return f"{log.method} chose nobody"


def _value(answers: AnswersEntry, asked: Ids, who: int) -> str:
    return f"{answer_values(answers, asked)[answer_ids(answers, asked) == who][0]:.6g}"


def _question(signal: str, asked: Ids, answers: AnswersEntry, who: int) -> str:
    if who not in asked:
        return f"It was not among the {asked.size} clients asked for {signal}."
    ids = answer_ids(answers, asked)
    if who not in ids:
        return f"It was asked for {signal} and did not answer."
    if "values" not in answers:
        return f"It was asked for {signal} and sent a vector, of which the log holds only the digest."
    values = answer_values(answers, asked)
    own = values[ids == who][0]
    above = int(np.sum(values > own))
    return f"It was asked for {signal} and answered {own:.6g}: number {above + 1} of {ids.size}, from the largest."


def _guards(entry: DecodedRound) -> Mapping[str, Any]:
    return dict(entry.notes.get("guards", {}))


def noted(notes: Mapping[str, Any]) -> list[str]:
    """What method and guards noted, each under its own name."""
    if set(notes) == {"sha256"}:
        return ["The notes of this round are long; the record of the round has them."]
    own = {key: value for key, value in notes.items() if key not in ("guards", "shortfall")}
    empty = notes.get("shortfall", 0)
    said = [f"{empty} places stayed empty: fewer clients could be chosen."] if empty else []
    for whose, table in (("The method", own), ("The guards", notes.get("guards") or {})):
        if table:
            listed = "; ".join(
                f"{printable(str(key).replace('_', ' '))} = {printable(str(value), REASON)}"
                for key, value in table.items()
            )
            said.append(f"{whose} noted: {listed}.")
    return said


def _history(log: Log, t: int, who: int) -> str:
    """How often it was there, chosen and done before."""
    entries = [log.round(before) for before in range(t)]
    there = sum(who in entry.available for entry in entries)
    kept = sum(any(who in ids for ids in entry.kept_out.values()) for entry in entries)
    chosen = [at for at, entry in enumerate(entries) if who in entry.cohort]
    done = sum(who in entries[at].done for at in chosen)
    last = f", last in round {chosen[-1]}" if chosen else ""
    out = f", kept out by the guards in {kept}" if kept else ""
    return (
        f"Before, it was available in {there} of {t} rounds{out}, chosen in {len(chosen)}{last}, and completed {done}."
    )
