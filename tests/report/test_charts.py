"""What a figure says by itself, on the page and in the files for a paper."""

from __future__ import annotations

import pytest
from tests.report.conftest import write_run
from vl_convert import vegalite_to_svg

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
    assert "running mean of 5 evaluations" in svg
    assert "band: 95 % interval of the mean over seeds" in svg


@pytest.mark.parametrize("name", ["accuracy", "loss", "difference"])
def test_what_is_not_drawn_is_not_named(tmp_path, name):
    svg = vegalite_to_svg(drawn(study(tmp_path, rounds=6, seeds=2))[name].spec())
    assert "seeds" in svg
    assert "running mean" not in svg
    assert "band" not in svg
