"""Resuming a run: what its folder holds already, whether it may go on, and the simulation that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sortition.core.cost import MOST_ROUNDS, Until, last_costs
from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import describe_difference
from sortition.results import run_folder
from sortition.results.sweeps import flattened
from sortition.studies import method_entries, own_code
from sortition.studies.config import RunConfig
from sortition.studies.types import ReadOnlyTable

if TYPE_CHECKING:
    from sortition.simulation import Setup, Simulation

CHOOSE_ANOTHER_FOLDER = "Choose another folder with -o (out= in Python)"
RunState = Literal["new", "started", "done"]


def resume_or_start(path: Path, setup: Setup, data: ReadOnlyTable) -> Simulation:
    """Return the simulation of a run's checkpoint, or a new one where there is none.

    Args:
        path: the run's folder.
        setup: what is played.
        data: name and digests of the data, as the manifest has them; a checkpoint on other data is refused.
    """
    from sortition.simulation import run_checkpoint, start

    previous_manifest = run_folder.Run(path).manifest
    if not (path / run_folder.CHECKPOINT).exists() or not previous_manifest:
        return start(setup)
    changed = describe_difference(previous_manifest.get("data", {}), data)
    if changed:
        raise StorageError(f"{path} was run on other data: {changed}.")
    return run_checkpoint.load(path / run_folder.CHECKPOINT, setup)


def run_state(run: RunConfig, path: Path) -> RunState:
    """Tell how far a run is in its folder; a folder of another configuration is refused, naming the difference."""
    if not (path / run_folder.CONFIG).exists():
        return "new"
    stored = run_folder.Run(path)
    _check_same_code(stored, run.table())
    _check_same_configuration(run, stored)
    if not stored.done:
        return "started"
    rounds_played = stored.summary.get("rounds", 0)
    if _stopped_at_target(stored, rounds_played):
        return "done"
    if rounds_played >= run.most_rounds or _has_reached(stored, run.until):
        return "done"
    return "started"


def _stopped_at_target(stored: run_folder.Run, rounds_played: int) -> bool:
    """Tell whether a finished run ended before its rounds were played and its cost reached the limit."""
    limits = stored.config.get("until")
    if rounds_played >= stored.config.get("rounds", MOST_ROUNDS):
        return False
    return not _has_reached(stored, Until(**limits) if limits else None)


def _has_reached(stored: run_folder.Run, until: Until | None) -> bool:
    """Tell whether the records of a run have reached a limit."""
    return until is not None and until.is_reached(last_costs(stored.records))


def _check_same_code(stored: run_folder.Run, table: ReadOnlyTable) -> None:
    """Refuse a folder that was played with other code of the user's, or with another object given from Python."""
    changed_keys = own_code.changed_keys(stored.manifest, table)
    if changed_keys:
        raise changed_code_error(stored, changed_keys[0])


def changed_code_error(stored: run_folder.Run, key: str) -> StorageError:
    """Return the error that says that the code behind a key of a stored run has changed since."""
    if key.startswith("method."):
        outdated_runs = f"the runs of {stored.method!r}"
    else:
        outdated_runs = "its runs"
    return StorageError(
        f"{stored.path} was played with other code: what {key} stands for has changed since. "
        f"{CHOOSE_ANOTHER_FOLDER}, or remove {outdated_runs}."
    )


def _check_same_configuration(run: RunConfig, stored: run_folder.Run) -> None:
    """Refuse a folder whose configuration differs in more than what may change between two starts of a run."""
    stored_table = flattened(stored.config)
    table = flattened(run.table())
    free_keys = _keys_that_may_change(run, stored_table, table)
    changed = describe_difference(
        {key: value for key, value in stored_table.items() if key not in free_keys},
        {key: value for key, value in table.items() if key not in free_keys},
    )
    if not changed:
        return
    hint = ""
    if "rounds was" in changed and _plans_for_its_horizon(run):
        hint = f" {run.method.label} plans for its horizon."
    raise StorageError(
        f"{stored.path} is of another configuration: {changed}.{hint} {CHOOSE_ANOTHER_FOLDER}, or remove it."
    )


def _keys_that_may_change(run: RunConfig, stored_table: ReadOnlyTable, table: ReadOnlyTable) -> set[str]:
    """Return the keys that may differ: limits that grow, without a horizon, and a target at which runs do not stop."""
    keys = set()
    if not _plans_for_its_horizon(run):
        limits = [key for key in ("rounds", *_until_keys(stored_table)) if key in table and key in stored_table]
        keys |= {key for key in limits if table[key] >= stored_table[key]}
    if not run.stop_at_target:
        keys |= {key for key in (*stored_table, *table) if key.startswith("target.")}
    return keys


def _until_keys(table: ReadOnlyTable) -> list[str]:
    return [key for key in table if key.startswith("until.")]


def _plans_for_its_horizon(run: RunConfig) -> bool:
    return method_entries.make_selector(run.method.name, run.method.options).needs.horizon
