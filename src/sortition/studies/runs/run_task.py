"""A run as it is sent to the process that plays it. PyTorch is imported there."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sortition.core.errors import SortitionError, StorageError
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder
from sortition.studies import lockstep
from sortition.studies.config import RunConfig
from sortition.studies.runs import write_folder
from sortition.studies.runs.callback import Callback, Callbacks

if TYPE_CHECKING:
    from sortition.simulation.round_cache import PendingTrainings

OnRound = Callable[[int, float | None, float | None], None]  # rounds played, figure, share of the limit of cost
Play = Generator["PendingTrainings", None, bool]


@dataclass(frozen=True)
class OneRun:
    """A run that can be sent to another process and called there.

    Attributes:
        config: its configuration.
        path: its folder.
        callbacks: what follows it.
        lockstep: whether it may train together with other runs.
    """

    config: RunConfig
    path: Path
    callbacks: tuple[Callback, ...] = ()
    lockstep: bool = True

    def __call__(self, on_round: OnRound, stopping: Callable[[], bool]) -> bool:
        """Play the missing rounds; return True if the run is finished, False if it was stopped and can be resumed."""
        with in_one_thread():
            steps = self.steps(on_round, stopping)
            while True:
                try:
                    next(steps)  # a training that nobody does beforehand is done when the run goes on
                except StopIteration as ending:
                    return bool(ending.value)

    def steps(self, on_round: OnRound, stopping: Callable[[], bool]) -> Play:
        """Play the missing rounds as a generator that yields each training job; the caller may run it in a batch."""
        from sortition.studies.runs.one_run import play

        try:
            with write_folder.locked(self.path):
                finished = yield from play(
                    self.config,
                    self.path,
                    callbacks=Callbacks(self.callbacks),
                    on_round=on_round,
                    stopping=stopping,
                )
                (self.path / run_folder.FAILURE).unlink(missing_ok=True)
                return finished
        except BrokenPipeError:
            raise
        except Exception as error:
            self._write_failure(str(error) if isinstance(error, SortitionError) else traceback.format_exc())
            raise

    def _write_failure(self, reason: str) -> None:
        with suppress(StorageError, OSError):  # on a full disk there is no log, nor one of an earlier failure
            (self.path / run_folder.FAILURE).unlink(missing_ok=True)
            write_atomically(self.path / run_folder.FAILURE, f"{reason}\n".encode())

    @property
    def lockstep_key(self) -> str | None:
        """Return a key that is equal for runs that can train in lock-step; None for a run that is played by itself."""
        if self.callbacks or not self.lockstep:
            return None
        return lockstep.group_key(self.config)


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Let PyTorch and numpy's products use one thread: sums do not depend on the number of processes.

    Workers are born so; this is for runs in a process that was started without such a limit, where a selection's small
    products would keep all cores busy with waiting for each other.
    """
    import torch
    from threadpoolctl import threadpool_limits

    previous_threads = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(previous_threads)
