"""Is a run what it says? Its log is checked line by line, its choices are made again, and compared with its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import audit, chain
from sortition.core.arrays import Ids
from sortition.core.audit import commitment, digest_of
from sortition.core.compact import ids_read, numbers_read, plain
from sortition.core.errors import SortitionError, StorageError
from sortition.core.guards import Guards
from sortition.core.intake import Answers
from sortition.core.questions import Measure
from sortition.core.recount import Heard, Recount, recount
from sortition.core.registrar import Registrar
from sortition.core.rounds import Population
from sortition.core.turn import Turn
from sortition.core.witness import Reports
from sortition.experiments import federation, methods, records
from sortition.experiments.config import RunConfig, checked
from sortition.experiments.play import one_thread
from sortition.simulation import play_round, start


@dataclass
class Finding:
    """What the audit of one run found."""

    run: Path
    entries: int = 0
    recounted: int = 0
    replayed: bool = False  # whether clients' answers were computed again, too
    faults: list[str] = field(default_factory=list)
    left: str = ""  # why some rounds could not be recomputed

    @property
    def rounds(self) -> int:
        """Rounds that the log tells of."""
        return max(self.entries - 1, 0)


def read(path: Path) -> list[chain.Link]:
    """The lines of an audit log; a torn last one counts, as what it is."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    lines = raw.split(b"\n")
    return chain.links(lines[:-1] if lines[-1] == b"" else lines)


def absent(run: records.Run) -> StorageError:
    """What is said of a run that keeps no log."""
    return StorageError(f"{run.path} has no audit log: it was made with audit = false, or before there were any.")


def examine(run: records.Run, *, replay: bool = False) -> Finding:
    """Audit a run folder; with ``replay`` the clients' answers are computed again even where the log holds them."""
    if not (run.path / records.AUDIT).exists():
        raise absent(run)
    links = read(run.path / records.AUDIT)
    told = run.summary.get("audit")
    final = told.get("final") if isinstance(told, Mapping) else None
    finding = Finding(run.path, len(links), faults=chain.breaks(links, final))
    if run.done and final is None:
        finding.faults.append("The summary lacks the hash that the log should end with.")
    if links and not finding.faults:
        try:
            with one_thread():
                _choices(run, links, finding, replay)
        except SortitionError as error:
            finding.faults.append(f"The run cannot be played again: {error}")
    elif links:
        finding.left = "the log is broken"
    return finding


def _choices(run: records.Run, links: list[chain.Link], finding: Finding, replay: bool) -> None:
    """Header, records and choices, once the chain holds."""
    config = checked(RunConfig, run.config, "config")
    setup = federation.setup(config)[1]
    registrar = start(setup).registrar
    header, entries = links[0].entry, [one.entry for one in links[1:]]
    finding.faults += against_header(header, registrar, run.manifest.get("audit"))
    finding.faults += against_records(entries, run.records)
    if finding.faults:
        finding.left = "the log does not fit the run"
        return
    vectors = any(not s.scalar for s in (*registrar.needs.asks, *registrar.needs.reports))
    finding.replayed = replay or vectors or any("joined" in entry for entry in entries)
    again = Again(setup) if finding.replayed else None
    result: Recount = recount(
        entries, registrar, again=again, population=(lambda n: None) if again is None else again.population
    )
    finding.recounted, finding.left = result.rounds, result.left
    finding.faults += result.differences


def examine_log(path: Path) -> Finding:
    """Audit a federation's log by what was revealed beside it; choices where its method reads no facts of clients."""
    links = read(path)
    told = records.document(path.with_name(f"{path.name}.reveal.json"))
    finding = Finding(path, len(links), faults=chain.breaks(links, told.get("final")))
    if not told:
        finding.left = "seed and salt are not revealed yet"
    if finding.faults or not told:
        return finding
    header, entries = links[0].entry, [one.entry for one in links[1:]]
    try:
        selector = methods.make(header["selector"], header["parameters"])
        seed, guards = int(told["seed"]), Guards(**header.get("guards", {}))
        if commitment(bytes.fromhex(told["salt"]), seed) != header["commitment"]:
            finding.faults.append("The revealed seed is not the one that the log committed to.")
        elif "facts" not in told and selector.needs.reads:
            finding.left = f"{type(selector).__name__} reads facts of clients, which were not revealed"
        else:
            people = revealed_population(told, header["clients"])
            if digest_of(people) != header["population"]:
                finding.faults.append("The revealed facts of clients have not the digest of the log's header.")
            registrar = Registrar(selector, people, horizon=header["horizon"], seed=seed, guards=guards)
    except (SortitionError, KeyError, TypeError, ValueError, AttributeError) as error:
        finding.faults.append(f"The log's header and what was revealed cannot be used: {error}")
    if not finding.faults and not finding.left:
        result = recount(entries, registrar, population=lambda n: revealed_population(told, n))
        finding.recounted, finding.left = result.rounds, result.left
        finding.faults += result.differences
    return finding


