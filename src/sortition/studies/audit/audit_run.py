"""Is a run what it says? Its log is checked line by line, its choices are recomputed and compared with its records."""

from __future__ import annotations

from typing import cast

from sortition.audit import hash_chain
from sortition.audit.entry_schema import Header, RoundEntry
from sortition.audit.events import has_events, logged_steps
from sortition.audit.recompute import recompute
from sortition.core.errors import DataError, InputError, SortitionError
from sortition.core.registrar import Registrar
from sortition.core.round_record import RoundRecord
from sortition.core.storage.lock import is_locked
from sortition.results import run_folder
from sortition.simulation import start
from sortition.studies import build_federation, own_code
from sortition.studies.audit.audit_history import examine_history, examine_log
from sortition.studies.audit.consistency import end_faults, header_faults, record_faults
from sortition.studies.audit.finding import Finding, final_hash, format_faults, read_links, why_no_log
from sortition.studies.audit.replay_run import Configured, Replay
from sortition.studies.config import RunConfig, validated
from sortition.studies.runs.journals import mentions_audit_log
from sortition.studies.runs.run_task import in_one_thread
from sortition.studies.runs.write_folder import LOCK

__all__ = ["Finding", "examine", "examine_history", "examine_log", "read_links"]


def examine(run: run_folder.Run, *, replay: bool = False) -> Finding:
    """Audit a run folder; with ``replay`` the run is repeated, and all its records are compared."""
    finding = Finding(run.path)
    try:
        _examine(run, finding, replay)
    except SortitionError as error:
        finding.faults.append(str(error))
    return finding


def _examine(run: run_folder.Run, finding: Finding, replay: bool) -> None:
    finding.planned = run.config.get("rounds", 0)  # 0: nobody knows
    if not run.done:  # known before the log is read: a run may go on meanwhile
        finding.state = "in progress" if is_locked(run.path / LOCK) else "unfinished"
    if not (run.path / run_folder.AUDIT).exists():
        if not mentions_audit_log(run):
            finding.state = "no log"
            finding.unchecked_because = f"there is no audit log: {why_no_log(run)}"
        elif run.done or run.records:
            finding.faults.append("The audit log is missing, though the run was made with one.")
        return
    links = read_links(run.path / run_folder.AUDIT, whole=run.done)
    finding.entries = len(links)
    if not links and not run.done and not run.records:
        return  # killed, or looked at, before its first line
    expected_hash = final_hash(run)
    finding.faults += hash_chain.find_breaks(links, expected_hash)
    if run.done and expected_hash is None:
        finding.faults.append("The summary lacks the hash that the log should end with.")
    if finding.faults:
        finding.unchecked_because = "the log is broken"
        return
    unreadable = format_faults(links[0].entry)
    if unreadable:
        finding.faults += unreadable
    else:
        _examine_choices(run, links, finding, replay)


def _why_code_differs(run: run_folder.Run) -> str:
    """Return why the user's code of the run is not here; nothing where it is."""
    try:
        changed_keys = own_code.changed_keys(run.manifest, run.config)
    except InputError as error:  # it cannot be imported, or must not
        return f"the run cannot be replayed here: {str(error).removesuffix('.')}"
    if not changed_keys:
        return ""
    return f"what {changed_keys[0]} stands for has changed since"


def _examine_choices(run: run_folder.Run, links: list[hash_chain.Link], finding: Finding, replay: bool) -> None:
    """Compare header, records and choices, once the chain is whole."""
    header = cast(Header, links[0].entry)
    entries = [cast(RoundEntry, link.entry) for link in links[1:]]
    records = cast(list[RoundRecord], run.records)
    finding.unchecked_because = _why_code_differs(run)
    if finding.unchecked_because:
        return
    try:
        config = validated(RunConfig, run.config, "config")
        setup = build_federation.setup(config)[1]
        registrar = start(setup).registrar
    except DataError as error:  # what is missing is here, not in the run
        finding.unchecked_because = f"the run cannot be replayed here: {str(error).removesuffix('.')}"
        return
    except SortitionError as error:
        finding.unchecked_because = "the run cannot be replayed"
        finding.faults.append(f"The run cannot be replayed: {error}")
        return
    if has_events(entries):
        _examine_events(run, entries=entries, records=records, finding=finding, header=header, registrar=registrar)
        return
    if not run.done:  # killed or read between two writes, one file is ahead of the other
        common = min(len(entries), len(records))
        if len(entries) != len(records):
            finding.unchecked_because = (
                f"the log has {len(entries)} rounds and rounds.jsonl {len(records)}; both have {common}"
            )
        entries = entries[:common]
        records = records[:common]
        finding.entries = common + 1
    finding.faults += header_faults(header, registrar, run.manifest.get("audit"))
    finding.faults += record_faults(entries, records)
    if len(entries) > config.most_rounds:
        finding.faults.append(f"The log has {len(entries)} rounds; the configuration has {config.most_rounds}.")
    if finding.faults:
        finding.unchecked_because = "the log does not fit the run"
        return
    if run.done:
        finding.faults += end_faults(run, config)
    signals = (*registrar.needs.questions, *registrar.needs.reports)
    logs_only_digests = any(not signal.scalar for signal in signals)  # of vectors
    finding.replayed = replay or logs_only_digests
    with in_one_thread():
        source = Replay(setup, records) if finding.replayed else Configured(setup, records)
        result = recompute(entries, registrar, evidence=source, population=source.population)
    finding.take_result(result, header)


def _examine_events(
    run: run_folder.Run,
    entries: list[RoundEntry],
    records: list[RoundRecord],
    finding: Finding,
    header: Header,
    registrar: Registrar,
) -> None:
    """Compare and recompute a log whose rounds overlap; of vectors it holds digests, which end the recomputation."""
    steps = logged_steps(entries)
    if not run.done:  # killed or read between two writes, one file is ahead of the other
        common = min(sum(step.step is not None for step in steps), len(records))
        entries = entries[: sum(step.n_entries for step in steps[:common])]
        records = records[:common]
        finding.entries = len(entries) + 1
    finding.faults += header_faults(header, registrar, run.manifest.get("audit"))
    finding.faults += record_faults(entries, records)
    if finding.faults:
        finding.unchecked_because = "the log does not fit the run"
        return
    with in_one_thread():
        finding.take_result(recompute(entries, registrar), header)
