"""The index says what was run, by what the pages show."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from workshop.reproduction_pages import extents_of

from sortition.reproduction import index
from sortition.reproduction.preset import load_preset, preset_names
from sortition.reproduction.preset_page import MADE_BY
from workshop import reproduction_pages

DOCS = Path(__file__).parents[2] / "docs" / "reproduction"
PAGE = """# One

Made by `sortition reproduce one --seeds 1` on 2026-01-02.

- runs: 2 finished of 6 in the whole table
- **cut to size**: cells that were not run are empty
- rounds: 150; seeds: 0

# Two

Made by `sortition reproduce two` on 2026-01-03.
"""


def test_a_page_is_read(tmp_path):
    (tmp_path / "mine.md").write_text(PAGE)
    extents = extents_of(tmp_path)
    cut, computed = extents["one"], extents["two"]
    assert cut.state == "cut: 2 of 6 runs, rounds 150, seeds 0"
    assert (cut.page, cut.options, cut.date) == ("mine.md", "--seeds 1", "2026-01-02")
    assert computed.state == "computed"


@pytest.mark.parametrize(
    ("values", "planned", "words"),
    [("mine.csv", 6, "per seed: [mine.csv](mine.csv)"), ("", 6, "per seed: missing"), ("", 0, "")],
)
def test_an_entry_links_the_values_of_single_seeds(values, planned, words):
    preset, extent = next(iter(index.load_extents().items()))
    page = reproduction_pages.index_page({preset: replace(extent, values=values, planned=planned)})
    entry = next(line for line in page.splitlines() if f"(`{preset}`" in line)
    assert words in entry
    assert ("per seed" in entry) == bool(words)


def test_commands_on_pages_can_be_typed_in_a_shell():
    for name, extent in extents_of(DOCS).items():
        words = shlex.split(extent.options)
        options = list(zip(words[::2], words[1::2], strict=True))
        assert {key for key, _ in options} <= {"--only", "--seeds", "--rounds"}, name
        if only := {value for key, value in options if key == "--only"}:
            runs = load_preset(name).plan().runs
            names = {
                part for run in runs for part in (run.setting, run.method.label, f"{run.setting}/{run.method.label}")
            }
            assert only <= names, name


def test_what_has_no_page_was_never_run():
    lines = [line for line in index.index_lines({}) if line.startswith(" " * 24)]
    assert len(lines) == len(index.load_items())
    for line, item in zip(lines, index.load_items(), strict=True):
        assert line.strip() == (f"never run: {item.why}" if item.why else "never run")


def test_the_list_for_a_terminal_has_state_verdict_and_page_of_every_item():
    extents = index.load_extents()
    text = "\n".join(index.index_lines(extents))
    for item in index.load_items():
        assert item.what in text
        if item.preset in extents:
            extent = extents[item.preset]
            assert f"{extent.state}; {item.verdict}: {item.result}; {extent.page}, {extent.date}" in text


def test_every_preset_is_listed_once_and_every_listed_preset_exists():
    listed = [item.preset for item in index.load_items() if item.preset]
    assert sorted(listed) == preset_names()


@pytest.mark.parametrize("item", index.load_items(), ids=lambda item: f"{item.paper} {item.what[:20]}")
def test_an_item_has_a_verdict_or_a_reason(item):
    assert bool(item.verdict) == bool(item.result)
    assert item.verdict or item.why
    assert item.verdict in ("", *reproduction_pages.VERDICTS)
    assert all(claim.grade in reproduction_pages.GRADES for claim in item.claims)


def test_an_item_that_was_run_has_its_setting_and_one_that_was_not_has_claims_that_say_so():
    extents = index.load_extents()
    for item in index.load_items():
        if item.preset in extents:
            assert item.read or item.published, item.what
        else:
            assert {claim.grade for claim in item.claims} <= {"absent"}, item.what


def test_coverage_counts_every_claim_once():
    rows = {row[0]: row[1:] for row in reproduction_pages.coverage_table().rows}
    for paper in dict.fromkeys(item.paper for item in index.load_items()):
        claims = [claim for item in index.load_items() if item.paper == paper for claim in item.claims]
        if not claims:
            assert paper not in rows
            continue
        *counts, total = map(int, rows[paper][:-3])
        assert sum(counts) == total == len(claims)
        met = sum(claim.grade in ("right", "explained") for claim in claims)
        right = sum(claim.grade == "right" for claim in claims)
        on_cut_runs = sum(claim.grade == "right-cut" for claim in claims)
        assert rows[paper][-3:] == [f"{100 * n / total:.1f}" for n in (right, met, met + on_cut_runs)]


def test_the_package_and_the_readme_show_what_the_pages_show():
    extents = extents_of(DOCS)
    assert index.load_extents() == extents
    assert (DOCS / "README.md").read_text() == reproduction_pages.index_page(extents) + "\n"
    project = (DOCS.parents[1] / "README.md").read_text()
    assert reproduction_pages.summary(extents) in project, "run python -m workshop reproduction"
    assert reproduction_pages.with_summary(project, extents) == project


def test_the_readme_marks_results_that_another_reading_changes():
    table, note = reproduction_pages.summary(index.load_extents()).split("\n\n")
    shown = [item for item in index.load_items() if item.headline]
    assert {bool(item.other) for item in shown} == {True, False}
    for item in shown:
        assert (f"{item.headline.here}{reproduction_pages.OTHER_READING}" in table) == bool(item.other)
    assert reproduction_pages.OTHER_READING in note


def test_every_entry_is_listed_under_its_paper_with_state_setting_result_and_verdict():
    extents = index.load_extents()
    for paper in re.split(r"^## ", reproduction_pages.index_page(extents), flags=re.MULTILINE)[2:]:
        entries = re.split(r"^- ", paper, flags=re.MULTILINE)[1:]
        items_of_paper = [item for item in index.load_items() if item.paper == paper.splitlines()[0]]
        for item, entry in zip(items_of_paper, entries, strict=True):
            assert entry.startswith(f"**{item.what}**")
            assert item.preset in entry
            state = extents[item.preset].state if item.preset in extents else "never run"
            assert f". {state[0].upper()}{state[1:]}" in entry
            assert all(text in entry for text in (item.published, item.released, item.read))
            assert all(claim.says in entry for claim in item.claims)
            if item.preset in extents:
                assert f"  - Result: {item.result}." in entry
                assert f"  - Verdict: **{item.verdict}**." in entry
            else:
                assert item.why in entry
                assert "  - Verdict: **not run**." in entry


def test_the_summary_has_the_main_table_of_every_paper_in_the_state_of_its_page():
    extents = index.load_extents()
    shown = [item for item in index.load_items() if item.headline]
    papers = dict.fromkeys(item.paper for item in index.load_items() if item.paper != "No paper")
    assert [item.paper for item in shown] == list(papers)
    rows = reproduction_pages.summary(extents).splitlines()[2:]
    for item, row in zip(shown, rows[: len(shown)], strict=True):
        _, paper, what, in_paper, here, verdict, _ = (cell.strip() for cell in row.split("|"))
        assert paper == f"[{item.paper}](docs/reproduction/{extents[item.preset].page})"
        assert verdict == item.verdict
        assert (what, in_paper) == (item.headline.what, item.headline.paper)
        assert here.rstrip(reproduction_pages.OTHER_READING) == item.headline.here
    assert "| never run " in reproduction_pages.summary({})
    cut = {preset: replace(extent, cut=True) for preset, extent in extents.items()}
    assert f"| {shown[0].verdict} (cut) " in reproduction_pages.summary(cut)


def test_the_index_tells_what_another_reading_gives():
    text = reproduction_pages.index_page(index.load_extents())
    others = [item for item in index.load_items() if item.other]
    assert others
    for item in others:
        assert f"\n  - Another reading: {item.other}.\n" in text


def test_the_sentence_counts_every_entry():
    extents = index.load_extents()
    sentence = reproduction_pages.counts_sentence(extents)
    numbers = [int(word) for word in sentence.split() if word.isdigit()]
    assert numbers[0] == len(index.load_items()) == sum(numbers[1:])
    assert numbers[0] - numbers[-1] == sum(item.preset in extents for item in index.load_items())


def test_every_page_is_dated():
    for page in DOCS.glob("*.md"):
        for line in re.findall(r"^Made by .*$", page.read_text(), re.MULTILINE):
            assert MADE_BY.match(line), f"{page.name}: {line}"
