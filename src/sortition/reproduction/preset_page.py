"""The page of a reproduction as Markdown, and beside it the values of single seeds as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import takewhile
from pathlib import Path

from sortition.core.storage.snapshot import write_atomically
from sortition.reproduction.comparison import SeedValue
from sortition.reproduction.preset import Preset
from sortition.results.run_folder import Run
from sortition.results.table import Table
from sortition.studies.plan import StudyPlan

COLUMNS = ("preset", "table", "setting", "method", "seed", "value")
VALUES = "Values of single seeds"
MADE_BY = re.compile(
    r"^Made by `sortition reproduce (?P<preset>\S+?)(?P<options>(?: [^`]*)?)`(?: on (?P<date>[\d-]+))?\.$"
)


@dataclass(frozen=True)
class ReproductionPage:
    """What a page shows: what was published, how it was run, tables, pictures and statistics.

    Attributes:
        preset: what was reproduced.
        options: of the command line, as typed.
        plan: what was to be run.
        whole_plan: all runs of the preset, of which ``plan`` is a part.
        runs: the finished runs.
        tables: the published tables beside ours.
        pictures: Markdown that the preset's figure hooks returned.
        compared: tables of paired comparisons.
        values: the values of single seeds behind the tables.
        created_on: the day on which the page was written; default: today.
    """

    preset: Preset
    options: str
    plan: StudyPlan
    whole_plan: StudyPlan
    runs: list[Run]
    tables: list[Table]
    pictures: list[str] = field(default_factory=list)
    compared: list[Table] = field(default_factory=list)
    values: list[SeedValue] = field(default_factory=list)
    created_on: date = field(default_factory=date.today)

    def markdown(self) -> str:
        """Return the text of the page."""
        paper = self.preset.paper
        parts = [f"# {paper.title}", *(text.strip() for text in (paper.source, paper.notes) if text.strip())]
        parts.append(f"Made by `sortition reproduce {self.preset.name}{self.options}` on {self.created_on}.")
        if self.whole_plan.runs:
            parts.append("\n".join([*self._extent(), *_provenance_lines(self.runs)]))
        parts += [table.markdown() for table in self.tables]
        parts += self.pictures
        if self.compared:
            parts += ["## Paired comparison", *[table.markdown() for table in self.compared]]
        return "\n\n".join(parts) + "\n"

    def _extent(self) -> list[str]:
        """Say how many runs, rounds and seeds there are, and whether something was left out."""
        lines = [f"- runs: {len(self.runs)} finished of {len(self.whole_plan.runs)} in the whole table"]
        fewer_runs = len(self.plan.runs) < len(self.whole_plan.runs)
        if fewer_runs or self.plan.runs[0].rounds != self.whole_plan.runs[0].rounds:
            lines.append("- **cut to size**: cells that were not run are empty")
        rounds = _numbers_text(run.most_rounds for run in self.plan.runs)
        seeds = _numbers_text(run.seed for run in self.plan.runs)
        return [*lines, f"- rounds: {rounds}; seeds: {seeds}"]


def _provenance_lines(runs: list[Run]) -> list[str]:
    """Name the data, versions and computing time of the finished runs."""
    if not runs:
        return []
    data_sets = sorted({(run.manifest["data"]["name"], run.manifest["data"]["digest"]) for run in runs})
    manifest = runs[0].manifest
    libraries = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    seconds = sum(timing.get("total", 0.0) for run in runs for timing in run.timings)
    return [
        *(f"- data: {name}, SHA-256 `{digest}`" for name, digest in data_sets),
        f"- versions: sortition {manifest['sortition']}, {libraries}",
        f"- computing: {seconds / 60:.1f} core-minutes in all",
    ]


def _numbers_text(numbers: Iterable[int]) -> str:
    """Write "0–4" for three or more consecutive numbers, else the list of them."""
    distinct = sorted(set(numbers))
    first = distinct[0]
    last = distinct[-1]
    if len(distinct) > 2 and distinct == list(range(first, last + 1)):
        return f"{first}–{last}"
    return ", ".join(map(str, distinct))


# -- files ----------------------------------------------------------------------------------------------------------


def write_pages(path: Path, pages: Sequence[ReproductionPage]) -> None:
    """Write one file of one or several pages, and the values of their seeds into a CSV file of the same name.

    What other presets have in these files stays, and so does what stands above all presets.
    """
    csv_path = path.with_suffix(".csv")
    head = page_head(path.read_text(encoding="utf-8")) if path.exists() else ""
    new_sections = {page.preset.name: page.markdown().strip() for page in pages}
    sections = (_sections_by_preset(path) | new_sections).values()
    text = "\n\n".join([head, *sections] if head else sections)
    rows = [row for row in seed_rows(csv_path) if row[0] not in new_sections]
    rows += [_seed_row(page.preset.name, seed_value) for page in pages for seed_value in page.values]
    if rows:
        text += f"\n\n{VALUES}: [{csv_path.name}]({csv_path.name}).\n"
        write_atomically(csv_path, _csv(rows).encode())
    write_atomically(path, text.strip().encode() + b"\n")


def split_sections(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the sections of a page, each with the match of the line that says by which preset it was made."""
    for section in _split_at_titles(text):
        made_by = _made_by(section)
        if made_by is not None:
            yield made_by, section.strip()


def page_head(text: str) -> str:
    """Return what a page says above the sections that presets made: the answer to whether the paper holds."""
    sections_above = takewhile(lambda section: _made_by(section) is None, _split_at_titles(text))
    return "".join(sections_above).strip()


def _split_at_titles(text: str) -> list[str]:
    return re.split(r"^(?=# )", text, flags=re.MULTILINE)


def _made_by(section: str) -> re.Match[str] | None:
    """Return the match of the line that says by which preset a section was made; None without such a line."""
    return next(filter(None, map(MADE_BY.match, section.splitlines())), None)


def _sections_by_preset(path: Path) -> dict[str, str]:
    """Return the sections that a page has already."""
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    return {made_by["preset"]: section.split(f"\n\n{VALUES}: ")[0] for made_by, section in split_sections(text)}


def seed_rows(path: Path) -> list[list[str]]:
    """Return the rows of a page's CSV file, without its header; none where there is no file."""
    if not path.exists():
        return []
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:]


def _seed_row(preset: str, seed_value: SeedValue) -> list[str]:
    value = "" if seed_value.value is None else f"{seed_value.value:.6g}"
    return [preset, seed_value.table, seed_value.setting, seed_value.method, str(seed_value.seed), value]


def _csv(rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
    return buffer.getvalue()
