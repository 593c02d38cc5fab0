"""What a figure says by itself, on the page and in the files for a paper."""

from __future__ import annotations

import re

import pytest
from tests.report.conftest import write_run
from vl_convert import vegalite_to_svg

from sortition.report.export import CONFIG
from sortition.report.gather import gather
from sortition.report.page import Page


def drawn(folder):
    """The charts of a study by their names."""
    page = Page(gather([folder]))
    page.render()
    return {chart.name: chart for _, chart in page.charts}


def study(folder, rounds=12, seeds=3):
    for seed in range(seeds):
        for label, gain in (("uniform", 0.0), ("fedgs", 0.1)):
            values = [0.2 + gain + 0.01 * seed + t / 40 for t in range(rounds)]
            write_run(folder, label, seed, values)
    return folder


@pytest.mark.parametrize("name", ["accuracy", "loss", "difference"])
def test_a_running_mean_and_its_band_are_named_in_the_figure(tmp_path, name):
    svg = vegalite_to_svg(drawn(study(tmp_path))[name].spec())
    assert "running mean of 5 rounds" in svg
    assert "band: 95 % interval of the mean over seeds" in svg


@pytest.mark.parametrize("name", ["accuracy", "loss", "difference"])
def test_what_is_not_drawn_is_not_named(tmp_path, name):
    svg = vegalite_to_svg(drawn(study(tmp_path, rounds=6, seeds=2))[name].spec())
    assert "seeds" in svg
    assert "running mean" not in svg
    assert "band" not in svg


def luminance(colour):
    """As WCAG 2 defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["forest-last", "forest-mean"])
def test_the_seeds_of_a_forest_plot_are_seen(tmp_path, name):
    layers = drawn(study(tmp_path))[name].spec_without_rows()["layer"]
    (seeds,) = (layer["mark"] for layer in layers if layer["data"]["name"] == "forest_seeds")
    bars = [layer["mark"] for layer in layers if layer["data"]["name"] == "forest"]
    assert len(bars) == 3
    for bar in bars:
        half = bar.get("strokeWidth", 10) / 2  # the point is 10 pixels wide
        assert seeds["yOffset"] - bar["yOffset"] > half + 2.5, "below the bar, not on it"
    for page in ("#ffffff", "#15181c"):
        assert contrast(seeds["color"], page) > 3
    assert seeds["opacity"] >= 0.9


NAME = r'text-anchor="(\w+)" transform="translate\(([^,)]+),([^,)]+)\)"[^>]*fill="([^"]+)"[^>]*>{}</text>'


@pytest.mark.parametrize("width", [300, 330])  # on a phone, and in a file
def test_names_in_a_cost_chart_are_whole_and_off_the_dashed_line(tmp_path, width):
    costs = {"uniform": (0.2, 1.0), "microcosm-estimate": (0.4, 1.5), "power-of-choice": (0.6, 2.0)}
    for label, (value, megabytes) in costs.items():
        write_run(tmp_path, label, 0, [value, value, value], sent={"model_up": megabytes * 1e6})
    chart = drawn(tmp_path)["pareto-megabytes"]
    assert chart.spec()["width"] == 330
    svg = vegalite_to_svg({**chart.spec(), "width": width, "config": CONFIG})
    steps = re.search(r'd="M(\S+?)" stroke="\S+" stroke-width="2" stroke-dasharray', svg)[1].split("L")
    across = [float(step.split(",")[1]) for step in steps[::2]]  # the height at which the line leaves each point
    for (label, anchor), line in zip(zip(costs, ("start", "start", "end"), strict=True), across, strict=True):
        gap, name = re.findall(NAME.format(label), svg)  # not found where it is shortened
        assert gap[:3] == name[:3]
        assert gap[3] == "white", "the line is cut where it would cross a name"
        assert name[0] == anchor, "towards the middle, where nothing is clipped"
        assert line - float(name[2]) > 4, "above the line"


def test_a_curve_of_runs_of_different_lengths_is_a_mean_at_every_round(tmp_path):
    for seed, rounds in ((0, 500), (1, 500), (2, 330)):  # the last one goes on
        for label, start in (("uniform", 0.1), ("fedgs", 0.2)):
            write_run(tmp_path, label, seed, [start + seed / 10] * rounds, done=rounds == 500)
    table = drawn(tmp_path)["accuracy"].tables["curves_accuracy"]
    rows = [row for row in table if row["smoothing"] == 1 and row["axis"] == "rounds"]
    assert {row["n"] for row in rows if row["x"] <= 330} == {3}
    assert {row["mean"] for row in rows if row["method"] == "fedgs" and row["x"] <= 330} == {0.3}
    gap = [row for row in drawn(tmp_path)["difference"].tables["gap"] if row["axis"] == "rounds"]
    assert {row["n"] for row in gap if row["x"] <= 330} == {3}


def test_a_picture_of_one_method_says_which(tmp_path):
    for label in ("uniform", "fedgs"):
        write_run(tmp_path, label, 0, [0.2, 0.3, 0.4])
    assert ">fedgs</text>" in vegalite_to_svg(drawn(tmp_path)["timeline"].spec())


def test_a_sweep_says_what_the_other_values_are(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.2, 0.3, 0.4])
    for alpha in (0.5, 1.0):
        for beta in (1, 2):
            options = {"alpha": alpha, "beta": beta}
            write_run(tmp_path, f"fedgs,{alpha},{beta}", 0, [0.2, 0.3, 0.4], name="fedgs", options=options)
    assert ">with beta=1</text>" in vegalite_to_svg(drawn(tmp_path)["sweep-fedgs-alpha"].spec())


def test_a_long_name_leaves_room_for_the_lines(tmp_path):
    for label in ("uniform", "a name that is as long as a name may be, and nearly as wide as a page of a paper"):
        write_run(tmp_path, label, 0, [0.2, 0.3, 0.4], name=label.split()[0])
    svg = vegalite_to_svg(drawn(tmp_path)["counts"].spec())
    (shown,) = [text for text in re.findall(r">([^<]*)</text>", svg) if text.startswith("a name")]
    assert shown.endswith("…")
    assert len(shown) < 40


def test_costs_below_one_are_not_in_thousandths(tmp_path):
    for label, sent in (("uniform", 1e5), ("fedgs", 2e5)):
        write_run(tmp_path, label, 0, [0.2, 0.3, 0.4], sent={"model_down": sent})
    svg = vegalite_to_svg(drawn(tmp_path)["pareto-megabytes"].spec())
    assert ">0.4</text>" in svg
    assert not re.search(r">[0-9.]+m</text>", svg)


def test_a_client_that_was_chosen_is_not_said_to_have_trained(study):
    page = Page(gather([study])).selected()
    assert "How often each client was chosen" in page
    assert "coloured where a client was chosen" in page
