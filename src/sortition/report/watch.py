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
from sortition.report import place
from sortition.report.gather import gather
from sortition.report.markup import printable
from sortition.report.page import Page
from sortition.results.run_folder import INDEX, Run, document, find

LOOPBACK = "127.0.0.1"
SCRIPT = """<script>setInterval(async () => {
  const found = await fetch("progress").catch(() => null); if (!found || !found.ok) return;
  const text = await found.text(), end = text.indexOf("\\n"), version = text.slice(0, end), html = text.slice(end + 1);
  const place = document.getElementById("progress"); if (place) place.innerHTML = html;
  if (version !== place.dataset.version) { sessionStorage.setItem("scroll", scrollY); location.reload(); }
}, 2000); addEventListener("load", () => scrollTo(0, Number(sessionStorage.getItem("scroll") || 0)));</script>"""


@dataclass(frozen=True)
class Progress:
    """How far the runs of some folders are."""

    done: int
    total: int
    rounds: int
    planned: int
    left: float | None  # seconds

    @property
    def text(self) -> str:
        """One line."""
        if not self.total:
            return "no runs yet"
        line = f"{self.done} of {self.total} runs done, {self.rounds:,} of {self.planned:,} rounds"
        return line if self.left is None or self.finished else f"{line}, about {_span(self.left)} left"

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return self.done == self.total

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
    ) -> None:
        self.folders = folders
        self.margin = margin
        self.baseline = baseline
        self.out = place(folders) if out is None else out
        self.page = ""
        self.version = 0
        self._seen: list[tuple[float, int]] = []
        self._shown: tuple[int, int] | None = None
        self._looking = threading.Lock()  # each request is answered in a thread of its own

    def look(self) -> Progress:
        """Where the runs are now; the page is rewritten if there is anything new."""
        with self._looking:
            return self._look()

    def _look(self) -> Progress:
        runs = find(*self.folders)
        rounds = {run.path: _played(run) for run in runs}
        lengths = [rounds[run.path] if run.done else int(run.config.get("rounds", 0)) for run in runs]
        folders = {Path(folder).resolve() for folder in self.folders}
        planned = sum(int(document(folder / INDEX).get("runs") or 0) for folder in folders)
        now = Progress(
            sum(run.done for run in runs),
            max(len(runs), planned),
            sum(rounds.values()),
            sum(lengths) + (planned - len(runs)) * max(lengths, default=0) if planned > len(runs) else sum(lengths),
            None,
        )
        now = Progress(now.done, now.total, now.rounds, now.planned, self._left(now))
        if (now.done, now.rounds) != self._shown:
            self._shown = (now.done, now.rounds)
            self._write(now)
        return now

    def _left(self, now: Progress) -> float | None:
        """Seconds, by the pace of the last looks."""
        self._seen = [*self._seen[-30:], (time.monotonic(), now.rounds)]
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (now.planned - after) * (end - start) / (after - before) if after > before else None

    def _write(self, now: Progress) -> None:
        self.version += 1
        bar = f'<div class="progress" id="progress" data-version="{self.version}">{now.html}</div>'
        try:
            gathered = gather(self.folders, margin=self.margin, baseline=self.baseline)
            text = Page(gathered).render("" if now.finished else bar)
        except InputError as error:  # nothing is evaluated yet
            said = printable(escape(str(error)))
            text = f"<!doctype html><meta charset=utf-8><title>Sortition</title><body>{bar}<p>{said}</p></body>"
        self.page = text if now.finished else text.replace("</body>", f"{SCRIPT}</body>")
        write_atomically(self.out, text.encode())


def watch(
    folders: Sequence[str | Path],
    out: Path | None = None,
    *,
    every: float = 10.0,
    port: int | None = None,
    margin: float | None = None,
    baseline: str | None = None,
    say: Callable[[str], None] = print,
    ready: Callable[[str], None] = lambda url: None,
) -> Path:
    """Rewrite the page while runs go on, until all are done; with a port, serve it on loopback meanwhile.

    Args:
        folders: run folders, or folders that hold some.
        out: the page. Default: inside the first folder, named after the study.
        every: seconds between two looks.
        port: of the server, 0 for any that is free; None for no server.
        margin: as in ``write``.
        baseline: as in ``write``.
        say: is given a line whenever something changed.
        ready: is given the address once the page is there.
    """
    watcher = Watcher(folders, out, margin=margin, baseline=baseline)
    now = watcher.look()
    server = None if port is None else _serve(watcher, port)
    ready(str(watcher.out) if server is None else f"http://{LOOPBACK}:{server.server_address[1]}/")
    said = ""
    try:
        while True:
            if now.text != said:
                said = now.text
                say(f"{watcher.out}: {said}")
            if now.finished and now.total:
                return watcher.out
            time.sleep(every)
            now = watcher.look()
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()


def _serve(watcher: Watcher, port: int) -> ThreadingHTTPServer:
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
        """``/`` and ``/progress``, for a page of this machine: other sites may point their own name at it."""
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
        """No line for each request."""


def _played(run: Run) -> int:
    try:
        return sum(line.endswith(b"\n") for line in read_lines(run.path / "rounds.jsonl"))
    except FileNotFoundError:
        return 0


def _span(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
