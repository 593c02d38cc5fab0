"""Every paper's page begins with the answer: was the paper confirmed, and table by table how far."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from workshop.reproduction_answers import (
    AVAILABILITY_CODES,
    FOLDER,
    WORDS,
    answer_markdown,
    answer_pages,
    codes_sentence,
    coverage_sentence,
    section_anchors,
)

from sortition.reproduction.index import Claim, Item, load_extents, load_items
from workshop import ROOT

EXTENTS = load_extents()
PAGES = answer_pages(EXTENTS)


def test_every_paper_has_a_page_with_an_answer():
    assert list(PAGES) == list(dict.fromkeys(item.paper for item in load_items() if item.paper != "No paper"))


@pytest.mark.parametrize("paper", PAGES)
def test_a_page_begins_with_the_answer_of_today(paper):
    text = (FOLDER / PAGES[paper]).read_text(encoding="utf-8")
    assert text.startswith(f"{answer_markdown(paper, EXTENTS)}\n\n# "), "run python -m workshop reproduction"


@pytest.mark.parametrize("paper", PAGES)
def test_an_answer_has_a_line_for_every_table_of_the_paper(paper):
    answer = answer_markdown(paper, EXTENTS)
    items = [item for item in load_items() if item.paper == paper and item.claims]
    rows = answer[: answer.index(WORDS)].splitlines()[8:]
    for item, row in zip(items, [row for row in rows if row], strict=True):
        _, what, verdict, ran, *counts, _ = (cell.strip() for cell in row.split("|"))
        assert item.what in what
        assert verdict == (item.verdict if item.preset in EXTENTS else "not run")
        assert ran == (EXTENTS[item.preset].state if item.preset in EXTENTS else "–")
        grades = [claim.grade for claim in item.claims]
        assert sum(map(int, counts)) == len(grades)
        assert counts[:4] == [str(grades.count(grade)) for grade in ("right", "right-cut", "explained", "different")]


@pytest.mark.parametrize("paper", PAGES)
def test_the_anchors_of_an_answer_are_headings(paper):
    answer = answer_markdown(paper, EXTENTS)
    links = re.findall(r"\]\(([\w.-]*)#([^)]+)\)", answer)
    assert links
    for page, anchor in links:
        text = (FOLDER / (page or PAGES[paper])).read_text(encoding="utf-8")
        slugs = {re.sub(r"[^\w\- ]", "", line[2:].lower()).replace(" ", "-") for line in text.splitlines()}
        assert anchor in slugs


def test_the_sentence_counts_claims_by_grade():
    claims = [Claim(says=f"{number}", grade=grade) for number, grade in enumerate(("right", "right", "cut"))]
    item = Item(paper="One", what="Table", claims=tuple(claims))
    assert coverage_sentence([item]).startswith("**2 of 3 claims right; 1 too short to test.** Right: 66.7 %; ")


def test_what_differs_for_a_reason_is_not_counted_as_right():
    claims = [Claim(says=f"{number}", grade=grade) for number, grade in enumerate(("right", "explained", "right-cut"))]
    sentence = coverage_sentence([Item(paper="One", what="Table", claims=tuple(claims))])
    assert "Right: 33.3 %; right or different with a measured reason: 66.7 %" in sentence


def test_a_table_without_a_page_was_not_run():
    fedgs = next(item for item in load_items() if item.what == "Table 2, CIFAR-10; Figs. 4, 5, 7 (a)")
    extents = {preset: extent for preset, extent in EXTENTS.items() if preset != fedgs.preset}
    row = next(line for line in answer_markdown("FedGS", extents).splitlines() if fedgs.what in line)
    assert [cell.strip() for cell in row.split("|")[1:4]] == [fedgs.what, "not run", "–"]
    cut = {**EXTENTS, fedgs.preset: replace(EXTENTS[fedgs.preset], rounds="7")}
    assert "rounds 7," in answer_markdown("FedGS", cut)


def test_codes_are_explained_where_they_are_used():
    assert codes_sentence("Nothing is said of SLNS or ALN here.") == ""
    sentence = codes_sentence("under LN and YC")
    assert f"LN: {AVAILABILITY_CODES['LN']}; YC: {AVAILABILITY_CODES['YC']}." in sentence
    assert "MDF" not in sentence
    table = (FOLDER / "availability.md").read_text(encoding="utf-8")
    assert all(f"| {code} " in table for code in AVAILABILITY_CODES)


def test_every_preset_on_a_page_has_an_anchor():
    assert set(section_anchors()) == set(EXTENTS)


@pytest.mark.parametrize("paper", PAGES)
def test_the_readme_names_the_data_of_its_result(paper):
    """A verdict on one data set must not be read as the verdict on the whole paper."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if line.startswith(f"| [{paper}]("))
    assert any(name in row for name in ("Synthetic", "Fashion-MNIST", "MNIST"))
    assert "On CIFAR-10 our runs are too short" in readme
