"""The table of what guards did: summed over rounds and seeds, and absent where they had nothing to do."""

from tests.report.conftest import write_run

from sortition.report.gather import gather
from sortition.report.guard_section import HEADING_BY_ACTION, IN_THE_NOTES, count_guard_actions, guard_html
from sortition.report.page import Page


def test_actions_are_added_up_over_rounds():
    rounds = [
        {"rejected": {"3": "loss: negative"}, "notes": {"guards": {"explored": [4, 7], "quarantined": 2}}},
        {"notes": {"unsound_updates": [3, 9], "guards": {"explored": [1], "too_few_completed": 0}}},
        {"rejected": None, "notes": {"guards": "nonsense", "unsound_updates": []}},
        {"notes": {"guards": {"winsorised": 5, "thinned": "many", "strange": 3}}},
    ]
    assert count_guard_actions(rounds) == {
        "rejected": 1, "explored": 3, "quarantined": 2, "unsound_updates": 2, "too_few_completed": 1, "winsorised": 5,
    }  # fmt: skip


def test_the_page_shows_them_by_method(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "uniform", seed, [0.1, 0.2, 0.3])
        write_run(tmp_path, "fedgs", seed, [0.1, 0.2, 0.3], notes={"guards": {"explored": [1], "capped": 2}})
    page = Page(gather([tmp_path])).selected()
    assert "Where guards acted" in page
    assert '>explorers</th><th scope="col" tabindex="0">members with capped size</th>' in page
    assert '<td class="name">fedgs</td><td>2</td><td>4</td>' in page
    assert '<td class="name">uniform</td><td>0</td><td>0</td>' in page


def test_nothing_is_shown_where_they_did_nothing(study):
    assert guard_html(gather([study])) == ""


def test_every_action_has_a_heading_and_a_source():
    assert ["rejected", "unsound_updates", *IN_THE_NOTES] == list(HEADING_BY_ACTION)
