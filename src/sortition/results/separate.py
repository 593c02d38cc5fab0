"""Settings of one name in several studies: one where runs can share a table, else each with its study's name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sortition.core.errors import StorageError

if TYPE_CHECKING:
    from sortition.results.run_folder import Run

FREE = ("seed", "method", "device", "target", "audit")  # keys that may differ between runs of one federation
Group = dict[str, list["Run"]]  # study → its runs of a setting, where all of them are one setting


def separate_studies(studies: Mapping[str, Sequence[Run]]) -> list[Run]:
    """Return the runs of all studies, given by name.

    Settings that share no more than their name get the name of their study before it.
    """
    groups_by_setting: dict[str, list[Group]] = {}
    for study, runs in studies.items():
        for setting, setting_runs in _by_setting(runs).items():
            _add_to_group(groups_by_setting.setdefault(setting, []), study, setting_runs)
    prefix_by_path: dict[Path, str] = {}
    for groups in groups_by_setting.values():
        if len(groups) < 2:
            continue
        for group in groups:
            first_study = next(iter(group))
            for setting_runs in group.values():
                prefix_by_path |= {run.path: first_study for run in setting_runs}
    all_runs = [run for runs in studies.values() for run in runs]
    return [replace(run, study=prefix_by_path.get(run.path, run.study)) for run in all_runs]


def _by_setting(runs: Iterable[Run]) -> dict[str, list[Run]]:
    by_setting: dict[str, list[Run]] = {}
    for run in runs:
        with suppress(StorageError):  # a damaged run says so when it is read
            by_setting.setdefault(run.setting, []).append(run)
    return by_setting


def _add_to_group(groups: list[Group], study: str, runs: list[Run]) -> None:
    """Add a study's runs to the first group that they can stand in, or as a group of their own."""
    for group in groups:
        if all(_share_a_setting(runs, other_runs) for other_runs in group.values()):
            group[study] = runs
            return
    groups.append({study: runs})


def _share_a_setting(runs: Iterable[Run], other_runs: Iterable[Run]) -> bool:
    """Tell whether the runs of two studies can stand in one table: other seeds or methods of the same federation."""
    if {(run.method, run.seed) for run in runs} & {(run.method, run.seed) for run in other_runs}:
        return False
    kind_by_label = {run.method: _method_kind(run) for run in runs}
    for run in other_runs:
        if run.method in kind_by_label and kind_by_label[run.method] != _method_kind(run):
            return False
    return bool({_kind(run) for run in runs} & {_kind(run) for run in other_runs})


def _kind(run: Run) -> str:
    """Return what runs that can be compared have in common, code and data included."""
    config = {key: value for key, value in run.config.items() if key not in FREE}
    code = {key: value for key, value in run.manifest.get("python", {}).items() if not key.startswith("method.")}
    data = run.manifest.get("data", {}).get("digest")
    return json.dumps([config, code, data], sort_keys=True, default=str)


def _method_kind(run: Run) -> str:
    """Return what runs of one method have in common."""
    code = run.manifest.get("python", {}).get("method.name")
    return json.dumps([run.config.get("method"), code, _kind(run)], sort_keys=True, default=str)
