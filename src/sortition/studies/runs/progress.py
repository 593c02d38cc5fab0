"""What a person sees while runs are played: bars on a terminal, one bar in a notebook, lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from html import escape as escape_html
from importlib import import_module
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from sortition.studies.config import RunConfig
from sortition.studies.workers.scheduler import ENDS, Event

NAMED_RUNS = 3  # running runs that a plain line names
UNLIMITED_ROUNDS = 100  # that a run counts for in a bar where its cost alone ends it
SECONDS_PER_LINE = 15.0  # between plain lines of running runs
SECONDS_PER_DRAWING = 0.3  # of a notebook's bar
LOST_WORKER = "lost the worker of {}; another continues from its last checkpoint"


class Progress(Protocol):
    """Shows the events of runs."""

    def watching(self, runs: Sequence[RunConfig], done: int) -> AbstractContextManager[None]:
        """Return a block that is entered before the first run; ``done`` runs were finished before."""

    def update(self, event: Event) -> None:
        """Show what happened to run ``event.index``."""


def name_of(run: RunConfig) -> str:
    """Return the name of a run on screen."""
    return f"{run.setting}/{run.method.label} seed {run.seed}"


class Quiet:
    """Shows nothing."""

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Prepare nothing."""
        yield

    def update(self, event: Event) -> None:
        """Show nothing."""


