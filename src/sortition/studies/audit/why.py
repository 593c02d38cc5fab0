"""The answer to ``sortition why``: from the audit log, with what the history adds, or from the history alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sortition.core.errors import StorageError
from sortition.results import run_folder
from sortition.results.history import History, find_history, history_of_log
from sortition.results.names import ClientNames, read_names
from sortition.studies.audit import explain, explain_history
from sortition.studies.audit.finding import disclosed_names
from sortition.studies.audit.log_reader import Log


@dataclass(frozen=True)
class Recorded:
    """What is left of a run or a federation.

    Attributes:
        log: its audit log.
        history: its history; None for a run of a study.
        names: of its clients.
        warnings: what a reader must know first.
    """

    log: Log | None
    history: History | None
    names: ClientNames
    warnings: tuple[str, ...] = ()


def why(source: Path, t: int, client: str | None = None, names_file: Path | None = None) -> list[str]:
    """Why a client, or a whole cohort, was chosen in a round: sentences, the warnings first."""
    recorded = recorded_in(source, names_file)
    names = recorded.names
    if recorded.log is None:
        return [*recorded.warnings, *_from_history(recorded, t, client)]
    log = recorded.log
    record = None if recorded.history is None else recorded.history.record(t)
    if client is None:
        said = explain.cohort(log, t, names=names, record=record)
    else:
        log.round(t)  # an unknown round is said before an unknown client
        who = names.find(client, log.clients(t), f"in round {t}")
        said = explain.client(log, t, who, names=names, record=record)
    return [*recorded.warnings, *log.warnings, *said]


def _from_history(recorded: Recorded, t: int, client: str | None) -> list[str]:
    history = recorded.history
    if history is None:
        raise StorageError("There is neither an audit log nor a history.")
    if client is None:
        return explain_history.cohort(history, t, recorded.names)
    who = recorded.names.find(client, explain_history.known_clients(history, t), f"in round {t}")
    return explain_history.client(history, t, who, recorded.names)


def recorded_in(source: Path, names_file: Path | None = None) -> Recorded:
    """The log, the history and the names that a source leads to.

    Names come from the file that the user gives, else from what was disclosed beside the log, else from the history.
    """
    given = None if names_file is None else read_names(names_file)
    history = find_history(source)
    if history is not None:
        return _of_history(history, given)
    if source.is_dir():
        return Recorded(Log(run_folder.Run(source)), None, given or ClientNames())
    log = Log(source)
    warnings: tuple[str, ...] = ()
    history = history_of_log(source)
    try:
        names = given or disclosed_names(source) or (ClientNames() if history is None else history.names)
    except StorageError as error:  # the log can be read without it
        history = None
        names = given or ClientNames()
        warnings = (f"What lies beside the log is not used: {error}",)
    return Recorded(log, history, names, warnings)


def _of_history(history: History, given: ClientNames | None) -> Recorded:
    path = history.audit_log()
    if path is None:
        return Recorded(None, history, given or history.names)
    if not path.exists():
        missing = f"The audit log of this federation, {path.name}, is not beside its history."
        return Recorded(None, history, given or history.names, (missing,))
    return Recorded(Log(path), history, given or disclosed_names(path) or history.names)
