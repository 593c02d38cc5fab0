"""Which folders a study may share with runs that are there already: runs in one table must be comparable."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import describe_difference
from sortition.results import run_folder
from sortition.results.separate import FREE
from sortition.results.sweeps import flattened
from sortition.studies import own_code
from sortition.studies.config import RunConfig
from sortition.studies.runs.resume import CHOOSE_ANOTHER_FOLDER, changed_code_error
from sortition.studies.types import ReadOnlyTable, TomlTable

METHOD_KEYS = ("cohort", "local", "server", "guards")  # what methods of one setting may each have their own of
PlannedRuns = Mapping[Path, RunConfig]
"""The folder of a run → its configuration."""


def check_other_runs(out: Path, planned: PlannedRuns) -> None:
    """Refuse a folder whose other runs would share a table with the planned ones and cannot be compared with them."""
    _check_same_code(out, planned)
    for setting in {run.setting: None for run in planned.values()}:
        runs_of_setting = [run for run in planned.values() if run.setting == setting]
        stored_runs = _stored_runs(out / setting, planned)
        _check_same_federation(stored_runs, runs_of_setting[-1])
        _check_same_work(stored_runs, runs_of_setting)


def _check_same_code(out: Path, planned: PlannedRuns) -> None:
    """Refuse a folder that holds runs of other code by the same names."""
    named_code = {item for run in planned.values() for item in own_code.import_paths(run.table()).items()}
    if not named_code:
        return
    digests = {(key, path): own_code.source_digest(key, path) for key, path in named_code}
    for stored in run_folder.find(out):
        for key, path in own_code.import_paths(stored.config).items():
            recorded = stored.manifest.get("python", {}).get(key)
            if digests.get((key, path), recorded) != recorded:
                raise changed_code_error(stored, key)


def _check_same_federation(stored_runs: list[run_folder.Run], planned_run: RunConfig) -> None:
    """Refuse other runs of a setting that are of another federation."""
    for stored in stored_runs:
        changed = describe_difference(_federation_keys(stored.config), _federation_keys(planned_run.table()))
        if changed:
            raise StorageError(
                f"{stored.path} is of another federation, and would share a table with these runs: {changed}. "
                f"{CHOOSE_ANOTHER_FOLDER}, or remove it."
            )


def _check_same_work(stored_runs: list[run_folder.Run], runs_of_setting: list[RunConfig]) -> None:
    """Refuse other seeds of a method that have another cohort, local rule, server rule or guards.

    Other methods may each have their own; tables and report warn where they are compared.
    """
    run_by_label = {run.method.label: run for run in runs_of_setting}
    for stored in stored_runs:
        if stored.method not in run_by_label:
            continue
        changed = describe_difference(_method_keys(stored.config), _method_keys(run_by_label[stored.method].table()))
        if changed:
            raise StorageError(
                f"{stored.path} was run with another cohort, local rule, server rule or guards, and would be "
                f"counted with these runs: {changed}. {CHOOSE_ANOTHER_FOLDER}, or remove it."
            )


def _stored_runs(folder: Path, planned: PlannedRuns) -> list[run_folder.Run]:
    """Return the runs in the folder of a setting that are not among the planned ones."""
    stored_runs = []
    for path in sorted(folder.glob(f"*/*/{run_folder.CONFIG}")):
        if path.parent not in planned:
            run = run_folder.Run(path.parent)
            with suppress(StorageError):  # a damaged run says so when it is read
                if run.config:
                    stored_runs.append(run)
    return stored_runs


def _method_keys(config: ReadOnlyTable) -> TomlTable:
    """Return what each method may have its own of, flat."""
    return flattened({key: config[key] for key in METHOD_KEYS if key in config})


def _federation_keys(config: ReadOnlyTable) -> TomlTable:
    """Return what all runs of a setting have in common, flat; the rounds may grow."""
    free_keys = (*FREE, *METHOD_KEYS, "rounds")
    return flattened({key: value for key, value in config.items() if key not in free_keys})
