"""The answer to ``sortition why``: from the audit log, with what the history adds, or from the history alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sortition.core.errors import StorageError
from sortition.results import run_folder
from sortition.results.history import History, find_history, history_of_log
from sortition.results.names import ClientNames, read_names
from sortition.results.outcomes import ClientOutcome
from sortition.studies.audit import explain, explain_history
from sortition.studies.audit.finding import disclosed_names
from sortition.studies.audit.log_reader import Log


@dataclass(frozen=True)
class Recorded:
    """Holds what a run or a federation recorded.

    Attributes:
        log: its audit log; None where there is none.
        history: its history; None for a run of a study.
        names: the names of its clients.
        warnings: what a reader must know first.
    """

    log: Log | None
    history: History | None
    names: ClientNames
    warnings: tuple[str, ...] = ()


def why(source: Path, t: int, client: str | None = None, names_file: Path | None = None) -> list[str]:
    """Return sentences on why a client, or a whole cohort, was chosen in a round; warnings come first."""
    recorded = find_recorded(source, names_file)
    if recorded.log is None:
        return [*recorded.warnings, *_from_history(recorded, t, client)]
    log = recorded.log
    outcomes: Mapping[int, ClientOutcome] = {}
    if recorded.history is not None:
        outcomes = recorded.history.outcomes.get(t, {})
    if client is None:
        sentences = explain.explain_cohort(log, t, names=recorded.names, outcomes=outcomes)
    else:
        log.round(t)  # an unknown round is said before an unknown client
        client_id = recorded.names.find(client, log.clients(t), f"in round {t}")
        sentences = explain.explain_client(log, t, client_id, names=recorded.names, outcomes=outcomes)
    return [*recorded.warnings, *log.warnings, *sentences]


def _from_history(recorded: Recorded, t: int, client: str | None) -> list[str]:
    history = recorded.history
    if history is None:
        raise StorageError("There is neither an audit log nor a history.")
    if client is None:
        return explain_history.explain_cohort(history, t, recorded.names)
    client_id = recorded.names.find(client, explain_history.known_clients(history, t), f"in round {t}")
    return explain_history.explain_client(history, t, client_id, recorded.names)


def find_recorded(source: Path, names_file: Path | None = None) -> Recorded:
    """Return the log, the history and the names that a source leads to.

    Names come from the file that the user gives, else from what was disclosed beside the log, else from the history.
    """
    if names_file is None:
        users_names = None
    else:
        users_names = read_names(names_file)
    history = find_history(source)
    if history is not None:
        return _recorded_by_history(history, users_names)
    if source.is_dir():
        return Recorded(log=Log(run_folder.Run(source)), history=None, names=users_names or ClientNames())
    return _recorded_by_log(source, users_names)


def _recorded_by_history(history: History, users_names: ClientNames | None) -> Recorded:
    path = history.audit_log()
    if path is None:
        return Recorded(log=None, history=history, names=users_names or history.names)
    if not path.exists():
        warning = f"The audit log of this federation, {path.name}, is not beside its history."
        return Recorded(log=None, history=history, names=users_names or history.names, warnings=(warning,))
    names = users_names or disclosed_names(path) or history.names
    return Recorded(log=Log(path), history=history, names=names)


def _recorded_by_log(path: Path, users_names: ClientNames | None) -> Recorded:
    log = Log(path)
    history = history_of_log(path)
    try:
        names = users_names or disclosed_names(path)
        if not names:
            names = ClientNames() if history is None else history.names
    except StorageError as error:  # the log can be read without it
        warning = f"What lies beside the log is not used: {error}"
        return Recorded(log=log, history=None, names=users_names or ClientNames(), warnings=(warning,))
    return Recorded(log=log, history=history, names=names)
