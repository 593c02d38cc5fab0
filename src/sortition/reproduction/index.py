"""The index of published tables and figures: which were reproduced, how far, and what was found.

``papers.toml`` lists what the papers contain, written by hand; ``pages.json`` says what the pages of the documentation
show, read from them by ``python -m sortition.reproduction.index docs/reproduction``, which also writes the folder's
README.md. So an item counts as run only where a page has its runs.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sortition.core.storage.snapshot import write_atomically
from sortition.results.marks import filled
from sortition.results.table import Table

HERE = Path(__file__).parent
COLUMNS = ["paper", "table or figure", "preset", "state", "verdict", "page", "per seed", "date"]
MADE = re.compile(
    r"^Made by `sortition reproduce (?P<preset>\S+?)(?P<options>(?: [^`]*)?)`(?: on (?P<date>[\d-]+))?\.$"
)


@dataclass(frozen=True)
class Extent:
    """What a page shows of a preset; ``finished`` and ``planned`` are 0 where it keeps no runs."""

    page: str
    options: str
    date: str
    finished: int
    planned: int
    cut: bool
    rounds: str
    seeds: str
    values: str = ""  # the file with the values of single seeds; empty where there is none

    @property
    def state(self) -> str:
        """In full, computed, or how it was cut."""
        if not self.planned:
            return "computed"
        if self.finished == self.planned and not self.cut:
            return f"in full: {self.planned} runs"
        return f"cut: {self.finished} of {self.planned} runs, rounds {self.rounds}, seeds {self.seeds}"


@dataclass(frozen=True)
class Item:
    """A published table or figure, or a question beside it."""

    paper: str
    what: str
    preset: str = ""
    verdict: str = ""  # in a sentence; empty where nothing was run
    short: str = ""  # the verdict for the project's README; empty for entries that it does not show
    why: str = ""  # it was never run


def items() -> list[Item]:
    """What the papers contain, in their order."""
    papers = tomllib.loads((HERE / "papers.toml").read_text(encoding="utf-8"))["paper"]
    return [Item(paper["name"], **one) for paper in papers for one in paper["item"]]


def extents() -> dict[str, Extent]:
    """What the pages of the documentation show, by preset, as this version of the package was shipped."""
    found: dict[str, dict[str, Any]] = json.loads((HERE / "pages.json").read_text(encoding="utf-8"))
    return {preset: Extent(**one) for preset, one in found.items()}


def extents_of(folder: Path) -> dict[str, Extent]:
    """What the pages in a folder show, by preset."""
    found = {}
    for page in sorted(folder.glob("*.md")):
        table = page.with_suffix(".csv")
        seeds = {row[0] for row in seed_rows(table)}
        for made, section in sections(page.read_text(encoding="utf-8")):
            values = table.name if made["preset"] in seeds else ""
            found[made["preset"]] = _extent(page.name, made, section, values)
    return found


def sections(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The sections of a page, each with the line that says by which preset it was made."""
    for section in re.split(r"^(?=# )", text, flags=re.MULTILINE):
        if made := next(filter(None, map(MADE.match, section.splitlines())), None):
            yield made, section.strip()


def seed_rows(table: Path) -> list[list[str]]:
    """The rows of a page's CSV file, without its header; none where there is no file."""
    return list(csv.reader(table.read_text(encoding="utf-8").splitlines()))[1:] if table.exists() else []


def _extent(page: str, made: re.Match[str], section: str, values: str) -> Extent:
    runs = re.search(r"^- runs: (\d+) finished of (\d+)", section, re.MULTILINE)
    spans = re.search(r"^- rounds: (.+); seeds: (.+)$", section, re.MULTILINE)
    finished, planned = (int(runs[1]), int(runs[2])) if runs else (0, 0)
    rounds, seeds = (spans[1], spans[2]) if spans else ("", "")
    cut = "**cut to size**" in section
    return Extent(page, made["options"].strip(), made["date"] or "", finished, planned, cut, rounds, seeds, values)


