"""Why somebody was chosen, or was not: one round of an audit log, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.compact import ids_read, numbers_read
from sortition.core.errors import SortitionError, StorageError, bad
from sortition.experiments import audit, records


@dataclass(frozen=True)
class Entry:
    """One round of a log, unpacked."""

    told: Mapping[str, Any]
    available: Ids
    cohort: Ids
    weights: Floats
    done: Ids

    @property
    def asked(self) -> list[tuple[str, Ids, Mapping[str, Any]]]:
        """Signal, clients asked and what came back, of each question."""
        found = self.told.get("asked", [])
        return [(one["signal"], ids_read(one.get("ids", self.told["available"])), one["answers"]) for one in found]


class Log:
    """The audit log of a run, for reading."""

    def __init__(self, run: records.Run) -> None:
        if not (run.path / records.AUDIT).exists():
            raise StorageError(
                f"{run.path} has no audit log: it was made with audit = false, or before there were any."
            )
        links = audit.read(run.path / records.AUDIT)
        self.header: dict[str, Any] = links[0].entry if links else {}
        self.entries = [one.entry for one in links[1:]]
        self.method = str(self.header.get("selector", "the method")).rpartition(":")[2]

    def round(self, t: int) -> Entry:
        """One round; an unknown one is told with those that there are."""
        if not 0 <= t < len(self.entries):
            raise bad("--round", f"0 to {len(self.entries) - 1}, as this log has them", t)
        told = self.entries[t]
        try:
            cohort = ids_read(told["cohort"])
            done = ids_read(told["done"]) if "done" in told else cohort
            weights = numbers_read(told["weights"], cohort.size)
            return Entry(told, ids_read(told["available"]), cohort, weights, done)
        except (KeyError, TypeError, SortitionError) as error:
            raise StorageError(
                f"Round {t} of the audit log cannot be read: {error!r}. Try 'sortition audit'."
            ) from None

    def clients(self, t: int) -> int:
        """How many clients were known in round t."""
        joined = [one["joined"]["clients"] for one in self.entries[: t + 1] if "joined" in one]
        return int(joined[-1] if joined else self.header.get("clients", 0))


def cohort(log: Log, t: int) -> list[str]:
    """A whole round in sentences."""
    entry = log.round(t)
    said = [f"Round {t}: {entry.available.size} of {log.clients(t)} clients were available; {log.method} could take "
            f"{entry.told.get('budget')}."]  # fmt: skip
    for signal, asked, told in entry.asked:
        said.append(f"It asked {asked.size} clients for {signal}; {_answered(told, asked).size} answered.")
    if not entry.cohort.size:
        said.append("Nobody was chosen.")
    for client, weight in zip(entry.cohort.tolist(), entry.weights.tolist(), strict=True):
        silent = "" if client in entry.done else "; did not complete"
        heard = [one for one in entry.asked if "values" in one[2] and client in _answered(one[2], one[1])]
        answers = "".join(f"; {signal} {_value(told, asked, client)}" for signal, asked, told in heard)
        said.append(f"Client {client} was chosen with weight {weight:.4g}{answers}{silent}.")
    return said + _notes(entry)


def client(log: Log, t: int, who: int) -> list[str]:
    """One client in one round, in sentences."""
    entry = log.round(t)
    known = log.clients(t)
    if not 0 <= who < known:
        raise bad("--client", f"0 to {known - 1}, the clients known in round {t}", who)
    said = []
    if who not in entry.available:
        said.append(f"Client {who} was not available in round {t}, so {log.method} could not choose it.")
    else:
        said.append(f"Client {who} was one of {entry.available.size} clients available in round {t}.")
    said += [_question(entry, signal, asked, answers, who) for signal, asked, answers in entry.asked]
    if who in entry.cohort:
        at = int(np.flatnonzero(entry.cohort == who)[0])
        said.append(f"It was chosen, as one of {entry.cohort.size}, with weight {entry.weights[at]:.4g} of "
                    f"{entry.weights.sum():.4g}.")  # fmt: skip
        said.append("It completed." if who in entry.done else "It did not complete: what it sent was lost or refused.")
    elif who in entry.available:
        chosen = ", ".join(map(str, entry.cohort[:12].tolist())) + (", …" if entry.cohort.size > 12 else "")
        said.append(f"It was not chosen; {log.method} chose {chosen or 'nobody'}.")
    for kind in ("rejected", "blamed"):
        if reason := entry.told.get(kind, {}).get(str(who)):
            said.append(f"Something it sent was refused: {reason}.")
    return said + _notes(entry) + [_history(log, t, who)]


def _answered(answers: Mapping[str, Any], asked: Ids) -> Ids:
    return ids_read(answers["ids"]) if "ids" in answers else asked


def _value(answers: Mapping[str, Any], asked: Ids, who: int) -> str:
    ids = _answered(answers, asked)
    return f"{numbers_read(answers['values'], ids.size, answers['dtype'])[ids == who][0]:.6g}"


def _question(entry: Entry, signal: str, asked: Ids, answers: Mapping[str, Any], who: int) -> str:
    if who not in asked:
        return f"It was not among the {asked.size} clients asked for {signal}."
    ids = _answered(answers, asked)
    if who not in ids:
        return f"It was asked for {signal} and did not answer."
    if "values" not in answers:
        return f"It was asked for {signal} and sent a vector, of which the log holds the digest."
    values = numbers_read(answers["values"], ids.size, answers["dtype"])
    own = values[ids == who][0]
    above = int(np.sum(values > own))
    return f"It was asked for {signal} and answered {own:.6g}: number {above + 1} of {ids.size}, from the largest."


def _notes(entry: Entry) -> list[str]:
    notes = {key: value for key, value in dict(entry.told.get("notes") or {}).items() if value not in ({}, [])}
    if set(notes) == {"sha256"}:
        return ["The method's notes of this round are long; they stand in rounds.jsonl."]
    return ["The method noted: " + "; ".join(f"{key.replace('_', ' ')} = {value}" for key, value in notes.items()) + "."
            ] if notes else []  # fmt: skip


def _history(log: Log, t: int, who: int) -> str:
    """How often it was there, chosen and done before."""
    entries = [log.round(before) for before in range(t)]
    there = sum(who in entry.available for entry in entries)
    chosen = [at for at, entry in enumerate(entries) if who in entry.cohort]
    done = sum(who in entries[at].done for at in chosen)
    last = f", last in round {chosen[-1]}" if chosen else ""
    return f"Before, it was available in {there} of {t} rounds, chosen in {len(chosen)}{last}, and completed {done}."
