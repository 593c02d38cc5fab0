"""Runs that are the same under several seed numbers: each is counted once."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from sortition.core.errors import StorageError
from sortition.results.run_folder import Run


def fingerprint(run: Run) -> str:
    """Return a digest of what a run measured, which no two seeds honestly share; empty before any evaluation."""
    evaluations = [
        (record["round"], record["test"].get("accuracy"), record["test"].get("loss"))
        for record in run.records
        if record.get("test")
    ]
    if not evaluations:
        return ""
    content: list[object] = [evaluations]
    if not any(_is_finite(loss) for _, _, loss in evaluations):  # accuracies alone may agree by chance
        content.append([record.get("cohort") for record in run.records])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


@dataclass(frozen=True)
class Copy:
    """A run that has the records of another seed of the same method and setting."""

    setting: str
    method: str
    seed: int
    first: int

    @property
    def text(self) -> str:
        """Say why the run is not counted."""
        return (
            f"{self.setting}: seed {self.seed} of {self.method} has the same records as seed {self.first}: it is the "
            "same run under another number, and is not counted."
        )


class CopyFinder:
    """Tells whether an earlier seed of the same method and setting had the same records."""

    def __init__(self) -> None:
        self._first_seeds: dict[tuple[str, str, str], int] = {}

    def copy_of(self, setting: str, method: str, seed: int, digest: str) -> Copy | None:
        """Return what this run repeats; None where it is the first of its records."""
        first = self._first_seeds.setdefault((setting, method, digest), seed)
        if not digest or first == seed:
            return None
        return Copy(setting, method, seed, first)


def without_copies(runs: Iterable[Run]) -> tuple[list[Run], list[Copy]]:
    """Return the runs that count, and those that are copies of another seed."""
    finder = CopyFinder()
    counted: list[Run] = []
    copies: list[Copy] = []
    for run in runs:
        try:
            copy = finder.copy_of(run.setting, run.method, run.seed, fingerprint(run))
        except StorageError:  # a damaged run says so when it is read
            copy = None
        if copy is None:
            counted.append(run)
        else:
            copies.append(copy)
    return counted, copies
