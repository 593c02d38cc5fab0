"""What follows a run while it is played: a tracker, or anything of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sortition.studies.config import RunConfig


class Callback:
    """Called in the process that plays a run, one run after the other; override what is needed.

    Runs on other machines are not followed. An exception ends the run, which can then be resumed.
    """

    def check(self) -> None:
        """Before the first run of a study: raise what would make every run fail, such as a missing package."""

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Before the first round; a run that is resumed has ``played`` some."""

    def on_round(self, run: RunConfig, record: Mapping[str, Any]) -> None:
        """After each round, with its record as in rounds.jsonl."""

    def on_end(self, run: RunConfig, summary: Mapping[str, Any]) -> None:
        """After the last round, with the run's summary; empty where the run was stopped or failed."""


class Callbacks(Callback):
    """Several as one."""

    def __init__(self, several: tuple[Callback, ...] = ()) -> None:
        self.several = several

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Call all."""
        for one in self.several:
            one.on_start(run, folder, played)

    def on_round(self, run: RunConfig, record: Mapping[str, Any]) -> None:
        """Call all."""
        for one in self.several:
            one.on_round(run, record)

    def on_end(self, run: RunConfig, summary: Mapping[str, Any]) -> None:
        """Call all."""
        for one in self.several:
            one.on_end(run, summary)
