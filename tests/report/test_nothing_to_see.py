"""Panels without anything to see are left out with a sentence, and colours mean one thing."""

import colorsys

import numpy as np
from tests.report.conftest import write_run

from sortition.report.charts import by_cost, forest, selection, who_holds_what
from sortition.report.charts.forest import COLOURS as VERDICTS
from sortition.report.gather import gather
from sortition.report.look import Look
from sortition.report.page import Page
from sortition.report.palette import COLOURS, GREY, Palette
from sortition.results.statistics import BETTER, UNDECIDED, WORSE


def gathered(folder, sent=(1e6, 1.0001e6), **options):
    for label, megabytes in zip(("uniform", "fedgs"), sent, strict=True):
        for seed in range(2):
            write_run(folder, label, seed, [0.2, 0.4, 0.5], sent={"model_down": megabytes}, **options)
    return gather([folder])


def test_equal_sizes_and_full_availability_are_a_sentence(tmp_path):
    setting = gathered(tmp_path).settings[0]
    setting.federation = {"sizes": np.full(10, 600), "availability": np.ones((3, 10), bool)}
    assert who_holds_what.draw_charts(setting) == [
        "Each of the 10 clients holds 600 examples.",
        "Every client is reachable in every round.",
    ]
    setting.federation = {"sizes": np.array([71, 72, 72])}
    assert who_holds_what.draw_charts(setting) == ["Each of the 3 clients holds 71 or 72 examples."]
    setting.federation = {"sizes": np.ones(3, int)}
    assert who_holds_what.draw_charts(setting) == ["Each of the 3 clients holds 1 example."]
    setting.federation = {"sizes": np.array([0, 1])}
    assert who_holds_what.draw_charts(setting) == ["Each of the 2 clients holds 0 or 1 example."]
    setting.federation = {"sizes": np.zeros(2, int)}
    assert who_holds_what.draw_charts(setting) == ["Each of the 2 clients holds 0 examples."]
    histogram = who_holds_what.draw_size_histogram(np.array([1000, 2000, 12_000]))
    assert histogram.caption == "3 clients hold 15,000 examples; median 2,000, from 1,000 to 12,000."
    setting.federation = {"sizes": np.arange(1, 11), "availability": np.eye(3, 10, dtype=bool)}
    assert [chart.name for chart in who_holds_what.draw_charts(setting)] == ["sizes", "availability"]


def test_costs_that_are_alike_are_a_sentence_and_others_a_chart(tmp_path):
    for name, sent in (("alike", (1e6, 1.0001e6)), ("apart", (1e6, 2e6))):
        found = gathered(tmp_path / name, sent)
        made = by_cost.draw_pareto_charts(found.settings[0], Look(Palette(found.methods, found.names)))[0]
        assert isinstance(made, str) == (name == "alike")
    said = [
        made
        for made in by_cost.draw_pareto_charts(gather([tmp_path / "alike"]).settings[0], Look(Palette([], {})))
        if made
    ]
    assert said[0] == "All methods cost the same traffic: 3 MB, to within 1 %."
    assert said[0] in Page(gather([tmp_path / "alike"])).render()


def test_an_amount_that_all_methods_cost_is_written_out(tmp_path):
    found = gathered(tmp_path, (1.152e9, 1.152e9))
    said = by_cost.draw_pareto_charts(found.settings[0], Look(Palette(found.methods, found.names)))
    assert said[0] == "All methods cost the same traffic: 3,460 MB, to within 1 %."


def test_counts_against_availability_are_a_sentence_where_all_clients_were_available_equally_often(tmp_path):
    found = gathered(tmp_path)
    setting = found.settings[0]
    look = Look(Palette(found.methods, found.names))
    for run in setting.runs:
        run.counts = {"selected": np.array([1, 2, 0]), "available": np.full(3, 3)}
    said = "Every client was available in 3 rounds, so counts alone say how even a method is."
    assert selection.draw_counts_against_availability(setting, look) == said
    for run in setting.runs:
        run.counts["available"] = np.array([3, 3, 2])
    assert selection.draw_counts_against_availability(setting, look).name == "availability-counts"


def test_a_forest_plot_of_all_rounds_is_not_drawn_twice(tmp_path):
    for rounds, names in ((10, ["forest-last"]), (12, ["forest-last", "forest-mean"])):
        folder = tmp_path / str(rounds)
        for label, start in (("uniform", 0.1), ("fedgs", 0.2)):
            for seed in range(3):
                write_run(folder, label, seed, np.linspace(start + seed / 100, 0.5, rounds).tolist())
        page = Page(gather([folder]))
        text = page.render()
        assert [chart.name for _, chart in page.canvas.charts if chart.name.startswith("forest")] == names
        assert (forest.SAME_ROUNDS in text) == (rounds == 10)


def test_adversaries_are_in_a_heading_only_where_there_are_some(tmp_path):
    assert "and adversaries" not in Page(gathered(tmp_path)).render()


def hue(colour):
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 360 * colorsys.rgb_to_hls(red, green, blue)[0]


def test_no_method_has_the_colour_of_a_verdict():
    for colour in COLOURS:
        for verdict in (BETTER, WORSE, UNDECIDED):
            apart = abs(hue(colour) - hue(VERDICTS[verdict]))
            assert min(apart, 360 - apart) > 15, (colour, verdict)
    assert len({*COLOURS, GREY}) == len(COLOURS) + 1
