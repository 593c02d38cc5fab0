"""The gallery of example studies: each file is valid, plans and plays; the page shows each as it is."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.test_cli import call
from workshop.gallery import (
    END,
    FILES,
    PAGE,
    PICTURE_OF,
    PICTURES,
    command_text,
    introduction,
    read_example,
    read_examples,
    verdict_lines,
)

from sortition.studies import study

PATHS = sorted(FILES.glob("*.toml"))


def test_every_file_has_a_picture_and_a_place_on_the_page():
    assert {path.stem for path in PATHS} == set(PICTURE_OF)
    assert {path.stem for path in PICTURES.iterdir()} == set(PICTURE_OF)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_file_is_a_question_that_plans(path):
    example = read_example(path)
    assert "?" in example.question
    assert example.explanation.endswith((".", "?"))
    assert f"#   sortition run examples/gallery/{path.name}\n" in example.text
    printed = call("run", path, "--dry-run")
    for table in tomllib.loads(example.text)["method"]:
        assert table.get("label", table["name"]) in printed


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_file_plays_and_has_its_chart(path, tmp_path):
    result = study(path, out=tmp_path, sets=["seeds=2", "rounds=6"], jobs=1)
    assert all(run.done for run in result.runs)
    picture = PICTURE_OF[path.stem]
    assert result.figure(picture.chart, setting=picture.setting).svg.startswith("<svg")
    figures = [line for line in verdict_lines(result) if line.startswith("- ")]
    in_seconds = "devices" in tomllib.loads(read_example(path).text)
    assert all(("seconds" in line.lower()) == in_seconds for line in figures)  # what was the same for all methods


def test_the_page_says_who_reaches_a_target_first():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## My devices differ in speed") :].split("\n## ")[0]
    assert re.search(r"- Seconds to the target against uniform; .*:\n  - auto beats uniform by \S+ seconds", section)


def test_the_page_says_how_the_worst_served_clients_fare_and_how_evenly_clients_are_chosen():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## Is the choice fair to all clients?") :].split("\n## ")[0]
    assert (
        "- Accuracy of the worst-served tenth of the clients against uniform, in points:\n  - power-of-choice beats"
        in section
    )
    assert re.search(
        r"\| method +\| accuracy, % \| worst-served tenth, % \| Jain's index \| never chosen, % \|", section
    )


@pytest.mark.parametrize("example", read_examples(), ids=lambda example: example.name)
def test_the_page_shows_the_file_as_it_is(example):
    page = PAGE.read_text(encoding="utf-8")
    assert f"## {example.question}\n\n{example.explanation}\n" in page
    assert f"{command_text(example)}\n\n```toml\n{example.text.rstrip()}\n```" in page
    assert f"(images/gallery/{example.name}.svg)" in page


def test_the_page_begins_with_its_questions_as_links():
    page = PAGE.read_text(encoding="utf-8")
    head = introduction(read_examples())
    assert page.startswith(head)
    assert page.endswith(END)
    assert "- [Three hospitals: need I wait for all of them in each round?](#three-hospitals-need-i-wait-for" in head
