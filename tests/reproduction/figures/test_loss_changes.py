from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from sortition.reproduction.context import Context
from sortition.reproduction.figures import loss_changes
from sortition.studies.plan import plan

STUDY = {
    "rounds": 3,
    "cohort": 3,
    "seeds": [0],
    "data": {"name": "digits", "clients": 10, "partition": {"name": "shards", "per_client": 1}, "holdout": 0.2},
    "model": {"name": "softmax"},
    "local": {"steps": 3, "batch": 16, "lr": 0.1},
    "method": [{"name": "uniform"}],
    "setting": [{"name": "1SPC"}],
}


class Undrawn(Context):
    """Checks a chart without rendering it."""

    def save(self, name, chart):
        assert chart.to_dict()["$schema"]
        return f"{self.name}-{name}.png"


@pytest.fixture
def preset(monkeypatch):
    class Small:
        def plan(self):
            return plan(STUDY)

    monkeypatch.setattr(loss_changes.presets, "load_preset", lambda name: Small())


def test_similarity_is_a_cosine():
    a = np.array([[2.0, 1.0], [1.0, 1.0]])
    assert loss_changes.covariance_similarity(a, a) == pytest.approx(1)
    assert loss_changes.covariance_similarity(a, 7 * a) == pytest.approx(1)  # as printed, eq. 151 would give 1/(7·7)
    assert loss_changes.covariance_similarity(np.diag([1.0, 0]), np.diag([0, 1.0])) == 0
    # tr(AᵀB) = 2 + 1, |A|² = 4 + 1 + 1 + 1, |I|² = 2
    assert loss_changes.covariance_similarity(a, np.eye(2)) == pytest.approx(3 / np.sqrt(14))


def test_components_are_uncorrelated_and_of_variance_one():
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(400, 3)) @ np.diag([3.0, 2.0, 1.0]) + 5
    parts, share = loss_changes.principal_components(changes, 2)
    np.testing.assert_allclose(parts.T @ parts / 400, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(parts.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(share, [9 / 14, 4 / 14], atol=0.05)


def test_changes_are_those_of_a_rehearsed_cohort():
    config = plan(STUDY).runs[0]
    *_, (t, world, params) = loss_changes.play_trajectory(config, 2)
    everybody = np.arange(10)
    deltas = loss_changes.updates_of_all(world, params, t)
    # the cohort of all: every draw is the same
    changes = loss_changes.sampled_changes(world, params, t, deltas=deltas, cohorts=2, size=10)
    assert changes.shape == (2, 10)
    np.testing.assert_allclose(changes[0], changes[1], atol=1e-6)
    after = params + world.train(params, everybody, (), t).deltas.mean(axis=0)
    measured = [world.measure(p, loss_changes.Measure(loss_changes.LOSS, everybody), t).values for p in (params, after)]
    np.testing.assert_allclose(changes[0], measured[1] - measured[0], atol=1e-5)


def test_the_figures_are_drawn(preset, tmp_path):
    context = Undrawn("try", tmp_path, None, None, None)
    text = loss_changes.normality(context, of="any", setting=["1SPC"], method="uniform", round=1, cohorts=30, shown=2)
    assert "try-components.png" in text
    assert text.count("| 1SPC") == 2
    assert "single clients" not in text
    text = loss_changes.stationarity(
        context, of="any", setting=["1SPC"], method="uniform", first=1, interval=1, points=3, cohorts=20
    )
    least = float(text.rsplit("| 1SPC", 1)[1].split("|")[1])
    assert 0.5 < least <= 1
    assert "try-similarity.png" in text


def test_skewness_of_a_mean_is_that_of_all_samples():
    values = np.array([0.0, 1.0, 1.5, 2.0, 9.0, -1.0, 3.0])
    means = [np.mean(sample) for sample in combinations(values, 3)]
    assert loss_changes.skewness_of_mean(values, 3) == pytest.approx(stats.skew(means))


def test_single_changes_are_those_of_one_client_alone():
    config = plan(STUDY).runs[0]
    *_, (t, world, params) = loss_changes.play_trajectory(config, 1)
    everybody = np.arange(10)
    deltas = loss_changes.updates_of_all(world, params, t)
    changes = loss_changes.single_changes(world, params, t, deltas=deltas, size=4)
    after = params + world.train(params, everybody, (), t).deltas[7] / 4
    measured = [world.measure(p, loss_changes.Measure(loss_changes.LOSS, everybody), t).values for p in (params, after)]
    np.testing.assert_allclose(changes[7], measured[1] - measured[0], atol=1e-5)


def test_skewness_of_single_clients_stands_beside_that_of_cohorts(preset, tmp_path):
    context = Undrawn("try", tmp_path, None, None, None)
    options = {"of": "any", "setting": ["1SPC"], "method": "uniform", "round": 1, "cohorts": 30, "shown": 2}
    beside = loss_changes.normality(context, **options, single_clients=True)
    alone = loss_changes.skewness_by_client(context, **options, left_out=2)
    figures = [
        [line.strip("|").split("|") for line in text.splitlines() if "| 1SPC" in line] for text in (beside, alone)
    ]
    for one, other in zip(*figures, strict=True):
        # signs of components are arbitrary, and so is that of the skewness: together they agree
        product = float(one[3]) * float(one[6])
        assert product == pytest.approx(float(other[3]) * float(other[4]), abs=0.03)
        assert abs(float(one[6])) == pytest.approx(abs(float(other[4])), abs=0.006)


def test_causes_are_tabulated(preset, tmp_path):
    context = Undrawn("try", tmp_path, None, None, None)
    text = loss_changes.skewness_by_client(
        context, of="any", setting=["1SPC"], method="uniform", round=1, cohorts=30, shown=2, left_out=2
    )
    assert text.count("| 1SPC") == 2
    text = loss_changes.drift(
        context, of="any", setting=["1SPC"], method="uniform", moments=[0, 1], interval=2, cohorts=20
    )
    first, second = (line.strip("|").split("|") for line in text.splitlines() if line.startswith("| 1SPC"))
    assert float(first[-1]) == 1  # with itself
    assert 0 < float(second[-1]) <= 1
    assert float(first[2]) == float(second[-1])  # rounds 0 and 1: one apart, and the second with the first
