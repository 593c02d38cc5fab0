"""The audit log: what went into every choice and what came out, in lines that hold each other.

The first entry commits to the seed without telling it: SHA-256(salt ‖ seed). One entry follows per round. Whoever holds
seed and salt when the run is over can recompute every choice (:mod:`sortition.audit.recompute`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from sortition import __version__
from sortition.audit import hash_chain
from sortition.audit.encoding import digests, encode_ids, encode_numbers, plain
from sortition.core.arrays import Array, Ids, as_ids
from sortition.core.guards.screening import Answers
from sortition.core.observer import Reports
from sortition.core.questions import Measure, Reading
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import Signal
from sortition.core.streams import stream
from sortition.core.turn import Turn

FORMAT = 2  # 2: whom the guards kept out, and a shortfall of clients
READ = (1, 2)  # formats of logs that can be audited
NOTES = 4096  # bytes of notes that an entry holds; of longer ones only the digest
LIBRARIES = ("numpy", "scipy", "scikit-learn")


def fresh_salt() -> bytes:
    """A salt for a federation: nobody can guess the seed from its commitment."""
    return secrets.token_bytes(32)


def salt_of(seed: int) -> bytes:
    """A salt for a simulation, where the same seed must give the same bytes and nothing is to be hidden."""
    return stream(seed, "audit salt").bytes(32)


def commitment(salt: bytes, seed: int) -> str:
    """SHA-256(salt ‖ seed), the seed in decimal digits."""
    return hashlib.sha256(salt + str(int(seed)).encode()).hexdigest()


def digest_of(population: Population) -> str:
    """SHA-256 of the number of clients and of every fact that is held of them."""
    told = hashlib.sha256(f"{population.n_clients}".encode())
    for name in sorted(population.facts):
        rows = np.ascontiguousarray(getattr(population, name)[population.known])
        told.update(f"{name}{rows.dtype.newbyteorder('<').str}{rows.shape}".encode())
        told.update(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())
    if population.known.size < population.n_clients:
        told.update(population.known.astype("<i8").tobytes())
    return told.hexdigest()


def header(registrar: Registrar, salt: bytes) -> dict[str, Any]:
    """The first entry: which selection this is, and the commitment to its seed."""
    selector, guards = type(registrar.selector), registrar.guards.changed()
    return {
        "format": FORMAT,
        "selector": f"{selector.__module__}:{selector.__qualname__}",
        "parameters": plain(registrar.selector.parameters()),
        **({"guards": plain(guards)} if guards else {}),
        "clients": registrar.population.n_clients,
        "population": digest_of(registrar.population),
        "horizon": registrar.horizon,
        "commitment": commitment(salt, registrar.seed),
        "versions": {
            "sortition": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in LIBRARIES},
        },
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


class AuditLog:
    """An observer that writes one line per finished turn, when the next one begins or at :meth:`flush`.

    So a round that a server falls over in, and that is played again from what was saved before it, has one line.

    Args:
        write: takes each line, with its newline.
        entries: how many entries there are already: 0 writes the header first.
        last: the hash of the last of them.
    """

    def __init__(
        self, registrar: Registrar, salt: bytes, write: Callable[[bytes], object], entries: int = 0, last: str = ""
    ) -> None:
        self._write, self.entries, self.last = write, entries, last or hash_chain.START
        self._joined: dict[str, Any] = {}
        self._pending: dict[str, Any] | None = None
        self._asked: list[dict[str, Any]] = []
        self._begun: tuple[Ids, int] = (np.empty(0, np.int64), 0)
        self._kept: dict[str, Any] = {}
        if not entries:
            self._add(header(registrar, salt))

    def _add(self, entry: Mapping[str, Any]) -> None:
        line, own = hash_chain.seal(self.entries, self.last, entry)
        self._write(line)
        self.entries, self.last = self.entries + 1, own

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Forget a turn that was abandoned, or that is played again."""
        if self._pending is not None and self._pending["round"] < turn.index:
            self.flush()
        self._begun, self._asked, self._kept = (available, budget), [], kept_out(turn, available)

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Note the question and what arrived."""
        same = np.array_equal(question.ids, self._begun[0])
        self._asked.append(
            {
                "signal": question.signal.name,
                **({} if same else {"ids": encode_ids(question.ids)}),
                **({} if question.after is None else {"after": encode_cohort(question.after)}),
                "answers": encode_answers(question.signal, answers, question.ids),
            }
        )

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Write the round."""
        cohort = turn.cohort or Cohort.uniform([])
        signals = {signal.name: signal for signal in turn._registrar.needs.reports}
        told = {name: encode_answers(signals[name], rows(given, done), done) for name, given in reports.items()}
        self._pending = {
            "round": turn.index,
            "budget": self._begun[1],
            "available": encode_ids(self._begun[0]),
            **self._joined,
            **({"kept_out": self._kept} if self._kept else {}),
            **({"asked": self._asked} if self._asked else {}),
            **encode_cohort(cohort),
            "notes": encode_notes(cohort.notes),
            **({} if np.array_equal(done, cohort.ids) else {"done": encode_ids(done)}),
            **({"reports": told} if told else {}),
            **({"rejected": plain(turn.rejected)} if turn.rejected else {}),
            **({"blamed": plain(turn.blamed)} if turn.blamed else {}),
        }

    def flush(self) -> None:
        """Write the line of the turn that finished last."""
        if self._pending is not None:
            self._add(self._pending)
            if self._pending.get("joined") is self._joined.get("joined"):  # else they joined after this turn
                self._joined = {}
            self._pending = None

    def joined(self, population: Population) -> None:
        """The next round is chosen from a population of this size and digest."""
        self._joined = {"joined": encode_joined(population)}


