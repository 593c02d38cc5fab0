"""What a figure says by itself, on the page and in the files for a paper."""

from __future__ import annotations

import re

import pytest
from tests.report.conftest import write_run
from vl_convert import vegalite_to_svg

from sortition.report.export import STYLE
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
    layers = drawn(study(tmp_path))[name].bare()["layer"]
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
    svg = vegalite_to_svg({**chart.spec(), "width": width, "config": STYLE})
    steps = re.search(r'd="M(\S+?)" stroke="\S+" stroke-width="2" stroke-dasharray', svg)[1].split("L")
    across = [float(step.split(",")[1]) for step in steps[::2]]  # the height at which the line leaves each point
    for (label, anchor), line in zip(zip(costs, ("start", "start", "end"), strict=True), across, strict=True):
        gap, name = re.findall(NAME.format(label), svg)  # not found where it is shortened
        assert gap[:3] == name[:3]
        assert gap[3] == "white", "the line is cut where it would cross a name"
        assert name[0] == anchor, "towards the middle, where nothing is clipped"
        assert line - float(name[2]) > 4, "above the line"
