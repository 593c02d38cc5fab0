"""The answer at the head of each paper's page in docs/reproduction: does the paper hold here, table by table?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sortition.core.storage.snapshot import write_atomically
from sortition.reproduction.index import Extent, Item, load_items
from sortition.reproduction.preset_page import page_head, split_sections
from sortition.results.table import Table
from workshop import DOCS
from workshop.gallery import heading_anchor
from workshop.reproduction_pages import GRADES, GRADES_MET, extents_of, share_of

FOLDER = DOCS / "reproduction"
QUESTION = "does the paper hold here?"
AVAILABILITY_CODES = {  # of FedGS's modes → who can be reached
    "IDL": "everybody, always",
    "LN": "each client at a fixed rate of its own, drawn from a log-normal law",
    "SLN": "the same rates, rising and falling over the rounds",
    "LDF": "clients with little data more often",
    "MDF": "clients with much data more often",
    "YMF": "clients with high labels more often",
    "YC": "labels take turns",
}
WORDS = (
    "*Agrees* (its main statement holds, single claims may not), *direction only* (the paper's method is ahead, but by "
    "less than there or not everywhere), *not reproduced*, *too short to test*: the verdict on our figures beside the "
    "paper's. It compares means over seeds, as the papers do; the paired statistics below are stricter, and may call "
    "the same order undecided. The other columns count what the paper says there. *Right, on a cut run*: with fewer "
    "rounds than in the paper, with one or two seeds where it has more, with another model, or on data of which it "
    "does not say so. *Different, with a measured reason*: a run or a computation in full shows why. *Too short or not "
    "run*: what was run does not decide the claim, or nothing was run. Every claim, and questions that the paper does "
    "not ask: [all papers](README.md)."
)
CLAIM_COLUMNS = {  # heading → grades that it counts
    "right": ("right",),
    "right, on a cut run": ("right-cut",),
    "different, with a measured reason": ("explained",),
    "different": ("different",),
    "too short or not run": ("cut", "absent"),
}


def write_answers() -> None:
    """Write the answer to the head of every paper's page."""
    extents = extents_of(FOLDER)
    for paper, page in answer_pages(extents).items():
        path = FOLDER / page
        text = path.read_text(encoding="utf-8")
        answer = answer_markdown(paper, extents)
        write_atomically(path, f"{answer}\n\n{text.removeprefix(page_head(text)).lstrip()}".encode())


def answer_pages(extents: Mapping[str, Extent]) -> dict[str, str]:
    """Return the page of each paper: that of the entry which the project's README shows."""
    return {item.paper: extents[item.preset].page for item in load_items() if item.headline and item.preset in extents}


def answer_markdown(paper: str, extents: Mapping[str, Extent]) -> str:
    """Return the head of a paper's page: coverage, a line for each table, and the availability codes that it uses."""
    items = [item for item in load_items() if item.paper == paper and item.claims]
    page = answer_pages(extents)[paper]
    parts = [f"# {paper}: {QUESTION}", *_main_result(items), coverage_sentence(items)]
    parts.append(_verdict_table(items, extents=extents, page=page).markdown())
    parts.append(WORDS)
    codes = codes_sentence((FOLDER / page).read_text(encoding="utf-8"))
    if codes:
        parts.append(codes)
    return "\n\n".join(parts)


def _main_result(items: list[Item]) -> list[str]:
    """Return the paper's main result, there and here, as the project's README has it."""
    sentences = []
    for item in items:
        headline = item.headline
        if headline is None:
            continue
        sentences.append(
            f"**Main result**: {headline.what}. In the paper: {headline.paper}. Here: {headline.here}. "
            f"Verdict: **{item.verdict}**."
        )
    return sentences


def coverage_sentence(items: list[Item]) -> str:
    """Count the claims of a paper by grade, and give the shares that are right, and right or explained."""
    grades = [claim.grade for item in items for claim in item.claims]
    counts = {heading: grades.count(grade) for grade, heading in GRADES.items() if grades.count(grade)}
    first, *others = [f"{count} {heading}" for heading, count in counts.items()]
    others_text = "".join(f"; {words}" for words in others)
    number, heading = first.split(" ", maxsplit=1)
    right = share_of(grades, ("right",))
    met = share_of(grades, GRADES_MET)
    return (
        f"**{number} of {len(grades)} claims {heading}{others_text}.** Right: {right} %; right or different with a "
        f"measured reason: {met} %, cut runs left out."
    )


def _verdict_table(items: list[Item], *, extents: Mapping[str, Extent], page: str) -> Table:
    """Return a row for each table, figure or theorem of the paper: verdict, how much was run, claims by grade."""
    table = Table("", ["table or figure", "verdict", "what was run", *CLAIM_COLUMNS])
    anchors = section_anchors()
    for item in items:
        extent = extents.get(item.preset)
        counts = [str(sum(claim.grade in grades for claim in item.claims)) for grades in CLAIM_COLUMNS.values()]
        if extent is None:
            table.rows.append([item.what, "not run", "–", *counts])
            continue
        file = "" if extent.page == page else extent.page
        name = f"[{item.what}]({file}#{anchors[item.preset]})"
        table.rows.append([name, item.verdict, extent.state, *counts])
    return table


def section_anchors() -> dict[str, str]:
    """Return the address of each preset's section on its page."""
    anchors = {}
    for path in sorted(FOLDER.glob("*.md")):
        for made_by, section in split_sections(path.read_text(encoding="utf-8")):
            heading = section.splitlines()[0].removeprefix("# ")
            anchors[made_by["preset"]] = heading_anchor(heading)
    return anchors


def codes_sentence(text: str) -> str:
    """Explain the availability codes that a page uses; empty where it uses none."""
    used = [code for code in AVAILABILITY_CODES if re.search(rf"\b{code}\b", text)]
    if not used:
        return ""
    words = "; ".join(f"{code}: {AVAILABILITY_CODES[code]}" for code in used)
    return f"Who can be reached in a round, in the [codes](availability.md) of FedGS: {words}."
