"""The index of reproductions: docs/reproduction/README.md, a table of the project's README, and ``pages.json``.

What was run is read from the pages in docs/reproduction, which ``sortition reproduce NAME --page`` wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sortition.core.storage.snapshot import write_atomically
from sortition.reproduction.index import PAGES, Extent, Item, item_state, load_items
from sortition.reproduction.preset_page import seed_rows, split_sections
from sortition.results.table import Table
from workshop import DOCS, ROOT
from workshop.marks import fill_marks, wrapped

GRADES = {  # of a claim → heading, in the order of the coverage table
    "right": "right",
    "right-cut": "right, on a cut run",
    "explained": "different, with a measured reason",
    "different": "different",
    "cut": "too short to test",
    "absent": "not run",
}
GRADES_MET = ("right", "explained")  # count as covered; what a cut run says does not
GRADES_MET_WITH_CUT = (*GRADES_MET, "right-cut")
OTHER_READING = "†"  # of the paper gives other figures
VERDICTS = ("agrees", "direction only", "not reproduced", "too short to test", "no published table")
Extents = Mapping[str, Extent]  # by preset

INTRODUCTION = """# Published tables and figures

{counts} {n_shown} of the {n_items} entries below have a page with the paper's figures beside ours; the others were \
never run, and say why. *In full* means every run of the preset with its published number of rounds; *cut* says what \
was left out; *computed* keeps no runs: its figures are made with the page. *Per seed* is the file with the values of \
single seeds. *As released* is missing where the released code has nothing of the kind; of LongFed and FedSS no code \
was found.

`sortition reproduce` prints the same; `sortition reproduce NAME` reproduces an entry.

## Coverage

What the papers say of their tables, figures and theorems, claim by claim, and how far it was met here. *Right, on a \
cut run*: as the paper says, but with fewer rounds than there, with one or two seeds where it has more, with another \
model, or on data of which it does not say so. *Different, with a measured reason*: a run or a computation in full \
shows why. *Different*: without such a reason. *Too short to test*: what was run does not decide the claim. Sketches, \
set-ups (a partition, a rule of availability) and questions beside a paper are not counted. *Right, %* and *right or \
explained, %* leave out what rests on cut runs; the last column adds what is right on a cut run.

Verdicts in the paired comparisons of all pages are of today's [statistics](../statistics.md): those of older runs \
were computed anew from the differences and intervals that had been printed.

