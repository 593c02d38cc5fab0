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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sortition.core.storage.snapshot import write_atomically
from sortition.results.marks import filled
from sortition.results.table import Table

HERE = Path(__file__).parent
COLUMNS = ["paper", "table or figure", "preset", "state", "verdict", "page", "per seed", "date"]
VERDICTS = ("agrees", "direction only", "not reproduced", "no published table")
GRADES = {  # how far what a paper says was met here, in the order of the coverage table
    "right": "right",
    "explained": "different, with a measured reason",
    "different": "different",
    "cut": "cut",
    "absent": "absent",
}
MET = ("right", "explained")  # grades that count as covered
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

    @property
    def per_seed(self) -> str:
        """The file with the values of single seeds; nothing where no runs were needed."""
        if self.values:
            return self.values
        return "missing" if self.planned else ""


@dataclass(frozen=True)
class Claim:
    """What a paper says of a table, a figure or a theorem (``says``), and how far that was ``found`` here."""

    says: str
    found: str  # one of GRADES


@dataclass(frozen=True)
class Item:
    """A published table or figure, or a question beside it.

    Attributes:
        paper: its name.
        what: the table or figure.
        preset: that reproduces it; empty where there is none.
        published: the setting as the paper has it.
        released: the setting as the released code or configuration has it; empty where nothing was released.
        read: the setting as it is read here.
        verdict: one of VERDICTS; empty where nothing was run.
        result: what was found, in a sentence.
        short: the result for the project's README; empty for entries that it does not show.
        other: what another reading gives, for a footnote of the project's README.
        why: it was never run.
        claims: what the paper says there; none for questions beside a paper.
    """

    paper: str
    what: str
    preset: str = ""
    published: str = ""
    released: str = ""
    read: str = ""
    verdict: str = ""
    result: str = ""
    short: str = ""
    other: str = ""
    why: str = ""
    claims: tuple[Claim, ...] = ()

    @property
    def conclusion(self) -> str:
        """The verdict and what was found."""
        return f"{self.verdict}: {self.result}" if self.verdict else ""


def items() -> list[Item]:
    """What the papers contain, in their order."""
    papers = tomllib.loads((HERE / "papers.toml").read_text(encoding="utf-8"))["paper"]
    return [_item(paper["name"], entry) for paper in papers for entry in paper["item"]]


def _item(paper: str, entry: dict[str, Any]) -> Item:
    claims = tuple(Claim(says=says, found=found) for says, found in entry.pop("claims", {}).items())
    return Item(paper=paper, claims=claims, **entry)


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


def index_rows(shown: Mapping[str, Extent]) -> list[list[str]]:
    """A row of ``COLUMNS`` for every item."""
    rows = []
    for item in items():
        extent = shown.get(item.preset)
        cells = ["", "", "", ""]
        if extent is not None:
            cells = [item.conclusion, extent.page, extent.per_seed, extent.date]
        rows.append([item.paper, item.what, item.preset, _state(item, extent), *cells])
    return rows


def _state(item: Item, extent: Extent | None) -> str:
    """How far an item was run, or why it never was."""
    if extent is not None:
        return extent.state
    return f"never run: {item.why}" if item.why else "never run"


def index_lines(shown: Mapping[str, Extent]) -> list[str]:
    """The same as lines for a terminal: the presets of each paper, and below each its state and verdict."""
    lines, paper = [], ""
    for name, what, preset, state, verdict, page, _, date in index_rows(shown):
        lines += [] if name == paper else [name]
        paper = name
        below = "; ".join(filter(None, [state, verdict, f"{page}, {date}" if page else ""]))
        lines += [f"  {preset or '–':22}{what}", f"{'':24}{below}"]
    return lines


