"""Figures at equal cost: the rule of the last evaluation, the common budget, and verdicts that follow it."""

import json
import math
from html import escape

import numpy as np
import pytest
import tomli_w
from tests.studies.folders import make

from sortition import report
from sortition.core.errors import InputError
from sortition.results import equal_cost, frames, metrics, run_folder, summary, verdict_words
from sortition.results.comparisons import Criteria, criteria_of
from sortition.results.headline import headline
from sortition.results.statistics import BETTER, WORSE, Budget, Reason

COSTS = np.array([2.0, 4.0, 4.0, 10.0])
VALUES = np.array([0.1, 0.2, 0.3, 0.9])


@pytest.mark.parametrize(
    ("amount", "value"),
    [(1.9, None), (2.0, 0.1), (3.99, 0.1), (4.0, 0.3), (9.99, 0.3), (10.0, 0.9), (10.01, None)],
)
def test_a_figure_at_a_cost_is_the_last_evaluation_up_to_it_and_never_extrapolated(amount, value):
    assert equal_cost.value_at(COSTS, VALUES, amount) == value


def test_the_area_under_the_curve_holds_each_evaluation_until_the_next():
    assert equal_cost.mean_over(COSTS, VALUES, 2.0, 10.0) == pytest.approx((2 * 0.1 + 6 * 0.3) / 8)
    assert equal_cost.mean_over(COSTS, VALUES, 3.0, 6.0) == pytest.approx((1 * 0.1 + 2 * 0.3) / 3)
    assert equal_cost.mean_over(COSTS, VALUES, 1.0, 6.0) is None  # nothing is known before the first evaluation
    assert equal_cost.mean_over(COSTS, VALUES, 2.0, 11.0) is None
    assert equal_cost.mean_over(COSTS, VALUES, 4.0, 4.0) is None


def test_a_value_beyond_the_budget_does_not_spoil_the_area():
    assert equal_cost.mean_over(COSTS, np.array([0.1, 0.2, 0.3, math.nan]), 2.0, 9.0) == pytest.approx((0.2 + 1.5) / 7)


def test_the_budget_is_what_every_run_has_spent_and_at_most_the_limit():
    slow = {"seconds": np.array([3.0, 9.0])}
    fast = {"seconds": np.array([1.0, 2.0, 8.0])}
    assert equal_cost.common_budget([slow, fast], "seconds") == Budget("seconds", start=3.0, amount=8.0)
    assert equal_cost.common_budget([slow, fast], "seconds", limit=6.0) == Budget("seconds", start=3.0, amount=6.0)
    assert equal_cost.common_budget([slow, {"seconds": np.array([math.nan])}], "seconds") is None
    assert equal_cost.common_budget([], "seconds") is None


@pytest.mark.parametrize(
    ("config", "currency"),
    [
        ({}, "rounds"),
        ({"devices": {"speed": 10.0, "speed_spread": 0.0, "dropout": 0.2}}, "rounds"),
        ({"devices": {"speed_spread": 0.5}}, "seconds"),
        ({"devices": {"jitter": 0.1}}, "seconds"),
        ({"devices": {"speed_spread": 0.5}, "until": {"megabytes": 3.0}}, "megabytes"),
    ],
)
def test_what_a_study_counts_that_does_not_say_so(config, currency):
    assert Criteria().currency(config) == currency
    assert Criteria(cost="passes").currency(config) == "passes"


def test_metrics_by_name_take_a_cost(tmp_path):
    run = make(tmp_path, [0.1, 0.6, 0.3])  # a second a round
    assert metrics.metric("seconds-to-target")(run, accuracy=0.6) == 2
    assert metrics.metric("megabytes-to-target")(run, accuracy=0.6) == pytest.approx(60e-6)
    assert metrics.metric("at-cost")(run, seconds=2.5) == 0.6
    assert metrics.metric("at-cost")(run, seconds=9) is None
    assert metrics.metric("auc")(run, seconds=2.5) == pytest.approx((0.1 + 0.3) / 1.5)
    with pytest.raises(InputError, match=r"table\.options must be one of rounds, seconds, megabytes, passes"):
        metrics.metric("at-cost")(run, second=3)


