"""What guards do not hold is said in words: on the page of a study with attacks or guards, and in the docs."""

import re
from pathlib import Path

import pytest
from tests.report.conftest import write_run

from campaign import trust
from sortition.report.gather import gather
from sortition.report.measured_trust import MeasuredTrust, MethodTrust, load_measured_trust, trust_section_html
from sortition.report.page import Page
from sortition.selectors import discover

DOCS = Path(__file__).parents[2] / "docs"
FINE = MethodTrust(accuracy=95.0, cost=0.3, losses={"always": 5.0}, places=20.0, after_return=40.0, quarantined=0)
POOR = MethodTrust(
    accuracy=95.0,
    cost=0.4,
    losses={"always": 5.1, "return": 1.0, "framing": 9.0},
    places=21.0,
    after_return=41.0,
    quarantined=2,
)


def test_every_goal_that_is_missed_has_its_words():
    figures = MeasuredTrust(guards={}, seeds={}, methods={"fine": FINE, "poor": POOR})
    assert figures.sentence("fine") == "fine meets every goal of the guards."
    assert figures.sentence("poor") == (
        "poor does not meet every goal of the guards: in the worst seed adversaries cost 9.0 points under `framing` "
        "and 5.1 points under `always` (goal: at most 5); they held 21 % of the places (goal: at most 20 %); "
        "after a common return they held 41 % of the places (goal: at most 40 %); "
        "2 honest clients were in quarantine (goal: nobody); "
        "without adversaries the guards cost 0.4 points (goal: at most 0.3)."
    )
    assert figures.sentence("mine") == "mine was not measured under attack."


def test_every_method_was_measured_with_the_set_up_of_the_docs():
    assert set(load_measured_trust().methods) == set(discover())
    assert load_measured_trust().guards == trust.TRUSTED.changed()
    written = re.findall(r"guards = \{ (.*?) \}", (DOCS / "guards.md").read_text())
    values = {f"{name} = {value:g}" for name, value in trust.TRUSTED.changed().items()}
    assert any(values <= set(line.split(", ")) for line in written)


def test_the_docs_have_the_table_and_each_methods_sentence():
    assert trust.table(load_measured_trust()) in (DOCS / "faults.md").read_text()
    for method in load_measured_trust().methods:
        page = (DOCS / "methods" / f"{method}.md").read_text()
        paragraph = trust.under_attack(load_measured_trust(), method)
        assert page.count("**Under attack.**") == bool(paragraph)
        assert paragraph in page


def with_table(folder: Path, table: str) -> None:
    for config in folder.rglob("config.toml"):
        config.write_text(config.read_text() + table)


@pytest.mark.parametrize("table", ['\n[attacks]\nkind = "adaptive"\n', "\n[guards]\nnorm = 20.0\n"])
def test_the_page_of_a_study_with_attacks_or_guards_says_how_far_guards_hold(tmp_path, table):
    write_run(tmp_path, "mine & yours", 0, [0.1, 0.2, 0.3], name="tifl")
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3])
    assert trust_section_html(gather([tmp_path])) == ""
    with_table(tmp_path, table)
    page = Page(gather([tmp_path])).selected()
    assert "How far guards hold" in page
    assert page.count(load_measured_trust().sentence("tifl")) == 1
    assert page.count(load_measured_trust().sentence("uniform")) == 1