def coverage() -> Table:
    """How much of what each paper says was met here: claims by grade."""
    table = Table("", ["paper", *GRADES.values(), "claims", "right or explained, %"])
    for paper in dict.fromkeys(item.paper for item in items()):
        grades = [claim.found for item in items() if item.paper == paper for claim in item.claims]
        if grades:
            counts = [grades.count(grade) for grade in GRADES]
            covered = sum(grades.count(grade) for grade in MET)
            share = f"{100 * covered / len(grades):.0f}"
            table.rows.append([paper, *map(str, counts), str(len(grades)), share])
    return table


def readme(shown: Mapping[str, Extent]) -> str:
    """The page docs/reproduction/README.md: a list for every paper, which fits the screen of a phone."""
    counts = [sum(item.preset in shown for item in items()), len(items())]
    lists: dict[str, list[str]] = {}
    for item in items():
        lists.setdefault(item.paper, []).append(_entry(item, shown.get(item.preset)))
    return "\n\n".join(
        [
            "# Published tables and figures",
            f"{counts[0]} of the {counts[1]} entries below have a page with the paper's figures beside ours; the "
            "others were never run, and say why. *In full* means every run of the preset with its published number of "
            "rounds; *cut* says what was left out; *computed* keeps no runs: its figures are made with the page. *Per "
            "seed* is the file with the values of single seeds.",
            "`sortition reproduce` prints the same; `sortition reproduce NAME` reproduces an entry.",
            "## Coverage",
            "What the papers say of their tables, figures and theorems, claim by claim, and how far it was met here. "
            "*Different, with a measured reason*: a run or a computation shows why. *Cut*: fewer rounds, seeds or "
            "settings were run than it takes to say. *Absent*: nothing was run. Drawings and questions beside a paper "
            "are not counted.",
            coverage().markdown(),
            *("\n".join([f"## {paper}\n", *entries]) for paper, entries in lists.items()),
        ]
    )


def _entry(item: Item, extent: Extent | None) -> str:
    """An entry of the page: where it is, how far it was run, its settings, what was found and the claims."""
    where = [f"`{item.preset}`" if item.preset else ""]
    if extent is not None:
        where += [f"[{extent.page}]({extent.page})", extent.date]
        where += [f"per seed: [{extent.per_seed}]({extent.per_seed})"] if extent.per_seed else []
    place = ", ".join(filter(None, where))
    lines = [f"- **{item.what}**{f' ({place})' if place else ''}. {_sentence(_state(item, extent))}"]
    settings = {"As published": item.published, "As released": item.released, "As read here": item.read}
    lines += [f"  - {name}: {text}." for name, text in settings.items() if text]
    if extent is not None:
        lines.append(f"  - Result: {item.result}.")
        lines.append(f"  - Verdict: **{item.verdict}**.")
    lines += [f"  - Claim: {claim.says} – *{GRADES[claim.found]}*." for claim in item.claims]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def summary(shown: Mapping[str, Extent]) -> str:
    """For the project's README: the main table of each paper, and how many entries were run, and how far."""
    table = Table("", ["published", "here"])
    footnotes = []
    for item in items():
        if item.short:
            state = shown[item.preset].state if item.preset in shown else "never run"
            mark = ""
            if item.other:
                footnotes.append(item.other)
                mark = f" [{len(footnotes)}]"
            table.rows.append([f"{item.paper}, {item.what}", f"{state}; {item.verdict}: {item.short}{mark}"])
    states = [shown[item.preset].state.partition(":")[0] if item.preset in shown else "never" for item in items()]
    whole, cut, computed, never = (states.count(state) for state in ("in full", "cut", "computed", "never"))
    parts = [
        table.markdown(),
        *[f"[{number}] {text}." for number, text in enumerate(footnotes, start=1)],
        f"Of {len(states)} published tables and figures and questions beside them {whole} were "
        f"run in full, {cut} cut to fewer runs or rounds, and {computed} computed with their page; {never} were never "
        "run. Each with its reason and verdict: [docs/reproduction/](docs/reproduction/README.md).",
    ]
    return "\n\n".join(parts)


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
