"""What follows a run while it is played: a tracker, or anything of the user's own."""

from __future__ import annotations

from pathlib import Path

from sortition.core.round_record import RoundRecord
from sortition.studies.config import RunConfig
from sortition.studies.types import RunSummary


class Callback:
    """Called in the process that plays a run, one run after the other; override what is needed.

    Runs on other machines are not followed. An exception ends the run, which can then be resumed.
    """

    def check(self) -> None:
        """Raise, before the first run of a study, what would make every run fail, such as a missing package."""

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Called before the first round; a run that is resumed has ``played`` some."""

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Called after each round, with its record as in rounds.jsonl."""

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """Called after the last round, with the run's summary; it is empty where the run was stopped or failed."""


class Callbacks(Callback):
    """Passes each call on to several callbacks."""

    def __init__(self, callbacks: tuple[Callback, ...] = ()) -> None:
        self.callbacks = callbacks

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_start(run, folder, played)

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_round(run, record)

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_end(run, summary)
