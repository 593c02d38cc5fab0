import math

import numpy as np
import pytest
from tests.studies.folders import make

from sortition.core.errors import InputError
from sortition.results import metrics, run_folder
from sortition.simulation.simulation import client_figures


def test_smoothing_is_a_trailing_mean_of_whole_windows():
    rounds, means = metrics.smoothed(np.arange(1, 5), np.array([1.0, 2, 3, 6]), 2)
    assert (rounds.tolist(), means.tolist()) == ([2, 3, 4], [1.5, 2.5, 4.5])
    assert metrics.smoothed(np.arange(1, 3), np.array([1.0, 2]), 3)[1].size == 0


def test_smoothing_counts_rounds_where_not_every_one_is_evaluated():
    rounds, means = metrics.smoothed(np.array([1, 4, 6, 20]), np.array([1.0, 2, 4, 8]), 5)
    assert (rounds.tolist(), means.tolist()) == ([6, 20], [3.0, 8.0])  # rounds 2 to 6, 16 to 20
    rounds, means = metrics.smoothed(np.array([1, 2, 4, 6]), np.array([0.0, 0, 1, 1]), 2)
    assert (rounds.tolist(), means.tolist()) == ([2, 4, 6], [0.0, 1.0, 1.0])


def test_what_is_not_finite_is_a_figure_that_is_not_finite(tmp_path):
    run = make(tmp_path, [0.2, 0.4, 0.3])
    file = run.path / run_folder.ROUNDS
    file.write_text(file.read_text().replace('"loss": 0.7', '"loss": null'))
    assert metrics.diverged(run)
    assert metrics.best(run, of="loss") == pytest.approx(0.6)
    assert all(math.isnan(metrics.METRICS[name](run, of="loss")) for name in ("final", "last", "mean"))
    assert metrics.rounds_to_target(run, loss=0.65) == 2


def test_crossings_raw_and_smoothed(tmp_path):
    # raw 0.6 is first met in round 2; means of two: 0.35, 0.45, 0.5, 0.65, so round 5; three never reach 0.7
    run = make(tmp_path, [0.1, 0.6, 0.3, 0.7, 0.6])
    assert metrics.rounds_to_target(run, accuracy=0.6) == 2
    assert metrics.rounds_to_target(run, accuracy=0.6, smooth=2) == 5
    assert metrics.rounds_to_target(run, accuracy=0.7, smooth=3) is None
    assert metrics.rounds_to_target(run, loss=0.4) == 2
    assert metrics.rounds_to_target(run) is None  # no target anywhere


def test_the_target_of_the_configuration_is_the_default(tmp_path):
    run = make(tmp_path, [0.1, 0.6], target={"accuracy": 0.5, "smooth": 1})
    assert metrics.rounds_to_target(run) == 2


def test_best_final_last_mean(tmp_path):
    run = make(tmp_path, [0.2, 0.8, 0.4, 0.6])
    assert metrics.best(run) == 0.8
    assert metrics.best(run, of="loss") == pytest.approx(0.2)
    assert metrics.final(run) == 0.6
    assert metrics.last(run, last=2) == pytest.approx(0.5)
    assert metrics.mean(run, **{"from": 2, "to": 3}) == pytest.approx(0.6)
    assert metrics.peak_minus_final(run) == pytest.approx(0.2)
    assert metrics.peak_minus_final(run, of="loss") == pytest.approx(0.2)


def test_references_of_the_same_seed(tmp_path):
    slow = make(tmp_path, [0.1, 0.2, 0.3, 0.6])
    fast = make(tmp_path, [0.3, 0.6, 0.7, 0.6], method="fedgs")
    assert metrics.speed_up(fast, reference=slow, accuracy=0.6) == 2
    assert metrics.speed_up(fast, reference=slow, accuracy=0.7) is None
    assert metrics.gap(fast, reference=slow, smooth=1) == pytest.approx((0.2 + 0.4 + 0.4 + 0) / 4)