def index_rows(shown: Mapping[str, Extent], *, links: bool = False) -> list[list[str]]:
    """A row of ``COLUMNS`` for every item."""
    rows = []
    for item in items():
        extent = shown.get(item.preset)
        state = extent.state if extent else f"never run: {item.why}" if item.why else "never run"
        shown_as = (lambda name: f"[{name}]({name})") if links else str
        cells = [item.verdict, shown_as(extent.page), _values(extent, shown_as), extent.date] if extent else [""] * 4
        rows.append([item.paper, item.what, item.preset, state, *cells])
    return rows


def _values(extent: Extent, shown_as: Callable[[str], str]) -> str:
    """Where the values of single seeds are; nothing where no runs were needed."""
    return shown_as(extent.values) if extent.values else "missing" if extent.planned else ""


def index_lines(shown: Mapping[str, Extent]) -> list[str]:
    """The same as lines for a terminal: the presets of each paper, and below each its state and verdict."""
    lines, paper = [], ""
    for name, what, preset, state, verdict, page, _, date in index_rows(shown):
        lines += [] if name == paper else [name]
        paper = name
        below = "; ".join(filter(None, [state, verdict, f"{page}, {date}" if page else ""]))
        lines += [f"  {preset or '–':22}{what}", f"{'':24}{below}"]
    return lines


def readme(shown: Mapping[str, Extent]) -> str:
    """The page docs/reproduction/README.md: a list for every paper, which fits the screen of a phone."""
    counts = [sum(item.preset in shown for item in items()), len(items())]
    lists: dict[str, list[str]] = {}
    for paper, what, preset, state, verdict, page, values, date in index_rows(shown, links=True):
        where = [f"`{preset}`" if preset else "", page, date, f"per seed: {values}" if values else ""]
        place = f" ({', '.join(filter(None, where))})" if page else f" (`{preset}`)" if preset else ""
        found = " ".join(f"{one[0].upper()}{one[1:]}." for one in (state, verdict) if one)
        lists.setdefault(paper, []).append(f"- **{what}**{place}. {found}")
    return "\n\n".join(
        [
            "# Published tables and figures",
            f"{counts[0]} of the {counts[1]} entries below have a page with the paper's figures beside ours; the "
            "others were never run, and say why. *In full* means every run of the preset with its published number of "
            "rounds; *cut* says what was left out; *computed* keeps no runs: its figures are made with the page. *Per "
            "seed* is the file with the values of single seeds.",
            "`sortition reproduce` prints the same; `sortition reproduce NAME` reproduces an entry.",
            *("\n".join([f"## {paper}\n", *lines]) for paper, lines in lists.items()),
        ]
    )


def summary(shown: Mapping[str, Extent]) -> str:
    """For the project's README: the main table of each paper, and how many entries were run, and how far."""
    table = Table("", ["published", "here"])
    for item in items():
        if item.short:
            state = shown[item.preset].state if item.preset in shown else "never run"
            table.rows.append([f"{item.paper}, {item.what}", f"{state}; {item.short}"])
    states = [shown[item.preset].state.partition(":")[0] if item.preset in shown else "never" for item in items()]
    whole, cut, computed, never = (states.count(state) for state in ("in full", "cut", "computed", "never"))
    return (
        f"{table.markdown()}\n\nOf {len(states)} published tables and figures and questions beside them {whole} were "
        f"run in full, {cut} cut to fewer runs or rounds, and {computed} computed with their page; {never} were never "
        "run. Each with its reason and verdict: [docs/reproduction/](docs/reproduction/README.md)."
    )


def with_summary(text: str, shown: Mapping[str, Extent]) -> str:
    """The text of the project's README with that between its two marks."""
    return filled(text, {"reproduction": summary(shown)})


def write_index(folder: Path) -> None:
    """Read the pages in a folder; write its README.md, and what the pages show into the package and the project's."""
    shown = extents_of(folder)
    record = json.dumps({preset: asdict(one) for preset, one in sorted(shown.items())}, indent=1, ensure_ascii=False)
    write_atomically(HERE / "pages.json", record.encode() + b"\n")
    write_atomically(folder / "README.md", readme(shown).encode() + b"\n")
    project = folder.resolve().parents[1] / "README.md"
    if project.exists():
        write_atomically(project, with_summary(project.read_text(encoding="utf-8"), shown).encode())


if __name__ == "__main__":
    write_index(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reproduction"))