def encode_joined(population: Population) -> dict[str, Any]:
    """Who is known once clients have joined, as JSON."""
    return {"clients": population.n_clients, "population": digest_of(population)}


def kept_out(turn: Turn, available: Ids) -> dict[str, Any]:
    """Whom the guards kept out of a turn that has just begun, as JSON: by quarantine, and by the quota of an owner.

    Of a round that is skipped for want of eligible clients the quota's lot is not told: nobody can be chosen.
    """
    gate = turn._registrar.eligibility
    out = gate.until[available] > turn.index if gate.guards.quarantine else np.zeros(available.size, bool)
    left = available[~out]
    thinned = left[:0] if turn.round is None else np.setdiff1d(left, turn.round.available, assume_unique=True)
    told = {"quarantined": available[out], "quota": thinned}
    return {why: encode_ids(ids) for why, ids in told.items() if ids.size}


def encode_cohort(cohort: Cohort) -> dict[str, Any]:
    """A cohort as JSON."""
    return {
        "cohort": encode_ids(cohort.ids),
        "weights": encode_numbers(cohort.weights),
        **({} if cohort.groups is None else {"groups": plain(cohort.groups)}),
        **({"full": True} if cohort.full else {}),
    }


def encode_notes(notes: Mapping[str, Any]) -> Any:
    """A cohort's notes as JSON; long ones by their digest."""
    told = plain(dict(notes))
    text = json.dumps(told, separators=(",", ":"))
    return told if len(text) <= NOTES else {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def rows(given: Any, done: Ids) -> Answers:
    """Reports as answers: with their ids."""
    return given if isinstance(given, Reading | Mapping) else Reading(done, np.asarray(given))


def encode_answers(signal: Signal, answers: Answers, asked: Ids) -> dict[str, Any]:
    """What arrived, before it was sifted: scalars in full, vectors by digest, rows of an odd form by their form."""
    reading, odd = as_table(signal, answers)
    told: dict[str, Any] = {} if np.array_equal(reading.ids, asked) else {"ids": encode_ids(reading.ids)}
    told["dtype"] = reading.values.dtype.str[1:]
    if reading.values.ndim == 1:
        told["values"] = encode_numbers(reading.values)
    else:
        told |= {"shape": list(reading.values.shape[1:]), "sha256": digests(reading.values)}
    return told | ({"odd": odd} if odd else {})


def as_table(signal: Signal, answers: Answers) -> tuple[Reading, dict[str, Any]]:
    """The rows of the most usual shape (a scalar's: none), and the shapes of the others; None for what is no number."""
    if isinstance(answers, Reading):
        return answers, {}
    parsed = {int(client): _number(row) for client, row in answers.items()}
    shapes = [row.shape for row in parsed.values() if row is not None]
    usual = () if signal.scalar else max(shapes, key=shapes.count, default=())
    kept = {client: row for client, row in parsed.items() if row is not None and row.shape == usual}
    odd = {str(k): None if row is None else list(row.shape) for k, row in parsed.items() if k not in kept}
    table = np.stack(list(kept.values())) if kept else np.empty((0, *usual))
    return Reading(as_ids("Reading.ids", list(kept)), table), odd


def _number(row: Any) -> Array | None:
    try:
        return np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        return None
