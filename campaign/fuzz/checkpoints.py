"""Runs that were stopped in the middle and are resumed from a folder in which something is damaged."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

from campaign.fuzz import mutations, snapshots
from campaign.fuzz.folders import damaged
from campaign.fuzz.loop import Target
from campaign.fuzz.scratch import scratch
from campaign.fuzz.studied import small
from campaign.kills import METHODS
from sortition.results import run_folder
from sortition.simulation import run_checkpoint
from sortition.studies import build_federation
from sortition.studies.plan import plan
from sortition.studies.runs.run_task import OneRun

STOP, ROUNDS = 3, 5
KEPT = (run_folder.CHECKPOINT, run_folder.ROUNDS, run_folder.TIMINGS, run_folder.AUDIT, run_folder.MANIFEST)


@functools.cache
def sound(at: int) -> tuple[OneRun, dict[str, bytes]]:
    """A run that was stopped after some rounds, and the bytes of what it goes on from."""
    table = small(rounds=ROUNDS, method=[dict(METHODS[at])], server={"name": "momentum"})
    run = plan(table).runs[0]
    task = OneRun(run, scratch() / f"stopped-{at}")
    task(lambda *_: None, _stopping(STOP))
    return task, {name: (task.path / name).read_bytes() for name in KEPT}


def _stopping(after: int) -> Any:
    asked = iter([False] * after)
    return lambda: next(asked, True)


def play(rng: random.Random) -> int:
    """One damaged folder, resumed; a checkpoint whose selection was made up is only loaded."""
    task, files = sound(rng.randrange(len(METHODS)))
    name = run_folder.CHECKPOINT if rng.random() < 0.7 else rng.choice(KEPT)
    path, made_up = task.path / name, False
    if name != run_folder.CHECKPOINT:
        path.write_bytes(damaged(rng, name, files[name]))
    elif made_up := rng.random() < 0.7:
        path.write_bytes(snapshots.damaged(rng, files[name]))
    else:
        path.write_bytes(mutations.raw(rng, files[name], rng.randrange(1, 5)))
    try:
        if made_up:
            run_checkpoint.load(path, build_federation.setup(task.config)[1])
        else:
            task(lambda *_: None, _stopping(1))
    finally:
        _restore(task.path, files)
    return 1


def _restore(home: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (home / name).write_bytes(data)
    (home / run_folder.SUMMARY).unlink(missing_ok=True)


def prepare() -> None:
    """One run of every method."""
    for at in range(len(METHODS)):
        sound(at)


TARGET = Target("checkpoints", play, prepare)
