"""The published tables and figures: what each is, which preset reproduces it, and how far it was reproduced.

``papers.toml`` is written by hand: what the papers contain, and what was found. ``pages.json`` says which runs the
pages of the documentation show, and is written from them by ``python -m workshop reproduction``. So an item counts as
run only where a page has its runs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAPERS = Path(__file__).parent / "papers.toml"
PAGES = Path(__file__).parent / "pages.json"


@dataclass(frozen=True)
class Extent:
    """What a page shows of a preset.

    Attributes:
        page: name of its file.
        options: of the command line that made it.
        date: on which it was made; empty where the page does not say.
        finished: runs that the page rests on; 0 where it is computed without runs.
        planned: runs of the whole preset; 0 where it is computed without runs.
        cut: whether runs or rounds were left out.
        rounds: in words, such as "500".
        seeds: in words, such as "0–4".
        values: name of the file with the values of single seeds; empty where there is none.
    """

    page: str
    options: str
    date: str
    finished: int
    planned: int
    cut: bool
    rounds: str
    seeds: str
    values: str = ""

    @property
    def coverage(self) -> str:
        """How much was run, in a word or two: "in full", "cut" or "computed"."""
        if not self.planned:
            return "computed"
        if self.finished == self.planned and not self.cut:
            return "in full"
        return "cut"

    @property
    def state(self) -> str:
        """How much was run, with figures."""
        if self.coverage == "computed":
            return "computed"
        if self.coverage == "in full":
            return f"in full: {self.planned} runs"
        return f"cut: {self.finished} of {self.planned} runs, rounds {self.rounds}, seeds {self.seeds}"


@dataclass(frozen=True)
class Claim:
    """What a paper says of a table, a figure or a theorem.

    Attributes:
        says: the claim.
        grade: how far it was met here: "right", "right-cut" (right on a cut run, as docs/reproduction/README.md
            defines it), "explained" (different, with a measured reason), "different", "cut" (too short to test) or
            "absent" (not run).
    """

    says: str
    grade: str


@dataclass(frozen=True)
class Headline:
    """A paper's main result in a few words, as the project's README shows it.

    Attributes:
        what: what was measured.
        paper: what the paper reports.
        here: what was measured here.
    """

    what: str
    paper: str
    here: str


@dataclass(frozen=True)
class Item:
    """A published table or figure, or a question beside it.

    Attributes:
        paper: its name.
        what: the table or figure.
        preset: name of the preset that reproduces it; empty where there is none.
        published: the setting as the paper has it.
        released: the setting as the released code or configuration has it; empty where nothing was released.
        read: the setting as it is read here.
        verdict: "agrees", "direction only", "not reproduced", "too short to test" or "no published table"; empty where
            nothing was run.
        result: what was found, in a sentence.
        headline: the result as the project's README shows it; None for entries that it does not show.
        other: what another reading of the paper gives.
        why: the reason why it was never run; empty where it was.
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
    headline: Headline | None = None
    other: str = ""
    why: str = ""
    claims: tuple[Claim, ...] = ()


def load_items() -> list[Item]:
    """Return what the papers contain, in their order."""
    papers = tomllib.loads(PAPERS.read_text(encoding="utf-8"))["paper"]
    return [_parse_item(paper["name"], entry) for paper in papers for entry in paper["item"]]


def _parse_item(paper: str, entry: dict[str, Any]) -> Item:
    claims = tuple(Claim(says=says, grade=grade) for says, grade in entry.pop("claims", {}).items())
    headline = entry.pop("headline", None)
    return Item(paper=paper, claims=claims, headline=Headline(**headline) if headline else None, **entry)


def load_extents() -> dict[str, Extent]:
    """Return what the pages of the documentation show, by preset, as of this version of the package."""
    tables: dict[str, dict[str, Any]] = json.loads(PAGES.read_text(encoding="utf-8"))
    return {preset: Extent(**table) for preset, table in tables.items()}


def item_state(item: Item, extent: Extent | None) -> str:
    """Say how far an item was run, or why it never was."""
    if extent is not None:
        return extent.state
    if item.why:
        return f"never run: {item.why}"
    return "never run"


def index_lines(extent_by_preset: Mapping[str, Extent]) -> list[str]:
    """Return lines for a terminal: the presets of each paper, and below each its state and verdict."""
    lines = []
    previous_paper = ""
    for item in load_items():
        if item.paper != previous_paper:
            lines.append(item.paper)
        previous_paper = item.paper
        extent = extent_by_preset.get(item.preset)
        facts = [item_state(item, extent)]
        if extent is not None:
            if item.verdict:
                facts.append(f"{item.verdict}: {item.result}")
            facts.append(f"{extent.page}, {extent.date}")
        lines.append(f"  {item.preset or '–':22}{item.what}")
        lines.append(f"{'':24}{'; '.join(facts)}")
    return lines
