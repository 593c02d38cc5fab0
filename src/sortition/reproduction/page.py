"""The page of a reproduction as Markdown, and beside it the values of single seeds as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from sortition.core.storage.snapshot import write_atomically
from sortition.reproduction.comparison import SeedValue
from sortition.reproduction.index import sections, seed_rows
from sortition.reproduction.preset import Preset
from sortition.results.run_folder import Run
from sortition.results.table import Table
from sortition.studies.plan import StudyPlan

COLUMNS = ("preset", "table", "setting", "method", "seed", "value")
VALUES = "Values of single seeds"


@dataclass(frozen=True)
class ReproductionPage:
    """What a page shows: what was published, how it was run, tables, pictures and statistics."""

    preset: Preset
    options: str  # of the command line, as typed
    plan: StudyPlan  # what was to be run
    whole: StudyPlan  # of which published table
    runs: list[Run]  # the finished ones
    tables: list[Table]
    pictures: list[str] = field(default_factory=list)
    compared: list[Table] = field(default_factory=list)
    values: list[SeedValue] = field(default_factory=list)
    made: date = field(default_factory=date.today)

    def markdown(self) -> str:
        """The text of the page."""
        paper = self.preset.paper
        parts = [f"# {paper.title}", *(text.strip() for text in (paper.source, paper.notes) if text.strip())]
        parts.append(f"Made by `sortition reproduce {self.preset.name}{self.options}` on {self.made}.")
        if self.whole.runs:
            parts.append("\n".join([*self._extent(), *_provenance(self.runs)]))
        parts += [table.markdown() for table in self.tables] + self.pictures
        if self.compared:
            parts += ["## Paired comparison", *[table.markdown() for table in self.compared]]
        return "\n\n".join(parts) + "\n"

    def _extent(self) -> list[str]:
        """Runs, rounds and seeds, and whether something was left out."""
        plan, whole = self.plan, self.whole
        lines = [f"- runs: {len(self.runs)} finished of {len(whole.runs)} in the whole table"]
        if len(plan.runs) < len(whole.runs) or plan.runs[0].rounds != whole.runs[0].rounds:
            lines.append("- **cut to size**: cells that were not run are empty")
        rounds, seeds = _span(run.rounds for run in plan.runs), _span(run.seed for run in plan.runs)
        return [*lines, f"- rounds: {rounds}; seeds: {seeds}"]


def _provenance(runs: list[Run]) -> list[str]:
    """Data, versions and computing time of the finished runs."""
    if not runs:
        return []
    data = sorted({(run.manifest["data"]["name"], run.manifest["data"]["digest"]) for run in runs})
    manifest = runs[0].manifest
    used = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    spent = sum(timing.get("total", 0.0) for run in runs for timing in run.timings)
    return [
        *(f"- data: {name}, SHA-256 `{digest}`" for name, digest in data),
        f"- versions: sortition {manifest['sortition']}, {used}",
        f"- computing: {spent / 60:.1f} core-minutes in all",
    ]


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    whole = len(found) > 2 and found == list(range(found[0], found[-1] + 1))
    return f"{found[0]}–{found[-1]}" if whole else ", ".join(map(str, found))


def write_pages(path: Path, pages: Sequence[ReproductionPage]) -> None:
    """One file of one or several pages; the values of their seeds in a CSV file of the same name.

    What other presets have in these files stays.
    """
    table, made = path.with_suffix(".csv"), {page.preset.name for page in pages}
    parts = {page.preset.name: page.markdown().strip() for page in pages}
    text = "\n\n".join((_sections(path) | parts).values())
    rows = [row for row in seed_rows(table) if row[0] not in made]
    rows += [_row(page.preset.name, value) for page in pages for value in page.values]
    if rows:
        text += f"\n\n{VALUES}: [{table.name}]({table.name}).\n"
        write_atomically(table, _csv(rows).encode())
    write_atomically(path, text.strip().encode() + b"\n")


def _sections(path: Path) -> dict[str, str]:
    """What a page shows already, by preset."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {made["preset"]: section.split(f"\n\n{VALUES}: ")[0] for made, section in sections(text)}


def _row(preset: str, one: SeedValue) -> list[str]:
    value = "" if one.value is None else f"{one.value:.6g}"
    return [preset, one.table, one.setting, one.method, str(one.seed), value]


def _csv(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *rows])
    return out.getvalue()