def revealed_population(told: Mapping[str, Any], clients: int) -> Population:
    """The first so many clients, as they were revealed."""
    facts = {name: np.array(rows[:clients], told["types"][name]) for name, rows in told.get("facts", {}).items()}
    known = told.get("known")
    return Population(**facts, known=None if known is None else [k for k in known if k < clients], n_clients=clients)


class Again:
    """The run, played once more: what clients send in each round. A witness of its own registrar."""

    def __init__(self, setup: Any) -> None:
        self._setup, self._carry = setup, start(setup)
        self._carry.registrar.witness = self
        self._heard = Heard()

    def __call__(self, t: int) -> Heard:
        """Play round t."""
        self._carry, _ = play_round(self._setup, self._carry)
        return self._heard

    def population(self, clients: int) -> Population:
        """Who is known after the last round played."""
        return self._carry.registrar.population

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """A fresh page."""
        self._heard = Heard()

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Keep the answers."""
        self._heard.asked.append(answers)

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Keep the reports."""
        self._heard.reports = {name: audit.rows(given, done) for name, given in reports.items()}

    def joined(self, population: Population) -> None:
        """Nothing to keep."""


def against_header(header: Mapping[str, Any], registrar: Registrar, revealed: Any) -> list[str]:
    """Whether the log is of this selection, and of the seed that was committed to."""
    if header.get("format") != audit.FORMAT:
        return [f"The log has format {header.get('format')}; this version reads {audit.FORMAT}."]
    now = audit.header(registrar, b"")
    found = [
        f"The header's {key} should be {now.get(key)!r}; the log has {header.get(key)!r}."
        for key in ("selector", "parameters", "guards", "clients", *(["horizon"] if registrar.needs.horizon else []))
        if header.get(key) != now.get(key)
    ]
    if header.get("population") != digest_of(registrar.population):
        found.append("The header's population has another digest than the run's clients.")
    try:
        seed, salt = revealed["seed"], bytes.fromhex(revealed["salt"])
        if isinstance(seed, bool) or commitment(salt, seed) != header.get("commitment"):
            found.append("The revealed seed is not the one that the log committed to.")
        elif seed != registrar.seed:
            found.append(f"The revealed seed is {seed}; the run's configuration has {registrar.seed}.")
    except (TypeError, KeyError, ValueError, AttributeError):
        found.append("The manifest does not reveal seed and salt.")
    return found


def against_records(entries: list[dict[str, Any]], rounds: list[dict[str, Any]]) -> list[str]:
    """Whether rounds.jsonl tells the same cohorts, weights and completions."""
    found = []
    if len(entries) != len(rounds):
        found.append(f"The log tells of {len(entries)} rounds; rounds.jsonl of {len(rounds)}.")
    for entry, record in zip(entries, rounds, strict=False):
        try:
            found += _one(entry, record)
        except (KeyError, TypeError, ValueError, AttributeError, SortitionError) as error:
            found.append(f"Round {shown(entry)}: rounds.jsonl cannot be compared: {error!r}.")
    return found


def shown(entry: Mapping[str, Any]) -> str:
    """An entry's round, in words."""
    return str(entry.get("round", "?"))[:20]


def _one(entry: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    cohort = ids_read(entry["cohort"])
    answered = record["cohort"] if record["answered"] is None else record["answered"]
    pairs: dict[str, tuple[Any, Any]] = {
        "round": (entry["round"], record["round"]),
        "number of available clients": (ids_read(entry["available"]).size, record["available"]),
        "cohort": (cohort.tolist(), record["cohort"]),
        "weights": (numbers_read(entry["weights"], cohort.size).tolist(), record["weights"]),
        "completed clients": (ids_read(entry.get("done", entry["cohort"])).tolist(), answered),
    }
    return [
        f"Round {shown(entry)}: {what}: the log has {plain(mine)}; rounds.jsonl has {plain(other)}."
        for what, (mine, other) in pairs.items()
        if mine != other
    ]
