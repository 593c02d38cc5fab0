"""Settings of one name in several studies: one where runs can share a table, else each with its study's name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sortition.core.errors import StorageError

if TYPE_CHECKING:
    from sortition.results.run_folder import Run

FREE = ("seed", "method", "device", "target", "audit")  # what may differ between runs of one federation
Group = dict[str, list["Run"]]  # study → its runs of a setting, where all of them are one setting


def separated(studies: Mapping[str, Sequence[Run]]) -> list[Run]:
    """The runs of all studies, by name; settings that share no more than a name get their study's name before it."""
    groups: dict[str, list[Group]] = {}
    for name, runs in studies.items():
        for setting, own in _by_setting(runs).items():
            _join(groups.setdefault(setting, []), name, own)
    several = [group for known in groups.values() if len(known) > 1 for group in known]
    named = {run.path: next(iter(group)) for group in several for own in group.values() for run in own}
    return [
        replace(run, study=named[run.path]) if run.path in named else run for runs in studies.values() for run in runs
    ]


def _by_setting(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        with suppress(StorageError):  # a damaged run says so when it is read
            found.setdefault(run.setting, []).append(run)
    return found


def _join(known: list[Group], name: str, own: list[Run]) -> None:
    """Add a study's runs to the first group that they can stand in, or as a group of their own."""
    for group in known:
        if all(_one_setting(own, one) for one in group.values()):
            group[name] = own
            return
    known.append({name: own})


def _one_setting(ours: Iterable[Run], theirs: Iterable[Run]) -> bool:
    """Whether the runs of two studies can stand in one table: other seeds or methods of the same federation."""
    if {(run.method, run.seed) for run in ours} & {(run.method, run.seed) for run in theirs}:
        return False
    known = {run.method: _method_kind(run) for run in ours}
    if any(known.get(run.method, _method_kind(run)) != _method_kind(run) for run in theirs):
        return False
    return bool({_kind(run) for run in ours} & {_kind(run) for run in theirs})


def _kind(run: Run) -> str:
    """What runs that can be compared have in common, code and data included."""
    config = {key: value for key, value in run.config.items() if key not in FREE}
    code = {key: value for key, value in run.manifest.get("python", {}).items() if not key.startswith("method.")}
    return json.dumps([config, code, run.manifest.get("data", {}).get("digest")], sort_keys=True, default=str)


def _method_kind(run: Run) -> str:
    code = run.manifest.get("python", {}).get("method.name")
    return json.dumps([run.config.get("method"), code, _kind(run)], sort_keys=True, default=str)
