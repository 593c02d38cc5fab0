"""Run folders in, one self-contained page out; and figures and LaTeX tables for papers. Trains nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sortition.core.storage.snapshot import write_atomically
from sortition.report.gather import gather
from sortition.report.page import Page

__all__ = ["watch", "write"]


def write(
    folders: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    figures: str | Path | None = None,
    refresh: float | None = None,
) -> Path:
    """Write the page, atomically, and with ``figures`` PNG, SVG, PDF and LaTeX files into that folder."""
    page = Page(gather(folders))
    text = page.render(refresh)
    write_atomically(Path(out), text.encode())
    if figures is not None:
        from sortition.report.export import export

        export(page, Path(figures))
    return Path(out)


def watch(
    folders: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    every: float = 10.0,
    say: Callable[[str], None] = print,
) -> Path:
    """Rewrite the page while runs go on; the last time when all of them are done."""
    while True:
        page = Page(gather(folders))
        runs = [run for setting in page.gathered.settings for run in setting.runs]
        left = sum(not run.done for run in runs)
        write_atomically(Path(out), page.render(every if left else None).encode())
        say(f"{out}: {len(runs) - left} of {len(runs)} runs done")
        if not left:
            return Path(out)
        time.sleep(every)