def seconds_study(tmp_path, lengths, *, devices=None, config=None, seeds=4):
    """Runs of two methods that learn equally in a round; a round of each lasts as long as given."""
    for label, (seconds, rounds) in lengths.items():
        for seed in range(seeds):
            home = tmp_path / "main" / label / f"seed-{seed}"
            table = {
                "setting": "main",
                "seed": seed,
                "rounds": rounds,
                "method": {"name": label, "label": label},
                "devices": {"speed_spread": 1.0} if devices is None else devices,
                "target": {"accuracy": 0.3},
                **(config or {}),
            }
            home.mkdir(parents=True)
            (home / run_folder.CONFIG).write_text(tomli_w.dumps(table))
            manifest = {"format": run_folder.FORMAT, "test_examples": 10_000}
            (home / run_folder.MANIFEST).write_text(json.dumps(manifest))
            records = [
                {
                    "round": t,
                    "cohort": [0],
                    "bytes": {"model_up": 1e6},
                    "passes": {"training": 10},
                    "clock": seconds * (t + 1),
                    "test": {"accuracy": (t + 1) / 100 + seed / 100 + (t * seed % 3) / 5000, "loss": 1.0},
                }
                for t in range(rounds)
            ]
            (home / run_folder.ROUNDS).write_text("".join(f"{json.dumps(record)}\n" for record in records))
            stored = run_folder.Run(home)
            document = {"status": "done", "rounds": rounds, "figures": dict(metrics.summarise(stored))}
            (home / run_folder.SUMMARY).write_text(json.dumps(document))
    return run_folder.find(tmp_path)


def test_a_first_evaluation_after_the_common_cost_is_said_plainly(tmp_path):
    """Uniform's runs end after 3 seconds, and the other method's first round alone takes 5."""
    runs = seconds_study(tmp_path, {"uniform": (1.0, 3), "slow": (5.0, 3)})
    (methods,) = summary.group_runs(runs).values()
    comparison = summary.comparison_of(methods)
    assert comparison.budget == Budget("seconds", start=5.0, amount=3.0)
    words = (
        "Compared at equal cost: the last evaluation at or before 3 seconds, which every run has spent. A run was "
        "first evaluated at 5 seconds: runs that were not evaluated by 3 seconds have no figure there, and no run has "
        "a mean of its curve up to it. Give runs more rounds or a higher until, or evaluate more often."
    )
    assert words in [note for table in summary.tables(runs) for note in table.notes]
    assert all(figures["at-cost-accuracy"] is None for figures in comparison.figures["slow"].values())
    assert escape(words) in report.write([tmp_path], tmp_path / "page.html").read_text()


def test_the_mean_of_a_curve_names_both_its_ends(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "quick": (1.0, 40)})
    words = "; and the mean of the curve from 2 seconds to 40 seconds."
    assert any(note.endswith(words) for table in summary.tables(runs) for note in table.notes)


def test_twice_as_fast_is_better_by_seconds_and_equal_by_rounds(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "quick": (1.0, 40)})
    (methods,) = summary.group_runs(runs).values()
    by_seconds = summary.comparison_of(methods)
    assert by_seconds.budget == Budget("seconds", start=2.0, amount=40.0)
    pair = by_seconds.against_baseline()["quick"]
    assert (pair.figure, pair.verdict) == ("at-cost", BETTER)
    assert pair.difference == pytest.approx(0.2, abs=0.001)  # 40 rounds against 20
    assert pair.speed_up == pytest.approx(2.0)
    assert pair.traffic_ratio == pytest.approx(2.0)  # within the same time
    assert verdict_words.compared_period(pair) == "after 40 seconds"
    assert headline(by_seconds).startswith("quick beats uniform by 19.99 points")
    by_rounds = summary.comparison_of(methods, Criteria(cost="rounds")).against_baseline()["quick"]
    assert (by_rounds.figure, by_rounds.difference) == ("last", 0.0)
    by_traffic = summary.comparison_of(methods, Criteria(cost="megabytes")).against_baseline()["quick"]
    assert by_traffic.difference == 0.0
    assert "traffic" not in verdict_words.verdict_sentence(by_traffic)


