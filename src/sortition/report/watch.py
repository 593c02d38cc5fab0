"""A live page: rewritten while runs go on and, on loopback, replaced in place in the reader's browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sortition.core.errors import InputError, bad
from sortition.core.storage.safe_files import read_lines
from sortition.core.storage.snapshot import write_atomically
from sortition.report import default_page_path
from sortition.report.gather import gather
from sortition.report.markup import duration_text, replace_control_characters
from sortition.report.page import Page
from sortition.results.run_folder import INDEX, ROUNDS, Run, find, read_document

LOOPBACK = "127.0.0.1"
MOST_LOOKS = 31  # with news, from which the pace follows
SCRIPT = """<script>setInterval(async () => {
  const response = await fetch("progress").catch(() => null); if (!response || !response.ok) return;
  const text = await response.text(), end = text.indexOf("\\n");
  const version = text.slice(0, end), html = text.slice(end + 1);
  const place = document.getElementById("progress"); if (place) place.innerHTML = html;
  if (version !== place.dataset.version) { sessionStorage.setItem("scroll", scrollY); location.reload(); }
}, 2000); addEventListener("load", () => scrollTo(0, Number(sessionStorage.getItem("scroll") || 0)));</script>"""


@dataclass(frozen=True)
class Progress:
    """How far the runs of some folders are.

    Attributes:
        done: finished runs.
        total: runs that there are or will be.
        rounds: rounds that all runs have played.
        planned: rounds that all runs are to play.
        seconds_left: how long the other rounds take, by the pace so far; None where there is none yet.
    """

    done: int
    total: int
    rounds: int
    planned: int
    seconds_left: float | None

    @property
    def text(self) -> str:
        """One line on runs, rounds and the time that is left."""
        if not self.total:
            return "no runs yet"
        text = f"{self.done} of {self.total} runs done, {self.rounds:,} of {self.planned:,} rounds"
        if self.seconds_left is None or self.is_finished:
            return text
        return f"{text}, about {duration_text(max(1, round(self.seconds_left)))} left"

    @property
    def is_finished(self) -> bool:
        """Whether there are runs, and all of them are finished."""
        return 0 < self.total == self.done

    @property
    def html(self) -> str:
        """The line with a bar."""
        return f'{self.text}<progress value="{self.rounds}" max="{max(self.planned, 1)}"></progress>'


class Watcher:
    """Looks at the folders whenever it is asked to, and keeps the page."""

    def __init__(
        self,
        folders: Sequence[str | Path],
        out: Path | None = None,
        *,
        margin: float | None = None,
        baseline: str | None = None,
        cost: str | None = None,
    ) -> None:
        self.folders = folders
        self.cost = cost
        self.margin = margin
        self.baseline = baseline
        self.out = default_page_path(folders) if out is None else out
        self.page = ""
        self.version = 0
        self._looks: list[tuple[float, int]] = []  # when there were more rounds than before, and how many
        self._shown: tuple[int, int] | None = None  # finished runs and rounds of the page as it is
        self._looking = threading.Lock()  # each request is answered in a thread of its own

    def look(self) -> Progress:
        """Return how far the runs are, and rewrite the page if there is anything new."""
        with self._looking:
            return self._look_at_runs()

    def _look_at_runs(self) -> Progress:
        """Count runs and rounds, and write the page where they have changed."""
        runs = find(*self.folders)
        played = [_played_rounds(run) for run in runs]
        lengths = [_planned_rounds(run, rounds) for run, rounds in zip(runs, played, strict=True)]
        folders = {Path(folder).resolve() for folder in self.folders}
        planned_runs = sum(int(read_document(folder / INDEX).get("runs") or 0) for folder in folders)
        missing_runs = max(0, planned_runs - len(runs))  # as long as the longest, as far as anybody knows
        planned_rounds = sum(lengths) + missing_runs * max(lengths, default=0)
        self._remember_look(sum(played))
        progress = Progress(
            done=sum(run.done for run in runs),
            total=len(runs) + missing_runs,
            rounds=sum(played),
            planned=planned_rounds,
            seconds_left=self._seconds_left(sum(played), planned_rounds),
        )
        if (progress.done, progress.rounds) != self._shown:
            self._shown = (progress.done, progress.rounds)
            self._write_page(progress)
        return progress

    def _seconds_left(self, rounds: int, planned: int) -> float | None:
        """Return how long the other rounds take by the pace of late; None where there was no progress yet."""
        first_time, first_rounds = self._looks[0]
        last_time, last_rounds = self._looks[-1]
        if last_rounds <= first_rounds:
            return None
        seconds_a_round = (last_time - first_time) / (last_rounds - first_rounds)
        return (planned - rounds) * seconds_a_round

    def _remember_look(self, rounds: int) -> None:
        """Remember when there were so many rounds, if that is news: browsers look far more often than rounds end."""
        if not self._looks or rounds != self._looks[-1][1]:
            self._looks = [*self._looks[1 - MOST_LOOKS :], (time.monotonic(), rounds)]

    def _write_page(self, progress: Progress) -> None:
        """Write the page of the runs so far, with a bar of progress while some are unfinished."""
        self.version += 1
        bar = f'<div class="progress" id="progress" data-version="{self.version}">{progress.html}</div>'
        try:
            gathered = gather(self.folders, margin=self.margin, baseline=self.baseline, cost=self.cost)
            text = Page(gathered).render("" if progress.is_finished else bar)
        except InputError as error:  # nothing is evaluated yet
            message = replace_control_characters(escape(str(error)))
            text = f"<!doctype html><meta charset=utf-8><title>Sortition</title><body>{bar}<p>{message}</p></body>"
        self.page = text if progress.is_finished else text.replace("</body>", f"{SCRIPT}</body>")
        write_atomically(self.out, text.encode())


def watch(
    folders: Sequence[str | Path],
    out: Path | None = None,
    *,
    every: float = 10.0,
    port: int | None = None,
    margin: float | None = None,
    baseline: str | None = None,
    cost: str | None = None,
    say: Callable[[str], None] = print,
    ready: Callable[[str], None] = lambda url: None,
) -> Path:
    """Rewrite the page while runs go on, until all are done; with a port, serve it on loopback meanwhile.

    Args:
        folders: run folders, or folders that hold some.
        out: the page. Default: inside the first folder, named after the study.
        every: seconds between two looks.
        port: the port of the server, 0 for any that is free; None for no server.
        margin: the margin, as in ``write``.
        baseline: the baseline, as in ``write``.
        cost: the cost, as in ``write``.
        say: a function that takes a line whenever something changed.
        ready: a function that takes the address once the page is there.
    """
    watcher = Watcher(folders, out, margin=margin, baseline=baseline, cost=cost)
    progress = watcher.look()
    server = None if port is None else _serve(watcher, port)
    ready(str(watcher.out) if server is None else f"http://{LOOPBACK}:{server.server_address[1]}/")
    last_text = ""
    try:
        while True:
            if progress.text != last_text:
                last_text = progress.text
                say(f"{watcher.out}: {last_text}")
            if progress.is_finished:
                return watcher.out
            time.sleep(every)
            progress = watcher.look()
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()


def _serve(watcher: Watcher, port: int) -> ThreadingHTTPServer:
    """Start a server of the page on loopback, in a thread of its own."""
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, watcher))
    except OSError as error:
        raise bad("--port", f"free ({error.strerror})", port, "0 takes any that is free.") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    """Gives the page and how far the runs are; nothing else."""

    def __init__(self, watcher: Watcher, *rest: object) -> None:
        self.watcher = watcher
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer ``/`` and ``/progress`` of this machine alone: other sites may point their own name at it."""
        if (self.headers.get("Host") or "").partition(":")[0] not in (LOOPBACK, "localhost"):
            self.send_error(421)
        elif self.path == "/":
            self._answer(self.watcher.page, "text/html")
        elif self.path == "/progress":
            self._answer(f"{self.watcher.version}\n{self.watcher.look().html}", "text/plain")
        else:
            self.send_error(404)

    def _answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print no line for each request."""


def _planned_rounds(run: Run, played: int) -> int:
    """Return how many rounds a run has; those that were played, where it is done or nobody knows."""
    if run.done:
        return played
    return int(run.config.get("rounds", played))


def _played_rounds(run: Run) -> int:
    """Return how many rounds a run has written whole."""
    try:
        return sum(line.endswith(b"\n") for line in read_lines(run.path / ROUNDS))
    except FileNotFoundError:
        return 0
