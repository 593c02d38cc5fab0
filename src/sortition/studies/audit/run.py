"""Is a run what it says? Its log is checked line by line, its choices are recomputed and compared with its records."""

from __future__ import annotations

from typing import cast

from sortition.audit import hash_chain
from sortition.audit.recompute import recompute
from sortition.audit.schema import Header, RoundEntry
from sortition.core.errors import DataError, InputError, SortitionError
from sortition.core.record import RoundRecord
from sortition.core.storage.lock import in_use
from sortition.results import run_folder
from sortition.simulation import start
from sortition.studies import federation, own_code
from sortition.studies.audit.consistency import against_end, against_header, against_records
from sortition.studies.audit.federation import examine_history, examine_log
from sortition.studies.audit.finding import Finding, absent, final_hash, read, readable
from sortition.studies.audit.replay import Configured, Replay
from sortition.studies.config import RunConfig, validated
from sortition.studies.runs.journals import records_a_log
from sortition.studies.runs.task import in_one_thread
from sortition.studies.runs.write_folder import LOCK

__all__ = ["Finding", "absent", "examine", "examine_history", "examine_log", "read"]


def examine(run: run_folder.Run, *, replay: bool = False) -> Finding:
    """Audit a run folder; with ``replay`` the run is repeated, and all its records are compared."""
    finding = Finding(run.path)
    try:
        _examine(run, finding, replay)
    except SortitionError as error:
        finding.faults.append(str(error))
    return finding


def _examine(run: run_folder.Run, finding: Finding, replay: bool) -> None:
    finding.planned = run.config.get("rounds", 0)
    if not run.done:  # known before the log is read: a run may go on meanwhile
        finding.state = "in progress" if in_use(run.path / LOCK) else "unfinished"
    if not (run.path / run_folder.AUDIT).exists():
        if not records_a_log(run):
            finding.state, finding.left = "no log", f"there is no audit log: {absent(run)}"
        elif run.done or run.records:
            finding.faults.append("The audit log is missing, though the run was made with one.")
        return
    links = read(run.path / run_folder.AUDIT, whole=run.done)
    finding.entries = len(links)
    if not links and not run.done and not run.records:
        return  # killed, or looked at, before its first line
    final = final_hash(run)
    finding.faults += hash_chain.breaks(links, final)
    if run.done and final is None:
        finding.faults.append("The summary lacks the hash that the log should end with.")
    if finding.faults:
        finding.left = "the log is broken"
        return
    if not (wrong := readable(links[0].entry)):
        _choices(run, links, finding, replay)
    finding.faults += wrong


def _other_code(run: run_folder.Run) -> str:
    """Why the user's code of the run is not here; empty where it is."""
    try:
        changed = own_code.changed(run.manifest, run.config)
    except InputError as error:  # it cannot be imported, or must not
        return f"the run cannot be replayed here: {str(error).removesuffix('.')}"
    return f"what {changed[0]} stands for has changed since" if changed else ""


def _choices(run: run_folder.Run, links: list[hash_chain.Link], finding: Finding, replay: bool) -> None:
    """Compare header, records and choices, once the chain is whole."""
    header, rounds = cast(Header, links[0].entry), run.records
    entries = [cast(RoundEntry, one.entry) for one in links[1:]]
    if reason := _other_code(run):
        finding.left = reason
        return
    try:
        config = validated(RunConfig, run.config, "config")
        setup = federation.setup(config)[1]
        registrar = start(setup).registrar
    except DataError as error:  # what is missing is here, not in the run
        finding.left = f"the run cannot be replayed here: {str(error).removesuffix('.')}"
        return
    except SortitionError as error:
        finding.left = "the run cannot be replayed"
        finding.faults.append(f"The run cannot be replayed: {error}")
        return
    if not run.done:  # killed or read between two writes, one file is ahead of the other
        common = min(len(entries), len(rounds))
        if len(entries) != len(rounds):
            finding.left = f"the log has {len(entries)} rounds and rounds.jsonl {len(rounds)}; both have {common}"
        entries, rounds, finding.entries = entries[:common], rounds[:common], common + 1
    finding.faults += against_header(header, registrar, run.manifest.get("audit"))
    finding.faults += against_records(entries, cast(list[RoundRecord], rounds))
    if len(entries) > config.rounds:
        finding.faults.append(f"The log has {len(entries)} rounds; the configuration has {config.rounds}.")
    if finding.faults:
        finding.left = "the log does not fit the run"
        return
    finding.faults += against_end(run, config) if run.done else []
    vectors = any(not s.scalar for s in (*registrar.needs.asks, *registrar.needs.reports))
    finding.replayed = replay or vectors
    with in_one_thread():
        known = Replay(setup, rounds) if finding.replayed else Configured(setup)
        result = recompute(entries, registrar, evidence=known, population=known.population)
    finding.add(result, header)
