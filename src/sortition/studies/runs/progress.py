"""What a person sees while runs are played: bars on a terminal, one bar in a notebook, lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from html import escape as escape_html
from importlib import import_module
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from sortition.studies.config import RunConfig
from sortition.studies.workers.scheduler import Event

SHOWN = 3  # running runs that a plain line names
EVERY = 15.0  # seconds between plain lines of running runs
REDRAWN = 0.3  # seconds between two drawings of a notebook's bar
LOST = "lost the worker of {}; another continues from its last checkpoint"


class Progress(Protocol):
    """Shows the events of runs."""

    def watching(self, runs: Sequence[RunConfig], done: int) -> AbstractContextManager[None]:
        """Entered before the first run; ``done`` were finished before."""

    def update(self, event: Event) -> None:
        """Something happened to run ``event.index``."""


def name_of(run: RunConfig) -> str:
    """The name of a run on screen."""
    return f"{run.setting}/{run.method.label} seed {run.seed}"


class Quiet:
    """Shows nothing."""

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Nothing to prepare."""
        yield

    def update(self, event: Event) -> None:
        """Nothing to show."""


class Lines:
    """A line when a run ends, and one for all running ones from time to time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.active: dict[int, Event] = {}
        self.ended = 0

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Announce how many runs are to be played."""
        self.runs, self.started, self.printed = runs, time.monotonic(), time.monotonic()
        self._print(f"{len(runs)} runs to play" + (f", {done} done before" if done else ""))
        yield

    def update(self, event: Event) -> None:
        """Ends are printed at once, progress from time to time."""
        run = self.runs[event.index]
        if event.kind in ("done", "stopped", "failed"):
            last = self.active.pop(event.index, event)
            self.ended += event.kind == "done"
            figure = f"  {_figure(run)} {last.value:.3f}" if event.kind == "done" and last.value is not None else ""
            why = f": {event.text.strip().splitlines()[-1]}" if event.kind == "failed" else ""
            spent = time.monotonic() - self.started
            self._print(f"[{self.ended}/{len(self.runs)}, {spent:.0f} s] {event.kind} {name_of(run)}{figure}{why}")
        elif event.kind == "lost":
            self._print(LOST.format(name_of(run)))
        elif event.kind == "tick":
            self.active[event.index] = event
            if time.monotonic() - self.printed > EVERY:
                self._print(self._running())

    def _running(self) -> str:
        """The first running runs, and how many more there are: lock-step may play a hundred at once."""
        lines = [self._line(index) for index in list(self.active)[:SHOWN]]
        more = len(self.active) - len(lines)
        return "; ".join(lines) + (f"; and {more} more" if more else "")

    def _line(self, index: int) -> str:
        event, run = self.active[index], self.runs[index]
        figure = "" if event.value is None else f" {_figure(run)} {event.value:.3f}"
        return f"{name_of(run)} round {event.round}/{run.rounds}{figure}"

    def say(self, text: str) -> None:
        """A line of its own."""
        self._print(text)

    def _print(self, text: str) -> None:
        self.printed = time.monotonic()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """One bar for everything with the time left, and one for each running run with its current figure."""

    def __init__(self, console: Console) -> None:
        columns = ("{task.description}", BarColumn(bar_width=24), TextColumn("{task.fields[shown]}"))
        self.bars = RichProgress(*columns, TimeRemainingColumn(compact=True), console=console, transient=True)
        self.tasks: dict[int, TaskID] = {}
        self.ended, self.failed = 0, 0

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Show the bars."""
        self.runs = runs
        self.total = self.bars.add_task("all runs", total=sum(run.rounds for run in runs), shown=f"0/{len(runs)}")
        with self.bars:
            yield

    def update(self, event: Event) -> None:
        """Move the bars."""
        run = self.runs[event.index]
        if event.kind == "started":
            self.tasks[event.index] = self.bars.add_task(escape(name_of(run)), total=run.rounds, shown="")
        elif event.kind == "tick":
            self._move(event.index, event.round)
            figure = "" if event.value is None else f" {_figure(run)} {event.value:.3f}"
            self.bars.update(self.tasks[event.index], shown=f"round {event.round}/{run.rounds}{figure}")
        elif event.kind == "lost":
            self.bars.console.print(LOST.format(name_of(run)), markup=False)
        else:
            if event.kind == "done":
                self._move(event.index, run.rounds)
                self.ended += 1
            elif event.kind == "failed":
                self.failed += 1
                self.bars.console.print(f"failed: {name_of(run)}", style="red", markup=False)
            shown = f"{self.ended}/{len(self.runs)}" + (f", {self.failed} failed" if self.failed else "")
            self.bars.update(self.total, shown=shown)
            self.bars.remove_task(self.tasks.pop(event.index))

    def _move(self, index: int, played: int) -> None:
        before = self.bars.tasks[self.bars.task_ids.index(self.tasks[index])].completed
        self.bars.update(self.tasks[index], completed=played)
        self.bars.advance(self.total, played - before)


class NotebookBar:
    """One bar for all runs, drawn anew in its place; when the runs have ended, one line stays."""

    def __init__(self) -> None:
        self.rounds: dict[int, int] = {}
        self.ended, self.failed, self.drawn, self.shown = 0, 0, 0.0, ""
        self.handle: Any = None

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Show the bar, and in the end what became of the runs."""
        self.runs, self.started = runs, time.monotonic()
        self.total = max(sum(run.rounds for run in runs), 1)
        self._draw(force=True)
        try:
            yield
        finally:
            failed = f", {self.failed} failed" if self.failed else ""
            spent = time.monotonic() - self.started
            self._show(f"{self.ended} of {len(runs)} runs played in {spent:.0f} s{failed}")

    def update(self, event: Event) -> None:
        """Move the bar."""
        run = self.runs[event.index]
        if event.kind == "tick":
            self.rounds[event.index] = event.round
        elif event.kind == "done":
            self.rounds[event.index] = run.rounds
            self.ended += 1
        elif event.kind == "failed":
            self.failed += 1
        self._draw(force=event.kind in ("done", "failed"))

    def say(self, text: str) -> None:
        """A line above the bar."""
        _display_html(escape_html(text))

    def _draw(self, *, force: bool = False) -> None:
        if not force and time.monotonic() - self.drawn < REDRAWN:
            return
        self.drawn = time.monotonic()
        share = sum(self.rounds.values()) / self.total
        failed = f", {self.failed} failed" if self.failed else ""
        self._show(
            f'<progress value="{share:.3f}" max="1"></progress> {self.ended}/{len(self.runs)} runs{failed}, '
            f"{100 * share:.0f} % of the rounds"
        )

    def _show(self, markup: str) -> None:
        if markup == self.shown:
            return
        self.shown = markup
        self.handle = _display_html(markup, self.handle)


def _display_html(markup: str, handle: Any = None) -> Any:
    """Show something in a notebook, in the place of ``handle`` where there is one; the handle of what is shown."""
    notebook = import_module("IPython.display")
    content = notebook.HTML(f"<div>{markup}</div>")
    if handle is None:
        return notebook.display(content, display_id=True)
    handle.update(content)
    return handle


def say(progress: Progress, text: str) -> None:
    """Tell a person something before the runs begin, where progress is shown."""
    if isinstance(progress, Lines | NotebookBar):
        progress.say(text)
    elif isinstance(progress, Bars):
        progress.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _figure(run: RunConfig) -> str:
    return run.target.of if run.target and run.stop_at_target else "accuracy"


def automatic(wanted: bool) -> Progress:
    """For Python code: bars on a terminal, one bar in a notebook, lines elsewhere, such as in the log of a cluster."""
    console = Console(stderr=True)
    if wanted and console.is_jupyter:
        return NotebookBar()
    return showing(console, quiet=not wanted)


def showing(console: Console, *, quiet: bool = False) -> Progress:
    """The way that suits where the output goes."""
    if quiet:
        return Quiet()
    return Bars(console) if console.is_terminal else Lines(console)
