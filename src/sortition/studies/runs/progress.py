"""What a person sees while runs go on: live bars on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from sortition.studies.config import RunConfig
from sortition.studies.workers.scheduler import Event

EVERY = 15.0  # seconds between plain lines of running runs
LOST = "lost the worker of {}; another goes on from its last checkpoint"


class Progress(Protocol):
    """Hears the events of runs."""

    def over(self, runs: Sequence[RunConfig], done: int) -> AbstractContextManager[None]:
        """Entered before the first run; ``done`` were finished before."""

    def hear(self, event: Event) -> None:
        """Something happened to run ``event.at``."""


def name_of(run: RunConfig) -> str:
    """How a run is called on screen."""
    return f"{run.setting}/{run.method.label} seed {run.seed}"


class Quiet:
    """Says nothing."""

    @contextmanager
    def over(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Nothing to prepare."""
        yield

    def hear(self, event: Event) -> None:
        """Nothing to say."""


class Lines:
    """A line when a run ends, and one for all running ones from time to time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.active: dict[int, Event] = {}
        self.ended = 0

    @contextmanager
    def over(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Say what is to come."""
        self.runs, self.begun, self.said = runs, time.monotonic(), time.monotonic()
        self._say(f"{len(runs)} runs to play" + (f", {done} done before" if done else ""))
        yield

    def hear(self, event: Event) -> None:
        """Ends at once, ticks now and then."""
        run = self.runs[event.at]
        if event.kind in ("done", "stopped", "failed"):
            last = self.active.pop(event.at, event)
            self.ended += event.kind == "done"
            figure = f"  {_figure(run)} {last.value:.3f}" if event.kind == "done" and last.value is not None else ""
            why = f": {event.text.strip().splitlines()[-1]}" if event.kind == "failed" else ""
            spent = time.monotonic() - self.begun
            self._say(f"[{self.ended}/{len(self.runs)}, {spent:.0f} s] {event.kind} {name_of(run)}{figure}{why}")
        elif event.kind == "lost":
            self._say(LOST.format(name_of(run)))
        elif event.kind == "tick":
            self.active[event.at] = event
            if time.monotonic() - self.said > EVERY:
                self._say("; ".join(self._told(at) for at in self.active))

    def _told(self, at: int) -> str:
        event, run = self.active[at], self.runs[at]
        figure = "" if event.value is None else f" {_figure(run)} {event.value:.3f}"
        return f"{name_of(run)} round {event.round}/{run.rounds}{figure}"

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """One bar for everything with the time left, and one for each running run with its current figure."""

    def __init__(self, console: Console) -> None:
        columns = ("{task.description}", BarColumn(bar_width=24), TextColumn("{task.fields[told]}"))
        self.bars = RichProgress(*columns, TimeRemainingColumn(compact=True), console=console, transient=True)
        self.tasks: dict[int, TaskID] = {}
        self.ended, self.failed = 0, 0

    @contextmanager
    def over(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Show the bars."""
        self.runs = runs
        self.total = self.bars.add_task("all runs", total=sum(run.rounds for run in runs), told=f"0/{len(runs)}")
        with self.bars:
            yield

    def hear(self, event: Event) -> None:
        """Move them."""
        run = self.runs[event.at]
        if event.kind == "started":
            self.tasks[event.at] = self.bars.add_task(escape(name_of(run)), total=run.rounds, told="")
        elif event.kind == "tick":
            self._move(event.at, event.round)
            figure = "" if event.value is None else f" {_figure(run)} {event.value:.3f}"
            self.bars.update(self.tasks[event.at], told=f"round {event.round}/{run.rounds}{figure}")
        elif event.kind == "lost":
            self.bars.console.print(LOST.format(name_of(run)), markup=False)
        else:
            if event.kind == "done":
                self._move(event.at, run.rounds)
                self.ended += 1
            elif event.kind == "failed":
                self.failed += 1
                self.bars.console.print(f"failed: {name_of(run)}", style="red", markup=False)
            told = f"{self.ended}/{len(self.runs)}" + (f", {self.failed} failed" if self.failed else "")
            self.bars.update(self.total, told=told)
            self.bars.remove_task(self.tasks.pop(event.at))

    def _move(self, at: int, played: int) -> None:
        before = self.bars.tasks[self.bars.task_ids.index(self.tasks[at])].completed
        self.bars.update(self.tasks[at], completed=played)
        self.bars.advance(self.total, played - before)


def _figure(run: RunConfig) -> str:
    return run.target.of if run.target and run.stop_at_target else "accuracy"


def showing(console: Console, *, quiet: bool = False) -> Progress:
    """The way that suits where the output goes."""
    if quiet:
        return Quiet()
    return Bars(console) if console.is_terminal else Lines(console)
