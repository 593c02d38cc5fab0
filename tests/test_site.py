"""The documentation site: what is generated from the code is complete; `make docs` checks links and builds it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from workshop.repository_links import without_outside_links

from sortition.selectors import discover
from sortition.studies.study_table import Study
from workshop import method_pages, reference_pages

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", discover())
def test_every_method_has_a_page_and_every_parameter_a_meaning(name):
    page = DOCS / "methods" / f"{name}.md"
    assert page.read_text().startswith("# "), name
    facts = method_pages.facts_sections(name)
    assert "## Citation" in facts
    assert "## Deviations" in facts
    rows = [line for line in facts.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert [line for line in rows if "|  |" in line] == []


def test_every_key_of_a_study_has_a_meaning():
    for title, cls in reference_pages.study_tables():
        silent = [key.name for key in reference_pages.table_keys(cls) if not key.meaning]
        assert silent == [], f"{title}: say what these mean in the docstring of {cls.__name__}: {silent}"


def test_every_key_of_a_run_folder_has_a_type_and_a_meaning():
    rows = [line for line in reference_pages.record_tables().splitlines() if line.startswith("| `")]
    assert [line for line in rows if "|  |" in line] == []
    assert any(row.startswith("| `cohort` |") and row.endswith("| list of whole numbers |") for row in rows)
    for cls in reference_pages.RECORDS.values():
        assert set(cls.__annotations__) <= set(reference_pages.attribute_meanings(cls))


def test_generated_pages_in_the_repository_are_current():
    for name, text in method_pages.generated_pages(DOCS).items():
        assert (DOCS / name).read_text() == text, f"docs/{name} is out of date: run make pages"


def test_the_list_of_methods_tells_questions_from_reports():
    text = (DOCS / "methods" / "index.md").read_text()
    assert "| sizes | – | bias-update | yes | no |" in text  # hics
    assert "| sizes, label_counts? | resources? | update-sketch? | yes | no |" in text  # microcosm


def test_every_signal_is_described():
    assert "| `LOSS` | `loss` | model | mean loss of the current model |" in reference_pages.signal_table()


def test_every_command_is_described():
    text = reference_pages.command_line_page()
    for command in ("run", "report", "reproduce", "list", "show", "check", "audit", "why", "data get"):
        assert f"## `sortition {command}`" in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row for row in rows if "|  |" in row.rpartition("|")[0].rpartition("|")[0] + "|"] == []
    assert "| `SOURCE` | a profile (.toml)" in text
    assert "| `-j`, `--jobs` | number of runs to play at the same time | all cores |" in text
    assert "| argument or option | meaning | default |\n|---|---|---|\n\n" not in text


def test_the_page_of_study_keys_says_where_options_of_names_are():
    assert sorted(reference_pages.ABOUT) == sorted({title for title, _ in reference_pages.study_tables()})
    assert ":mod:" not in reference_pages.study_keys_page()
    assert (
        "| `milestones` | rounds from which the learning rate is multiplied by `drop`. | list of whole numbers | none |"
        in reference_pages.study_keys_page()
    )


def test_the_page_of_study_keys_gives_every_type_that_a_file_may_have():
    kinds = {key.name: key.type for key in reference_pages.table_keys(Study)}
    assert kinds["seeds"] == "whole number or list of whole numbers"
    assert kinds["track"] == "table or list of tables"


def test_every_page_is_reached_from_the_index():
    """A page that no toctree names would be an orphan; patterns of the index are expanded."""
    named: set[Path] = set()
    folder, inside, glob = DOCS, False, False
    for line in (DOCS / "index.md").read_text().splitlines():
        if line.startswith("```"):
            inside = line.startswith("```{toctree}")
            glob = False
        elif inside and line == ":glob:":
            glob = True
        elif inside and line and not line.startswith(":"):
            line = re.sub(r"^.* <(.+)>$", r"\1", line)  # a title of its own in the menu
            named |= set(folder.glob(f"{line}.*")) if glob else {folder / f"{line}.md", folder / f"{line}.ipynb"}
    generated = {DOCS / f"{name}.md" for name in ("contributing", "changelog")}
    pages = {page for page in DOCS.rglob("*.md") if "_build" not in page.parts} - {DOCS / "index.md"} - generated
    methods = {DOCS / "methods" / f"{name}.md" for name in discover()}
    assert sorted(str(page.relative_to(DOCS)) for page in pages - named - methods) == []


def test_links_out_of_the_documentation_become_words(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "fedgs.md").write_text("# FedGS")
    assert without_outside_links("engine", "see [the code](../src/sortition/core/turn.py)", tmp_path) == "see the code"
    assert without_outside_links("engine", "see [FedGS](methods/fedgs.md)", tmp_path) == "see [FedGS](methods/fedgs.md)"
    assert without_outside_links("engine", "see [more](../CONTRIBUTING.md)", tmp_path) == "see [more](/contributing.md)"
    assert without_outside_links("engine", "see [all](methods/)", tmp_path) == "see all"


def test_a_methods_page_is_whole():
    text = method_pages.method_page("# FedGS\n\n**Idea.** One.\n\nCode.\n\n## More\n\nWords.\n", "fedgs", DOCS)
    parts = [
        "**Idea.** One.",
        "images/methods/fedgs.svg",
        "Code.",
        "## More",
        "## On the leaderboard",
        "## Cost",
        "## Parameters",
    ]
    assert sorted(parts, key=text.index) == parts
    assert "Traffic: 1.00 times" in text
    assert re.search(r"\| `alpha` \| weight of distance .* \| `1.0` \|", text)


def test_deviations_stay_a_list():
    lines = method_pages.deviations_section("fedgs").splitlines()
    assert len([line for line in lines if line.startswith("- ")]) == 4


def test_a_methods_page_says_its_places_on_the_leaderboard():
    from workshop.leaderboard_standings import track_places

    from sortition.leaderboard.published import load_published

    published = load_published()
    text = track_places(published, "fedgs")
    assert text.count("| fedgs ") == len(published.tracks)
    assert track_places(published, "microcosm").count("| microcosm-sizes ") == len(published.tracks)
    assert "has no row" in track_places(published, "greedyfed")


def test_the_first_page_answers_by_question():
    text = (DOCS / "index.md").read_text()
    for words, page in (
        ("Has somebody asked my question?", "gallery"),
        ("How do I add a method of my own?", "tutorials/own-method"),
        ("Flower", "flower"),
        ("What do the statistics mean?", "statistics"),
        ("Does it reproduce FedGS", "reproduction/fedgs"),
    ):
        assert re.search(rf"\[{re.escape(words)}[^\]]*\]\({page}\.md\)", text), words


def test_the_guide_names_every_method_and_no_other():
    table = method_pages.knowledge_table()
    assert sorted(re.findall(r"\(methods/([\w-]+)\.md\)", table)) == discover()
    row = next(line for line in table.splitlines() if line.startswith("| single updates"))
    assert "[hics]" in row
    assert "[uniform]" not in row


def test_reproduction_pages_are_listed_by_their_paper():
    from workshop.reproduction_titles import TITLES, with_lower_headings

    text = with_lower_headings("# Table 2\n\n```\n# a comment\n```\n\n## Runs\n", "FedGS")
    assert text == "# FedGS\n\n## Table 2\n\n```\n# a comment\n```\n\n### Runs\n"
    assert {page.stem for page in (DOCS / "reproduction").glob("*.md")} == {*TITLES, "README"}


PATHS = {  # what a newcomer looks for: the pages on the way from the first one, and what stands there
    "how to add a method": (["tutorials/own-method"], "One file, one class"),
    "how to plug into a Flower app": (["flower"], "SelectorStrategy"),
    "what fedgs.alpha means": (
        ["methods/index", "methods/fedgs"],
        "| `alpha` | weight of distance against balanced counts",
    ),
    "what a study key does": (["reference/study-keys"], "| `evaluate_every` |"),
    "how many seeds": (["faq"], "**How many seeds do I need?** Start with"),
    "hospital data with hidden label histograms": (["choosing"], "**Hospital data with label histograms"),
}


def built(page: str) -> str:
    """The source of a page with what is generated."""
    if page.startswith("reference/study"):
        return reference_pages.study_keys_page()
    if page == "methods/index":
        return method_pages.method_list_page()
    text = (DOCS / f"{page}.md").read_text()
    if page.startswith("methods/"):
        text += method_pages.facts_sections(page.removeprefix("methods/"))
    return text


@pytest.mark.parametrize("question", PATHS)
def test_a_newcomer_needs_two_clicks(question):
    path, answer = PATHS[question]
    at = "index"
    for page in path:
        link = page.removeprefix("methods/") if at.startswith("methods/") else page
        assert f"]({link}.md" in built(at), f"{at} must link to {page}"
        at = page
    assert len(path) <= 2
    assert answer in built(at)


@pytest.mark.parametrize("name", discover())
def test_every_page_has_an_idea_and_a_picture(name):
    idea = re.search(
        r"^\*\*Idea\.\*\* (.*?)\n\n", (DOCS / "methods" / f"{name}.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert idea, f"docs/methods/{name}.md must say the idea in two sentences, after **Idea.**"
    picture = DOCS / "images" / "methods" / f"{name}.svg"
    assert picture.exists(), f"run python -m workshop pictures {name}"


def test_a_page_without_sections_or_picture_stays_readable(tmp_path):
    illustrated = method_pages.with_picture
    assert illustrated("# X\n\nIdea.\n", "none", tmp_path) == "# X\n\nIdea.\n"
    assert illustrated("# X\n\nIdea.\n", "fedgs", DOCS).startswith("# X\n\nIdea.\n\n```{figure}")


def test_the_extensions_need_no_sphinx():
    script = "import sys, workshop.method_pages; sys.exit('sphinx' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=DOCS.parent)
