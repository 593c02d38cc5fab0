"""Write registrars, cohorts, answers and notes as entries of an audit log."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np

from sortition import __version__
from sortition.audit.encoding import (
    EncodedIds,
    encode_ids,
    encode_ids_unless_implied,
    encode_numbers,
    json_value,
    row_digests,
)
from sortition.audit.entry_schema import (
    FORMAT,
    AnswersEntry,
    CohortEntry,
    Header,
    JoinedEntry,
    JsonObject,
    drop_empty_keys,
)
from sortition.core.arrays import Array, Ids, as_ids
from sortition.core.cohort import Cohort
from sortition.core.guards.answer_screening import Answers, as_floats, rows_of
from sortition.core.population import Population
from sortition.core.questions import Reading
from sortition.core.registrar import Registrar
from sortition.core.signals import Signal

MAX_NOTES = 4096  # bytes of notes that an entry holds; of longer ones it holds the digest
LIBRARIES = ("numpy", "scipy", "scikit-learn")


def commit_to_seed(salt: bytes, seed: int) -> str:
    """Return SHA-256(salt ‖ seed), the seed in decimal digits."""
    return hashlib.sha256(salt + str(int(seed)).encode()).hexdigest()


def population_digest(population: Population) -> str:
    """Return the SHA-256 of the number of clients and of all facts about them."""
    digest = hashlib.sha256(f"{population.n_clients}".encode())
    for name in sorted(population.facts):
        rows = np.ascontiguousarray(getattr(population, name)[population.known_ids])
        digest.update(f"{name}{rows.dtype.newbyteorder('<').str}{rows.shape}".encode())
        digest.update(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())
    if population.known_ids.size < population.n_clients:
        digest.update(population.known_ids.astype("<i8").tobytes())
    return digest.hexdigest()


def make_header(registrar: Registrar, salt: bytes) -> Header:
    """Return the first entry: which selection this is, and the commitment to its seed."""
    selector_class = type(registrar.selector)
    entry: Header = {
        "format": FORMAT,
        "selector": f"{selector_class.__module__}:{selector_class.__qualname__}",
        "parameters": json_value(registrar.selector.parameters()),
        "guards": json_value(registrar.guards.changed()) or None,
        "clients": registrar.population.n_clients,
        "population": population_digest(registrar.population),
        "horizon": registrar.horizon,
        "commitment": commit_to_seed(salt, registrar.seed),
        "versions": {
            "sortition": __version__,
            "python": platform.python_version(),
            **{name: installed_version(name) for name in LIBRARIES},
        },
    }
    return drop_empty_keys(entry, "horizon")


@cache  # reading a library's metadata takes milliseconds
def installed_version(name: str) -> str:
    """Return the version of an installed library, or "absent"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def encode_joined(population: Population) -> JoinedEntry:
    """Return the entry of the population from a round on."""
    return {"clients": population.n_clients, "population": population_digest(population)}


def encode_excluded(excluded: Mapping[str, Ids]) -> dict[str, EncodedIds] | None:
    """Return whom a policy left out of a turn, by rule; None where it left nobody out."""
    return {rule: encode_ids(ids) for rule, ids in excluded.items()} or None


def encode_kept_out(kept_out: Mapping[str, Ids]) -> dict[str, EncodedIds] | None:
    """Return whom the guards kept out of a turn, by reason (a quarantine, an owner's quota …); None for nobody."""
    return {reason: encode_ids(ids) for reason, ids in kept_out.items()} or None


def encode_cohort(cohort: Cohort) -> CohortEntry:
    """Return who was chosen, and with what weight."""
    entry: CohortEntry = {
        "cohort": encode_ids(cohort.ids),
        "weights": encode_numbers(cohort.weights),
        "groups": json_value(cohort.groups),
        "full": cohort.full or None,
        "mass": None if cohort.mass == "one" else cohort.mass,
        "expected_size": cohort.expected_size,
    }
    return drop_empty_keys(entry)


def encode_rehearsal(cohort: Cohort | None) -> CohortEntry | None:
    """Return the cohort after whose training a question is answered; None for a question without a rehearsal."""
    if cohort is None:
        return None
    return encode_cohort(cohort)


def encode_notes(notes: Mapping[str, object]) -> JsonObject:
    """Return a cohort's notes; of long ones the digest."""
    encoded: JsonObject = json_value(dict(notes))
    text = json.dumps(encoded, separators=(",", ":"))
    if len(text) > MAX_NOTES:
        return {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return encoded


def encode_answers(signal: Signal, answers: Answers, asked: Ids) -> AnswersEntry:
    """Return what arrived, before it was screened: scalars in full, vectors by digest, odd rows by their shape."""
    table = as_table(signal, answers)
    ids = table.reading.ids
    values = table.reading.values
    entry: AnswersEntry = {
        "ids": encode_ids_unless_implied(ids, implied=asked),
        "dtype": values.dtype.str[1:],
    }
    if values.ndim == 1:
        entry["values"] = encode_numbers(values)
    else:
        entry["shape"] = list(values.shape[1:])
        entry["sha256"] = row_digests(values)
    entry["odd"] = table.odd_shapes or None
    return drop_empty_keys(entry)


class AnswerTable(NamedTuple):
    """Answers, sorted by their form.

    Attributes:
        reading: the rows of the most frequent shape; for a scalar signal, the scalars.
        odd_shapes: client → the shape of its row, where that is another one; None where the row is no number.
    """

    reading: Reading
    odd_shapes: dict[str, list[int] | None]


def as_table(signal: Signal, answers: Answers) -> AnswerTable:
    """Put answers of the most frequent shape into one table; of the others it holds the shapes."""
    if isinstance(answers, Reading):
        return AnswerTable(reading=answers, odd_shapes={})
    rows = rows_of(answers)
    shapes = Counter(row.shape for row in rows.values() if row is not None)
    table_shape: tuple[int, ...] = ()
    if shapes and not signal.scalar:
        table_shape = shapes.most_common(1)[0][0]
    table_rows: dict[int, Array] = {}
    odd_shapes: dict[str, list[int] | None] = {}
    for client, row in rows.items():
        if row is None:
            odd_shapes[str(client)] = None
        elif row.shape != table_shape:
            odd_shapes[str(client)] = list(row.shape)
        elif (numbers := as_floats(row)) is None:  # an object may be no number
            odd_shapes[str(client)] = None
        else:
            table_rows[client] = numbers
    if table_rows:
        values = np.stack(list(table_rows.values()))
    else:
        values = np.empty((0, *table_shape))
    return AnswerTable(Reading(as_ids("Reading.ids", list(table_rows)), values), odd_shapes)
