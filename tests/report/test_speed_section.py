"""What the slowest fifth got, reckoned by hand; no table where devices are alike."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.conftest import write_run

from sortition.report.gather import gather
from sortition.report.page import Page
from sortition.report.speed_section import measure_slowest_fifth, speed_html

SIZES = np.array([10, 10, 10, 10, 60])
SECONDS = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
FEDERATION = {"sizes": SIZES, "seconds": SECONDS}
COUNTS = {"selected": np.array([2, 1, 1, 1, 1]), "available": np.array([3, 3, 3, 3, 3])}


def record(t, cohort, weights, **more):
    return {"round": t, "cohort": cohort, "weights": weights, "answered": None, "clock": 2.0 * (t + 1), **more}


def test_weight_due_chances_and_seconds():
    records = [record(0, [0, 1], [0.5, 0.5]), record(1, [0, 4], [0.75, 0.25]), record(2, [2, 3], [0.5, 0.5])]
    got = measure_slowest_fifth(records, FEDERATION, COUNTS)
    assert got.due == 0.6  # client 4 alone is the slowest fifth
    assert got.weight == pytest.approx(0.25 / 3)
    assert got.chances == pytest.approx(1 / (6 / 5))  # 6 places for 5 clients that were always there
    assert (got.never_chosen, got.seconds) == (0, 2.0)


def test_only_weights_that_were_used_count():
    silent = measure_slowest_fifth([record(0, [0, 4], [0.5, 0.5], answered=[0])], FEDERATION, COUNTS)
    assert silent.weight == 0
    late = measure_slowest_fifth([record(0, [0, 1], [0.5, 0.5], answered=[0, 4], used=[0.6, 0.2])], FEDERATION, COUNTS)
    assert late.weight == pytest.approx(0.25)
    assert np.isnan(measure_slowest_fifth([record(0, [], [])], FEDERATION, COUNTS).weight)


def test_who_was_never_chosen_is_counted():
    never = {**COUNTS, "selected": np.array([3, 1, 1, 1, 0])}
    assert measure_slowest_fifth([record(0, [0], [1.0])], FEDERATION, never).never_chosen == 1


def test_a_client_that_was_never_available_does_not_count_as_never_chosen():
    away = {"selected": np.array([3, 1, 1, 1, 0]), "available": np.array([3, 3, 3, 3, 0])}
    assert measure_slowest_fifth([record(0, [0], [1.0])], FEDERATION, away).never_chosen == 0


def test_nothing_is_said_where_devices_are_alike_or_there_is_no_clock(study):
    assert measure_slowest_fifth([record(0, [0], [1.0])], {"sizes": SIZES}, COUNTS) is None
    assert measure_slowest_fifth([{"round": 0, "cohort": [0], "weights": [1.0]}], FEDERATION, COUNTS) is None
    assert measure_slowest_fifth([], FEDERATION, COUNTS) is None
    assert speed_html(gather([study])) == ""


def test_the_page_has_a_row_a_method(tmp_path):
    for seed in (0, 1, 2):
        for method, cohort in (("uniform", [0, 3]), ("fedgs", [0, 1])):
            home = write_run(tmp_path, method, seed, [0.1, 0.2, 0.3], cohorts=[cohort] * 3)
            stored = dict(np.load(home / "federation.npz"))
            np.savez(home / "federation.npz", **stored, seconds=np.array([1.0, 2.0, 3.0, 9.0]))
    page = Page(gather([tmp_path])).selected()
    assert "What speed cost whom" in page
    assert '<td class="name">uniform</td><td>50.0 %</td><td>25.0 %</td>' in page
    assert '<td class="name">fedgs</td><td>0.0 %</td><td>25.0 %</td><td>0.00 ×</td><td>1.0</td>' in page
    assert "time saved against uniform" in page
