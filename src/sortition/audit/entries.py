"""Registrars, cohorts, answers and notes as entries of an audit log."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from sortition import __version__
from sortition.audit.encoding import digests, encode_ids, encode_numbers, json_value
from sortition.audit.schema import FORMAT, AnswersEntry, CohortEntry, Encoded, Header, JoinedEntry, compact
from sortition.core.arrays import Array, Ids, as_ids
from sortition.core.guards.screening import Answers, as_floats, rows_of
from sortition.core.questions import Reading
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import Signal

NOTES = 4096  # bytes of notes that an entry holds; of longer ones only the digest
LIBRARIES = ("numpy", "scipy", "scikit-learn")


def commitment(salt: bytes, seed: int) -> str:
    """SHA-256(salt ‖ seed), the seed in decimal digits."""
    return hashlib.sha256(salt + str(int(seed)).encode()).hexdigest()


def digest_of(population: Population) -> str:
    """SHA-256 of the number of clients and of every fact that is held of them."""
    digest = hashlib.sha256(f"{population.n_clients}".encode())
    for name in sorted(population.facts):
        rows = np.ascontiguousarray(getattr(population, name)[population.known])
        digest.update(f"{name}{rows.dtype.newbyteorder('<').str}{rows.shape}".encode())
        digest.update(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())
    if population.known.size < population.n_clients:
        digest.update(population.known.astype("<i8").tobytes())
    return digest.hexdigest()


def header(registrar: Registrar, salt: bytes) -> Header:
    """The first entry: which selection this is, and the commitment to its seed."""
    selector = type(registrar.selector)
    entry: Header = {
        "format": FORMAT,
        "selector": f"{selector.__module__}:{selector.__qualname__}",
        "parameters": json_value(registrar.selector.parameters()),
        "guards": json_value(registrar.guards.changed()) or None,
        "clients": registrar.population.n_clients,
        "population": digest_of(registrar.population),
        "horizon": registrar.horizon,
        "commitment": commitment(salt, registrar.seed),
        "versions": {
            "sortition": __version__,
            "python": platform.python_version(),
            **{name: installed_version(name) for name in LIBRARIES},
        },
    }
    return compact(entry, "horizon")


@cache  # reading a library's metadata takes milliseconds
def installed_version(name: str) -> str:
    """The version of an installed library, or "absent"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def encode_joined(population: Population) -> JoinedEntry:
    """The population from a round on."""
    return {"clients": population.n_clients, "population": digest_of(population)}


def encode_excluded(excluded: Mapping[str, Ids]) -> dict[str, Encoded] | None:
    """Whom a policy left out of a turn, by rule."""
    return {rule: encode_ids(ids) for rule, ids in excluded.items()} or None


def encode_kept_out(kept_out: Mapping[str, Ids]) -> dict[str, Encoded] | None:
    """Whom the guards kept out of a turn: by quarantine, and by the quota of an owner."""
    return {why: encode_ids(ids) for why, ids in kept_out.items()} or None


def encode_cohort(cohort: Cohort) -> CohortEntry:
    """Who was chosen, and with what weight."""
    entry: CohortEntry = {
        "cohort": encode_ids(cohort.ids),
        "weights": encode_numbers(cohort.weights),
        "groups": None if cohort.groups is None else json_value(cohort.groups),
        "full": cohort.full or None,
        "mass": None if cohort.mass == "one" else cohort.mass,
        "expected_size": cohort.expected_size,
    }
    return compact(entry)


def encode_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    """A cohort's notes; of long ones the digest."""
    found: dict[str, Any] = json_value(dict(notes))
    text = json.dumps(found, separators=(",", ":"))
    return found if len(text) <= NOTES else {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def encode_answers(signal: Signal, answers: Answers, asked: Ids) -> AnswersEntry:
    """What arrived, before it was screened: scalars in full, vectors by digest, rows of another form by their shape."""
    reading, odd = as_table(signal, answers)
    values, scalars = reading.values, reading.values.ndim == 1
    entry: AnswersEntry = {
        "ids": None if np.array_equal(reading.ids, asked) else encode_ids(reading.ids),
        "dtype": values.dtype.str[1:],
        "values": encode_numbers(values) if scalars else None,
        "shape": None if scalars else list(values.shape[1:]),
        "sha256": None if scalars else digests(values),
        "odd": odd or None,
    }
    return compact(entry)


def as_table(signal: Signal, answers: Answers) -> tuple[Reading, dict[str, list[int] | None]]:
    """The rows of the most usual shape (a scalar's: none), and the shapes of the others; None for what is no number."""
    if isinstance(answers, Reading):
        return answers, {}
    rows = rows_of(answers)
    shapes = Counter(row.shape for row in rows.values() if row is not None)
    usual = () if signal.scalar or not shapes else shapes.most_common(1)[0][0]
    kept: dict[int, Array] = {}
    for client, row in rows.items():
        if row is None or row.shape != usual:
            continue
        floats = as_floats(row)
        rows[client] = floats
        if floats is not None:  # an object may be no number
            kept[client] = floats
    odd = {str(k): None if row is None else list(row.shape) for k, row in rows.items() if k not in kept}
    table = np.stack(list(kept.values())) if kept else np.empty((0, *usual))
    return Reading(as_ids("Reading.ids", list(kept)), table), odd
