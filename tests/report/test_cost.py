"""The page counts what the study counts: words, table, curves, and the one switch of their axis."""

import re

import pytest
from tests.results.test_equal_cost import seconds_study
from vl_convert import vegalite_to_svg

from sortition.core.errors import InputError
from sortition.report import write
from sortition.report.export import latex_table
from sortition.report.gather import gather
from sortition.report.page import Page

LENGTHS = {"uniform": (2.0, 40), "quick": (1.0, 40)}


def charts_of(gathered):
    page = Page(gathered)
    page.render()
    return {chart.name: chart for _, chart in page.charts}


def test_words_cards_and_table_follow_the_cost(tmp_path):
    seconds_study(tmp_path, LENGTHS)
    text = write([tmp_path], tmp_path / "page.html").read_text()
    lead = re.search(r'<p class="lead">(.*?)</p>', text)[1]
    assert lead.startswith("quick beats uniform by 19.99 points")
    assert "points of accuracy after 40 seconds" in lead
    assert "seconds to accuracy 0.3" in text
    assert "at or before 40 seconds, which every run has spent" in text
    assert "forest-at-cost" in charts_of(gather([tmp_path]))
    assert "at 40 s" in latex_table(gather([tmp_path]).settings[0])
    assert "s to target" in latex_table(gather([tmp_path]).settings[0])
    by_rounds = write([tmp_path], tmp_path / "rounds.html", cost="rounds").read_text()
    assert "last 10" in by_rounds
    assert "which every run has spent" not in by_rounds
    with pytest.raises(InputError, match="Unknown cost 'minutes'"):
        write([tmp_path], tmp_path / "page.html", cost="minutes")


def test_one_switch_has_the_costs_that_runs_have(tmp_path):
    seconds_study(tmp_path, LENGTHS)
    text = Page(gather([tmp_path])).render()
    switch = re.search(r'<select id="axis">(.*?)</select>', text)[1]
    assert re.findall(r'value="(\w+)"', switch) == ["rounds", "seconds", "megabytes", "passes"]
    assert re.findall(r'value="(\w+)" selected', switch) == ["seconds"]
    assert "All devices are equally fast here" not in text


def test_every_curve_has_every_axis_and_is_cut_at_the_common_budget(tmp_path):
    seconds_study(tmp_path, LENGTHS)
    charts = charts_of(gather([tmp_path]))
    for name, table in (("accuracy", "curves_accuracy"), ("loss", "curves_loss"), ("difference", "gap")):
        rows = charts[name].tables[table]
        assert {row["axis"] for row in rows} == {"rounds", "seconds", "megabytes", "passes"}
        assert max(row["x"] for row in rows if row["axis"] == "seconds") == 40
        assert max(row["x"] for row in rows if row["axis"] == "rounds") == 40
        assert {row["n"] for row in rows if row.get("smoothing", 1) == 1} == {4}
    rows = [row for row in charts["accuracy"].tables["curves_accuracy"] if row["smoothing"] == 1]
    last = {(row["method"], row["axis"]): row["mean"] for row in rows}
    assert last["quick", "seconds"] - last["uniform", "seconds"] == pytest.approx(0.2, abs=0.001)
    assert last["quick", "rounds"] == last["uniform", "rounds"]


def test_a_figure_in_a_file_is_drawn_over_the_chosen_cost(tmp_path):
    seconds_study(tmp_path, LENGTHS)
    assert ">simulated seconds</text>" in vegalite_to_svg(charts_of(gather([tmp_path]))["accuracy"].spec())
    assert ">client passes</text>" in vegalite_to_svg(charts_of(gather([tmp_path], cost="passes"))["loss"].spec())


def test_equal_devices_are_said_and_how_to_make_them_differ(tmp_path):
    seconds_study(tmp_path, LENGTHS, devices={"speed": 10.0})
    text = Page(gather([tmp_path])).render()
    assert "devices = { speed_spread = 1.0 } in the study makes them differ" in text
    assert 'value="rounds" selected' in text


def test_the_header_names_devices_pace_and_limit(tmp_path):
    pace = {"overselect": 1.3, "deadline": 30.0, "late": "use"}
    config = {"pace": pace, "until": {"seconds": 60.0}}
    seconds_study(tmp_path, LENGTHS, devices={"speed": 50.0, "speed_spread": 1.0, "dropout": 0.1}, config=config)
    text = Page(gather([tmp_path])).render()
    assert "Devices: speed 50, speed spread 1, dropout 0.1." in text
    assert "Pace: rounds, overselect 1.3, deadline 30, late use." in text
    assert "in each of at most 40 rounds, until 60 seconds" in text