def test_the_cost_to_the_target_has_a_verdict_where_every_run_reached_it(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "quick": (1.0, 40)})
    (methods,) = summary.group_runs(runs).values()
    (pair,) = summary.comparison_of(methods).to_target
    assert (pair.metric, pair.figure, pair.verdict) == ("seconds to target", "to-target", BETTER)
    assert pair.difference == pytest.approx(-30.5, abs=0.5)
    assert verdict_words.verdict_sentence(pair).startswith("quick beats uniform by 30.5 seconds to the target [")
    titles = [table.title for table in summary.tables(runs)]
    assert "main: seconds to target, compared" in titles
    (rounds,) = summary.comparison_of(methods, Criteria(cost="rounds")).to_target
    assert (rounds.metric, rounds.difference) == ("rounds to target", 0.0)


def test_the_cost_to_the_target_is_not_compared_among_the_lucky_alone(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "late": (3.0, 31)})  # one of its seeds does not get there
    (methods,) = summary.group_runs(runs).values()
    (pair,) = summary.comparison_of(methods).to_target
    assert pair.reason is Reason.NOT_REACHED
    assert "not every run reached the target" in verdict_words.verdict_sentence(pair)


def test_runs_that_end_by_seconds_are_compared_at_the_limit_though_their_rounds_differ(tmp_path):
    limit = {"until": {"seconds": 30.0}}
    runs = seconds_study(tmp_path, {"uniform": (1.0, 30), "slow": (4.0, 8)}, config=limit)
    (methods,) = summary.group_runs(runs).values()
    comparison = summary.comparison_of(methods)
    assert comparison.budget == Budget("seconds", start=4.0, amount=30.0)
    pair = comparison.against_baseline()["slow"]
    assert pair.difference == pytest.approx((7 - 30) / 100, abs=0.001)  # its eighth round ended after the limit
    assert pair.verdict == WORSE
    over_rounds = summary.comparison_of(methods, Criteria(cost="rounds")).against_baseline()["slow"]
    assert over_rounds.reason is Reason.ENDED_APART


def test_runs_that_stop_at_a_target_are_not_compared_at_a_budget_that_luck_sets(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (1.0, 30), "quick": (0.5, 25)}, config={"stop_at_target": True})
    (methods,) = summary.group_runs(runs).values()
    assert summary.comparison_of(methods).against_baseline()["quick"].reason is Reason.ENDED_APART


def test_tables_and_export_name_the_cost_and_the_wall_clock(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "quick": (1.0, 40)})
    first, costs, at_cost, *_ = summary.tables(runs)
    assert first.columns[4:] == ["at 40 s", "up to 40 s", "seconds to 0.3", "5-round mean"]
    assert costs.columns == ["method", "worst tenth", "Jain", "MB", "simulated s", "ms/select", "wall-clock s"]
    assert at_cost.title == "main: at 40 s, compared"
    tables = frames.make_frames(runs)
    assert {"seconds-to-target", "seconds", "wall-clock"} <= set(tables["runs"].columns)
    assert tables["comparisons"]["cost"].to_list() == ["seconds"] * 3
    assert tables["comparisons"]["figure"].to_list() == ["at-cost", "auc", "to-target"]
    assert tables["comparisons"]["budget"].to_list() == [40.0] * 3
    by_figure = {row["figure"] for row in tables["methods"].to_dicts()}
    assert {"at-cost-accuracy", "auc-accuracy", "megabytes-at-cost"} <= by_figure


def test_a_reference_line_is_a_level_and_has_no_cost_to_the_target(tmp_path):
    runs = seconds_study(tmp_path, {"uniform": (2.0, 40), "centralised": (0.0, 40)})
    (methods,) = summary.group_runs(runs).values()
    comparison = summary.comparison_of(methods)
    assert comparison.budget == Budget("seconds", start=2.0, amount=80.0)
    figures = comparison.figures["centralised"][0]
    assert figures["at-cost-accuracy"] == pytest.approx(0.4)
    assert figures["seconds-to-target"] is None


def test_a_cost_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Unknown cost 'second'.*Did you mean 'seconds'"):
        criteria_of([tmp_path], cost="second")