{coverage}"""


# -- what the pages show --------------------------------------------------------------------------------------------


def extents_of(folder: Path) -> dict[str, Extent]:
    """Read what the pages in a folder show, by preset."""
    extents = {}
    for page in sorted(folder.glob("*.md")):
        csv_path = page.with_suffix(".csv")
        presets_with_values = {row[0] for row in seed_rows(csv_path)}
        for made_by, section in split_sections(page.read_text(encoding="utf-8")):
            preset = made_by["preset"]
            values = csv_path.name if preset in presets_with_values else ""
            extents[preset] = _extent(page=page.name, made_by=made_by, section=section, values=values)
    return extents


def _extent(*, page: str, made_by: re.Match[str], section: str, values: str) -> Extent:
    runs = re.search(r"^- runs: (\d+) finished of (\d+)", section, re.MULTILINE)
    spans = re.search(r"^- rounds: (.+); seeds: (.+)$", section, re.MULTILINE)
    return Extent(
        page=page,
        options=made_by["options"].strip(),
        date=made_by["date"] or "",
        finished=int(runs[1]) if runs else 0,
        planned=int(runs[2]) if runs else 0,
        cut="**cut to size**" in section,
        rounds=spans[1] if spans else "",
        seeds=spans[2] if spans else "",
        values=values,
    )


# -- docs/reproduction/README.md ------------------------------------------------------------------------------------


def index_page(extents: Extents) -> str:
    """Return the page docs/reproduction/README.md: a list for every paper, which fits the screen of a phone."""
    all_items = load_items()
    introduction = INTRODUCTION.format(
        counts=counts_sentence(extents),
        n_shown=sum(item.preset in extents for item in all_items),
        n_items=len(all_items),
        coverage=coverage_table().markdown(),
    )
    entries_by_paper: dict[str, list[str]] = {}
    for item in all_items:
        entries_by_paper.setdefault(item.paper, []).append(_entry(item, extents.get(item.preset)))
    lists = ["\n".join([f"## {paper}\n", *entries]) for paper, entries in entries_by_paper.items()]
    return "\n\n".join([introduction, *lists])


def coverage_table() -> Table:
    """Return how much of what each paper says was met here: its claims by grade."""
    shares = ["right, %", "right or explained, %", "with cut runs, %"]
    table = Table("", ["paper", *GRADES.values(), "claims", *shares])
    for paper in dict.fromkeys(item.paper for item in load_items()):
        grades = [claim.grade for item in load_items() if item.paper == paper for claim in item.claims]
        if not grades:
            continue
        counts = [grades.count(grade) for grade in GRADES]
        shares = [share_of(grades, ("right",)), share_of(grades, GRADES_MET), share_of(grades, GRADES_MET_WITH_CUT)]
        table.rows.append([paper, *map(str, counts), str(len(grades)), *shares])
    return table


def share_of(grades: Sequence[str], counted: Sequence[str]) -> str:
    """Write the share of grades that are among the counted ones, in per cent with one decimal."""
    n_counted = sum(grade in counted for grade in grades)
    return f"{100 * n_counted / len(grades):.1f}"  # a goal of 90 is not met by 26 of 29


def _entry(item: Item, extent: Extent | None) -> str:
    """Return an item as an entry of the list: its state, settings, result, verdict and claims."""
    sources = []
    if item.preset:
        sources.append(f"`{item.preset}`")
    if extent is not None:
        sources.append(f"[{extent.page}]({extent.page})")
        if extent.date:
            sources.append(extent.date)
        if extent.values:
            sources.append(f"per seed: [{extent.values}]({extent.values})")
        elif extent.planned:
            sources.append("per seed: missing")
    where = f" ({', '.join(sources)})" if sources else ""
    state = item_state(item, extent)
    lines = [f"- **{item.what}**{where}. {state[0].upper()}{state[1:]}."]
    settings = {"As published": item.published, "As released": item.released, "As read here": item.read}
    lines += [f"  - {name}: {text}." for name, text in settings.items() if text]
    if extent is not None:
        lines.append(f"  - Result: {item.result}.")
        lines.append(f"  - Verdict: **{item.verdict}**.")
    else:
        lines.append("  - Verdict: **not run**.")
    if item.other:
        lines.append(f"  - Another reading: {item.other}.")
    lines += [f"  - Claim: {claim.says} – *{GRADES[claim.grade]}*." for claim in item.claims]
    return "\n".join(lines)


# -- the project's README -------------------------------------------------------------------------------------------


def summary(extents: Extents) -> str:
    """Return what the project's README shows: the main table of each paper, and how many entries were run how far.

    A dagger marks results that another reading of the paper changes; docs/reproduction/README.md says how.
    """
    table = Table("", ["", "its main result", "in the paper", "here", "verdict"])
    for item in load_items():
        if item.headline is None:
            continue
        extent = extents.get(item.preset)
        page = f"[{item.paper}](docs/reproduction/{extent.page})" if extent is not None else item.paper
        mark = OTHER_READING if item.other else ""
        headline = item.headline
        here = f"{headline.here}{mark}"
        table.rows.append([page, headline.what, headline.paper, here, _verdict_in_short(item, extent)])
    pointer = (
        "**On CIFAR-10 our runs are too short or too few to confirm any paper's main result.** *Direction only*: the "
        "paper's method is ahead, but by less or not everywhere. LN, SLN, LDF: [patterns of "
        "availability](docs/reproduction/availability.md). "
        f"{OTHER_READING} Other readings of the paper give other figures. All claims: "
        "[reproduction](docs/reproduction/README.md)."
    )
    return f"{table.markdown()}\n\n{wrapped(pointer)}"


def _verdict_in_short(item: Item, extent: Extent | None) -> str:
    """Return the verdict on an entry, and how far it was run where that is not in full."""
    if extent is None:
        return "never run"
    if extent.coverage == "in full":
        return item.verdict
    return f"{item.verdict} ({extent.coverage})"


def counts_sentence(extents: Extents) -> str:
    """Say how many entries the index has, and how far they were run."""
    coverages = [extents[item.preset].coverage if item.preset in extents else "never run" for item in load_items()]
    return (
        f"Of {len(coverages)} tables, figures, theorems and questions {coverages.count('in full')} were run in full, "
        f"{coverages.count('cut')} with fewer runs or rounds, {coverages.count('computed')} were computed, "
        f"{coverages.count('never run')} not run."
    )


def with_summary(readme: str, extents: Extents) -> str:
    """Return the text of the project's README with the summary between its marks."""
    return fill_marks(readme, {"reproduction": summary(extents)})


def write_reproduction_pages() -> None:
    """Read the pages in docs/reproduction; write its README.md, the project's README.md and ``pages.json``."""
    folder = DOCS / "reproduction"
    readme = ROOT / "README.md"
    extents = extents_of(folder)
    tables = {preset: asdict(extent) for preset, extent in sorted(extents.items())}
    write_atomically(PAGES, json.dumps(tables, indent=1, ensure_ascii=False).encode() + b"\n")
    write_atomically(folder / "README.md", index_page(extents).encode() + b"\n")
    write_atomically(readme, with_summary(readme.read_text(encoding="utf-8"), extents).encode())