class Lines:
    """Prints a line when a run ends, and one for all running ones from time to time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.active: dict[int, Event] = {}
        self.n_done = 0

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Announce how many runs are to be played."""
        self.runs = runs
        self.started_at = time.monotonic()
        earlier_runs = f", {done} done before" if done else ""
        plural = "" if len(runs) == 1 else "s"
        self._print(f"{len(runs)} run{plural} to play{earlier_runs}")
        yield

    def update(self, event: Event) -> None:
        """Print ends at once, and progress from time to time."""
        run = self.runs[event.index]
        if event.kind in ENDS:
            self._print_end(run, event)
        elif event.kind == "lost":
            self._print(LOST_WORKER.format(name_of(run)))
        elif event.kind == "tick":
            self.active[event.index] = event
            if time.monotonic() - self.printed_at > SECONDS_PER_LINE:
                self._print(self._running())

    def _print_end(self, run: RunConfig, event: Event) -> None:
        last_event = self.active.pop(event.index, event)
        details = ""
        if event.kind == "done":
            self.n_done += 1
            if last_event.value is not None:
                details = f"  {_figure_name(run)} {last_event.value:.3f}"
        elif event.kind == "failed":
            details = f": {event.text.strip().splitlines()[-1]}"
        seconds = time.monotonic() - self.started_at
        self._print(f"[{self.n_done}/{len(self.runs)}, {seconds:.0f} s] {event.kind} {name_of(run)}{details}")

    def _running(self) -> str:
        """Return the first running runs, and how many more there are: lock-step may play a hundred at once."""
        parts = [self._progress_of(index) for index in list(self.active)[:NAMED_RUNS]]
        if len(self.active) > NAMED_RUNS:
            parts.append(f"and {len(self.active) - NAMED_RUNS} more")
        return "; ".join(parts)

    def _progress_of(self, index: int) -> str:
        run = self.runs[index]
        return f"{name_of(run)} {_rounds_and_figure(run, self.active[index])}"

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self._print(text)

    def _print(self, text: str) -> None:
        self.printed_at = time.monotonic()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """Shows one bar for everything with the time left, and one for each running run with its current figure."""

    def __init__(self, console: Console) -> None:
        columns = ("{task.description}", BarColumn(bar_width=24), TextColumn("{task.fields[shown]}"))
        self.bars = RichProgress(*columns, TimeRemainingColumn(compact=True), console=console, transient=True)
        self.tasks: dict[int, TaskID] = {}
        self.n_done = 0
        self.n_failed = 0

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Show the bars."""
        self.runs = runs
        self.total = self.bars.add_task("all runs", total=sum(map(_extent, runs)), shown=f"0/{len(runs)}")
        with self.bars:
            yield

    def update(self, event: Event) -> None:
        """Move the bars."""
        run = self.runs[event.index]
        if event.kind == "started":
            self.tasks[event.index] = self.bars.add_task(escape(name_of(run)), total=_extent(run), shown="")
        elif event.kind == "tick":
            self._move(event.index, _shown_part(run, event))
            self.bars.update(self.tasks[event.index], shown=_rounds_and_figure(run, event))
        elif event.kind == "lost":
            self.bars.console.print(LOST_WORKER.format(name_of(run)), markup=False)
        else:
            if event.kind == "done":
                self._move(event.index, _extent(run))
                self.n_done += 1
            elif event.kind == "failed":
                self.n_failed += 1
                self.bars.console.print(f"failed: {name_of(run)}", style="red", markup=False)
            self.bars.update(self.total, shown=f"{self.n_done}/{len(self.runs)}{_failures(self.n_failed)}")
            self.bars.remove_task(self.tasks.pop(event.index))

    def _move(self, index: int, part: float) -> None:
        position = self.bars.task_ids.index(self.tasks[index])
        already_shown = self.bars.tasks[position].completed
        self.bars.update(self.tasks[index], completed=part)
        self.bars.advance(self.total, part - already_shown)


class NotebookBar:
    """Shows one bar for all runs, drawn anew in its place; when the runs have ended, one line stays."""

    def __init__(self) -> None:
        self.parts: dict[int, float] = {}
        self.n_done = 0
        self.n_failed = 0
        self.drawn_at = 0.0
        self.markup = ""
        self.handle: DisplayHandle | None = None

    @contextmanager
    def watching(self, runs: Sequence[RunConfig], done: int) -> Iterator[None]:
        """Show the bar, and in the end what became of the runs."""
        self.runs = runs
        self.started_at = time.monotonic()
        self.total = sum(map(_extent, runs))
        self._draw(force=True)
        try:
            yield
        finally:
            seconds = time.monotonic() - self.started_at
            self._show(f"{self.n_done} of {len(runs)} runs played in {seconds:.0f} s{_failures(self.n_failed)}")

    def update(self, event: Event) -> None:
        """Move the bar."""
        run = self.runs[event.index]
        if event.kind == "tick":
            self.parts[event.index] = _shown_part(run, event)
        elif event.kind == "done":
            self.parts[event.index] = _extent(run)
            self.n_done += 1
        elif event.kind == "failed":
            self.n_failed += 1
        self._draw(force=event.kind in ("done", "failed"))

    def say(self, text: str) -> None:
        """Show a line above the bar."""
        _display_html(escape_html(text))

    def _draw(self, *, force: bool = False) -> None:
        if not force and time.monotonic() - self.drawn_at < SECONDS_PER_DRAWING:
            return
        self.drawn_at = time.monotonic()
        share = sum(self.parts.values()) / max(self.total, 1)
        self._show(
            f'<progress value="{share:.3f}" max="1"></progress> {self.n_done}/{len(self.runs)} runs'
            f"{_failures(self.n_failed)}, {100 * share:.0f} % of the work"
        )

    def _show(self, markup: str) -> None:
        if markup == self.markup:
            return
        self.markup = markup
        self.handle = _display_html(markup, self.handle)


class DisplayHandle(Protocol):
    """A place in a notebook whose content can be replaced, as IPython gives it."""

    def update(self, content: object) -> None:
        """Replace the content."""


def _display_html(markup: str, handle: DisplayHandle | None = None) -> DisplayHandle | None:
    """Show something in a notebook, in the place of ``handle`` where there is one, and return its handle."""
    notebook = import_module("IPython.display")
    content = notebook.HTML(f"<div>{markup}</div>")
    if handle is not None:
        handle.update(content)
        return handle
    new_handle: DisplayHandle | None = notebook.display(content, display_id=True)
    return new_handle


def say(progress: Progress, text: str) -> None:
    """Tell a person something before the runs begin, where progress is shown."""
    if isinstance(progress, Lines | NotebookBar):
        progress.say(text)
    elif isinstance(progress, Bars):
        progress.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _extent(run: RunConfig) -> int:
    """Return how many rounds a run counts for in a bar."""
    return run.rounds or UNLIMITED_ROUNDS


def _shown_part(run: RunConfig, event: Event) -> float:
    """Return how much of its extent a run has played: by its cost where this ends it, else by its rounds."""
    if event.share is not None:
        return event.share * _extent(run)
    return min(event.round, _extent(run))


def _rounds_and_figure(run: RunConfig, event: Event) -> str:
    """Return how far a run is, and the figure of its last evaluation."""
    if event.share is not None:
        rounds = f"round {event.round}, {100 * event.share:.0f} % of {run.until}"
    elif run.rounds is None:
        rounds = f"round {event.round}"
    else:
        rounds = f"round {event.round}/{run.rounds}"
    if event.value is None:
        return rounds
    return f"{rounds} {_figure_name(run)} {event.value:.3f}"


def _figure_name(run: RunConfig) -> str:
    if run.target and run.stop_at_target:
        return run.target.metric
    return run.metric


def _failures(number: int) -> str:
    if number:
        return f", {number} failed"
    return ""


def automatic(wanted: bool) -> Progress:
    """Return what shows progress to Python code: bars, one bar in a notebook, or lines where there is no terminal."""
    console = Console(stderr=True)
    if wanted and console.is_jupyter:
        return NotebookBar()
    return showing(console, quiet=not wanted)


def showing(console: Console, *, quiet: bool = False) -> Progress:
    """Return what shows progress in the way that suits where the output goes."""
    if quiet:
        return Quiet()
    if console.is_terminal:
        return Bars(console)
    return Lines(console)
