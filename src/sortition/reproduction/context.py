"""What a figure hook is given: the finished runs, how the preset was cut, and where pictures go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortition.core.errors import bad
from sortition.results.run_folder import Run, find

if TYPE_CHECKING:
    import altair as alt

Toml = dict[str, Any]  # a table of a preset, as it was read
Marks = list[dict[str, float | str]]  # the data of a chart, a row per mark


@dataclass
class Context:
    """What a figure hook is given.

    Attributes:
        name: of the preset.
        folder: where the page is written; its pictures are beside it.
        runs: folder of the runs; None where the preset has no study.
        seeds: number of seeds that the command line asked for; None: the preset's own.
        rounds: number of rounds that the command line asked for; None: the preset's own.
        say: shows a line of progress; default: silent.
        finished: the finished runs of what was to be run; None: all finished runs under ``runs``.
    """

    name: str
    folder: Path
    runs: Path | None
    seeds: int | None
    rounds: int | None
    say: Callable[[str], None] = field(default=lambda text: None)
    finished: list[Run] | None = None

    def finished_runs(self, *, setting: str | None = None, methods: list[str] | None = None) -> list[Run]:
        """Return the finished runs; of one setting and of some methods only where these are given."""
        return [
            run
            for run in self._all_finished_runs()
            if (setting is None or run.setting == setting) and (methods is None or run.method in methods)
        ]

    def _all_finished_runs(self) -> list[Run]:
        """Return the finished runs of all settings and methods."""
        if self.finished is not None:
            return self.finished
        if self.runs is None:
            return []
        return [run for run in find(self.runs) if run.done]

    def save(self, name: str, chart: alt.TopLevelMixin) -> str:
        """Draw an Altair chart into ``<preset>-<name>.png`` beside the page; return the Markdown that shows it."""
        from sortition.data.charts import write

        if set(name) & set("/\\:\0"):
            raise bad("A picture's name", "a text that can name a file", name)
        file = write(chart, self.folder / f"{self.name}-{name}.png")
        return f"![{name}]({Path(file).name})"
