"""What a figure hook is given: the finished runs, how the preset was cut, and where pictures go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.core.errors import bad
from sortition.results.run_folder import Run, find


@dataclass
class Context:
    """What a figure hook is given."""

    name: str
    folder: Path  # of the page; its pictures are beside it
    runs: Path | None
    seeds: int | None
    rounds: int | None
    say: Callable[[str], None] = field(default=lambda text: None)
    finished: list[Run] | None = None  # of what was to be run; None: whatever lies under ``runs``

    def done(self, *, setting: str | None = None, methods: list[str] | None = None) -> list[Run]:
        """The finished runs; of one setting and of some methods only where these are given."""
        found = self.finished
        if found is None:
            found = [] if self.runs is None else [run for run in find(self.runs) if run.done]
        return [
            run
            for run in found
            if (setting is None or run.setting == setting) and (methods is None or run.method in methods)
        ]

    def save(self, name: str, chart: Any) -> str:
        """Draw an Altair chart into ``<preset>-<name>.png`` beside the page; the Markdown that shows it."""
        from sortition.data.charts import write

        if set(name) & set("/\\:\0"):
            raise bad("A picture's name", "a text that can name a file", name)
        file = write(chart, self.folder / f"{self.name}-{name}.png")
        return f"![{name}]({Path(file).name})"
