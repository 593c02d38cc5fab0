"""A federation's audit log, examined by what was disclosed beside it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from sortition.audit import hash_chain
from sortition.audit.encoding import MAX_CLIENTS
from sortition.audit.entry_schema import RoundEntry
from sortition.audit.entry_writer import commit_to_seed, population_digest
from sortition.audit.events import has_events, logged_steps
from sortition.audit.recompute import recompute
from sortition.core.errors import SortitionError, printable
from sortition.core.guards.settings import Guards
from sortition.core.population import Population
from sortition.core.registrar import Registrar
from sortition.core.storage.lock import is_locked
from sortition.results import run_folder
from sortition.results.history import History, history_of_log
from sortition.results.names import ClientNames
from sortition.studies import method_entries
from sortition.studies.audit.consistency import READING_ERRORS, record_faults
from sortition.studies.audit.finding import Finding, disclosed_names, format_faults, read_links
from sortition.studies.types import ReadOnlyTable


def examine_log(path: Path, names: ClientNames | None = None) -> Finding:
    """Audit a federation's log by what was disclosed beside it, and by the history that names it.

    Args:
        path: the log.
        names: of the clients; default: those that were disclosed, or those of the history.
    """
    finding = Finding(path, federated=True)
    try:
        _examine(path, finding, history_of_log(path), names)
    except SortitionError as error:
        finding.faults.append(str(error))
    return finding


def examine_history(history: History, names: ClientNames | None = None) -> Finding:
    """Audit a federation by its history: the log that it names, and whether both agree."""
    finding = Finding(history.path, federated=True)
    try:
        finding.planned = int(history.about.get("horizon") or 0)
        log = history.audit_log()
        if log is None:
            _ = history.records  # a damaged history is a fault, with a log or without one
            finding.state = "no log"
            finding.unchecked_because = _why_no_log(history)
        elif not log.exists():
            finding.faults.append(f"The audit log {log.name} is missing, though the federation was run with one.")
        else:
            _examine(log, finding, history, names)
    except SortitionError as error:
        finding.faults.append(str(error))
    return finding


def _why_no_log(history: History) -> str:
    elsewhere = history.about.get("audit")
    if elsewhere:
        return f"the audit log, {printable(str(elsewhere))}, is in another folder: audit it by its own path"
    return 'there is no audit log: a federation that is given audit="audit.jsonl" keeps one'


def _examine(path: Path, finding: Finding, history: History | None, users_names: ClientNames | None) -> None:
    disclosed = run_folder.read_document(path.with_name(f"{path.name}.reveal.json"))
    if not disclosed:
        finding.state = "in progress" if is_locked(path) else "done"
    links = read_links(path, whole=bool(disclosed))
    finding.entries = len(links)
    if not links and not disclosed:
        finding.unchecked_because = "the log is empty"
        return
    finding.faults += hash_chain.find_breaks(links, disclosed.get("final"))
    if links and not finding.faults:
        finding.faults += format_faults(links[0].entry)
    if disclosed:
        finding.faults += _disclosure_faults(links, disclosed)
    else:
        finding.unchecked_because = "seed and salt are not disclosed yet"
    if finding.faults:
        finding.unchecked_because = "the log is broken"
        return
    names = _names(path, history, users_names)
    if history is not None:
        entries = [cast(RoundEntry, link.entry) for link in links[1:]]
        finding.faults += _history_faults(entries, history, names, over=bool(disclosed))
    if finding.faults:
        finding.unchecked_because = "the log does not fit the history"
    elif disclosed:
        _examine_choices(links, disclosed, finding, names)


def _names(log: Path, history: History | None, users_names: ClientNames | None) -> ClientNames:
    """Return the names that the user gives, else those that were disclosed, else those of the history."""
    names = users_names or disclosed_names(log)
    if names is not None:
        return names
    if history is None:
        return ClientNames()
    return history.names


def _disclosure_faults(links: list[hash_chain.Link], disclosed: ReadOnlyTable) -> list[str]:
    """Return whether the log has as many entries as were announced at the end."""
    faults = [f"What was disclosed lacks {key!r}." for key in ("entries", "final") if disclosed.get(key) is None]
    if disclosed.get("entries") not in (None, len(links)):
        faults.append(f"{disclosed['entries']} entries were announced at the end; the log has {len(links)}.")
    return faults


def _history_faults(entries: list[RoundEntry], history: History, names: ClientNames, *, over: bool) -> list[str]:
    """Return where log and history differ; of a federation that goes on, one file may be ahead of the other."""
    records = history.records
    if not over and has_events(entries):
        steps = [step for step in logged_steps(entries) if step.step is not None]
        common = min(len(steps), len(records))
        entries = entries[: sum(step.n_entries for step in steps[:common])]
        records = records[:common]
    elif not over:
        common = min(len(entries), len(records))
        entries = entries[:common]
        records = records[:common]
    return record_faults(entries, records, history.path.name, names)


def _examine_choices(
    links: list[hash_chain.Link], disclosed: ReadOnlyTable, finding: Finding, names: ClientNames
) -> None:
    """Recompute the choices, once the chain is whole."""
    header = links[0].entry
    try:
        registrar = _fresh_registrar(header, disclosed, finding)
    except READING_ERRORS as error:
        finding.faults.append(f"The log's header and what was disclosed cannot be used: {error}")
        registrar = None
    if finding.faults:
        finding.unchecked_because = "the log does not fit what was disclosed"
    elif registrar is not None:
        result = recompute(
            [link.entry for link in links[1:]],
            registrar,
            population=lambda n: disclosed_population(disclosed, n),
            client_name=names.name_with_id if names else None,
        )
        finding.take_result(result, header)


def _fresh_registrar(header: ReadOnlyTable, disclosed: ReadOnlyTable, finding: Finding) -> Registrar | None:
    """Return a registrar of the same selection; None, with the reason in the finding, where that is impossible."""
    selector = method_entries.make_selector(header["selector"], header["parameters"])
    seed = int(disclosed["seed"])
    guards = Guards(**header.get("guards", {}))
    if commit_to_seed(bytes.fromhex(disclosed["salt"]), seed) != header["commitment"]:
        finding.faults.append("The disclosed seed is not the one that the log committed to.")
        return None
    if "facts" not in disclosed and selector.needs.reads:
        finding.unchecked_because = f"{type(selector).__name__} reads facts of clients, which were not disclosed"
        return None
    population = disclosed_population(disclosed, header["clients"])
    if population_digest(population) != header["population"]:
        finding.faults.append("The disclosed facts of clients do not have the digest of the log's header.")
    return Registrar(selector, population, horizon=header["horizon"], seed=seed, guards=guards)


def disclosed_population(disclosed: ReadOnlyTable, clients: object) -> Population:
    """Return the first so many clients, as they were disclosed."""
    if isinstance(clients, bool) or not isinstance(clients, int) or not 0 < clients <= MAX_CLIENTS:
        raise ValueError(f"{clients!r} clients")
    facts = {}
    for name, rows in disclosed.get("facts", {}).items():
        dtype = np.dtype(disclosed["types"][name])
        if dtype.kind not in "iuf" or dtype.itemsize > 8:
            raise ValueError(f"{name} of type {dtype}")
        facts[name] = np.array(rows[:clients], dtype)
    known_ids = disclosed.get("known")
    if known_ids is not None:
        known_ids = [client for client in known_ids if client < clients]
    return Population(**facts, known_ids=known_ids, n_clients=clients)