def test_fairness_counts_only_the_rounds_a_client_was_there(tmp_path):
    # shares 1/2, 1/2, 1/2; the fourth client was never there
    run = make(tmp_path, [0.1], selected=[1, 2, 3, 0], available=[2, 4, 6, 0])
    assert metrics.jain(run) == pytest.approx(1)
    assert metrics.gini(run) == pytest.approx(0)
    # raw counts 1, 2, 3: Jain 36 / (3·14), Gini (−2·1 + 0·2 + 2·3) / (3·6)
    assert metrics.jain(run, raw=True) == pytest.approx(36 / 42)
    assert metrics.gini(run, raw=True) == pytest.approx(4 / 18)
    assert metrics.count_variance(run) == pytest.approx(2 / 3)
    assert metrics.never_selected(run) == 0


def test_costs(tmp_path):
    run = make(tmp_path, [0.1, 0.2], clients=[0.9, 0.1, np.nan, 0.5])
    assert metrics.megabytes(run) == pytest.approx(60e-6)
    assert metrics.seconds(run) == pytest.approx(2)  # simulated
    assert metrics.wall_clock(run) == pytest.approx(1)
    assert metrics.selection_ms(run) == pytest.approx(2)
    assert metrics.worst_tenth(run) == pytest.approx(0.1)


def test_metrics_by_name(tmp_path):
    assert metrics.metric("best") is metrics.best
    run = make(tmp_path / "other", [0.5, 0.7])
    assert metrics.metric("sortition.results.metrics:best")(run, of="accuracy") == 0.7
    with pytest.raises(InputError, match="rounds-to-target"):
        metrics.metric("bets")
    assert metrics.summarise(make(tmp_path, [0.5]))["last-accuracy"] == 0.5


def test_a_loss_that_is_not_finite_or_ends_above_its_start_has_diverged():
    falling, rising = np.linspace(2.3, 0.1, 20), np.linspace(0.1, 2.9, 20)
    assert not metrics.is_divergent(falling, 10)
    assert not metrics.is_divergent(np.r_[3.0, 5.0, falling], 10)  # a bad beginning is no divergence
    assert metrics.is_divergent(np.r_[falling, np.nan], 10)
    assert metrics.is_divergent(np.r_[300.0, np.full(20, 200.0)], 10)  # far above ln 10, though below the first value
    assert metrics.is_divergent(rising, None)
    assert not metrics.is_divergent(rising[:-8], 10)  # still below ln 10 = 2.303
    assert not metrics.is_divergent(np.array([5.0]), 10)


def test_models_near_a_guess_are_remarked():
    counts = np.array([[5, 1], [1, 3]])  # always guessing the first label is right in 60 %
    (remark,) = metrics.chance_remarks([0.5, 0.64], counts)
    assert "no method is more than 5 points above guessing the most frequent label (60 %)" in remark
    assert metrics.chance_remarks([0.5, 0.66], counts) == []
    assert metrics.chance_remarks([0.5], None) == metrics.chance_remarks([], counts) == []


def test_a_metric_of_ones_own_returns_a_number(tmp_path, monkeypatch):
    (tmp_path / "own_metrics_of_a_test.py").write_text(
        "def good(run, by=1):\n    return 2 * by\n\ndef nothing(run):\n    return None\n\n"
        "def words(run):\n    return 'good'\n\nnumber = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = make(tmp_path, [0.5])
    assert metrics.metric("own_metrics_of_a_test:good")(run, by=2) == 4.0
    assert metrics.metric("own_metrics_of_a_test:nothing")(run) is None
    with pytest.raises(InputError, match="words must be a function that returns a number or None"):
        metrics.metric("own_metrics_of_a_test:words")(run)
    with pytest.raises(InputError, match="own_metrics_of_a_test:number must be a function"):
        metrics.metric("own_metrics_of_a_test:number")


def test_the_worst_tenth_is_the_one_of_the_records(tmp_path):
    accuracies = np.linspace(0.01, 0.27, 27)  # a tenth of 27 clients is two of them
    run = make(tmp_path, [0.5], clients=accuracies.tolist(), selected=[1] * 27, available=[1] * 27)
    assert metrics.worst_tenth(run) == pytest.approx(0.015)
    assert metrics.worst_tenth(run) == client_figures(accuracies)["worst_tenth"]
