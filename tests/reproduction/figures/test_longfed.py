from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from sortition.reproduction.context import Context
from sortition.reproduction.figures import circles, curves, longfed
from sortition.results.run_folder import find
from sortition.studies.plan import plan
from sortition.studies.runs import runner

STUDY = {
    "rounds": 8,
    "cohort": 10,
    "seeds": [0],
    "data": {"name": "digits", "clients": 20, "partition": {"name": "shards", "per_client": 1}},
    "model": {"name": "softmax"},
    "local": {"epochs": 1, "batch": 16, "lr": 0.05},
    "method": [
        {"name": "uniform"},
        {"name": "longfed", "label": "zero", "trade_off": 0.0},
        {"name": "longfed"},
    ],
    "setting": [{"name": "1SPC"}],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert not runner.execute(plan(STUDY), folder, jobs=1).failed
    return folder


def test_metrics_of_a_run(runs):
    found = {run.method: run for run in find(runs)}
    assert longfed.distinct_cohorts(found["zero"]) < 0.3  # λ = 0 repeats itself
    assert longfed.distinct_cohorts(found["longfed"]) == 1.0
    assert longfed.clients_met(found["zero"]) < longfed.clients_met(found["longfed"]) == 20
    assert longfed.clients_met(found["zero"], **{"from": 100}) is None
    assert longfed.labels_covered(found["longfed"]) == 1.0  # one client a label
    assert longfed.labels_covered(found["uniform"]) < 1.0
    assert longfed.sigma(found["zero"], quantile=0.05) > longfed.sigma(found["longfed"], quantile=0.05)
    # λ = 0 takes one of each label's two clients in all of the 7 rounds: similar pairs differ by 1 > δ
    assert longfed.violated(found["zero"], quantile=0.05, delta=0.9) > 0.5
    assert longfed.violated(found["longfed"], quantile=0.05, delta=0.9) == 0
    assert longfed.violated(found["longfed"], quantile=0.05, delta=0.0) > 0
    assert longfed.sigma(found["zero"], **{"from": 100}) is None
    assert longfed.round_ms(found["longfed"]) > longfed.choice_ms(found["longfed"]) > 0


def test_first_gradients_are_those_that_longfed_saw(runs):
    run = next(run for run in find(runs) if run.method == "longfed")
    rows = longfed.first_gradients(run)
    assert rows.shape == (20, 64 * 10 + 10)
    with np.load(run.path / "checkpoint.npz") as file:
        seen = next(file[name] for name in file.files if name.endswith("distance"))
    label = run.federation()["label_counts"].argmax(axis=1)
    apart = label[:, None] == label  # one client a label: these never trained together again
    assert np.linalg.norm(rows[:, None] - rows, axis=2)[apart] == pytest.approx(seen[apart], abs=1e-4)


@dataclass
class Drawn(Context):
    """Keeps the charts instead of drawing them."""

    charts: dict = field(default_factory=dict)

    def save(self, name, chart):
        chart = chart.to_dict()
        data = chart.pop("data", None)
        self.charts[name] = {"datasets": {"own": data["values"]} if data and "values" in data else {}, **chart}
        return name

    def rows(self, name):
        """Every row of data in a chart, wherever altair put it."""
        return [row for rows in self.charts[name]["datasets"].values() for row in rows]


def test_pictures(runs, tmp_path):
    context = Drawn("longfed", tmp_path, runs, None, None)
    assert circles.make(context, settings=["1SPC"], methods=["uniform", "longfed"], at=3, rounds=2) == "circles"
    panels = context.charts["circles"]["vconcat"][0]["concat"]
    assert [panel["title"]["text"] for panel in panels] == ["uniform", "longfed", "longfed, 2 rounds"]
    rings = {row["who"] for row in context.rows("circles") if row.get("round") == 2}
    assert len(rings) == 10  # the second round of the last panel
    assert curves.make(context, smooth=2) == "accuracy"
    assert {row["round"] for row in context.rows("accuracy")} == set(range(2, 9))
    nothing = Context("longfed", tmp_path, None, None, None)
    assert circles.make(nothing, settings=["1SPC"], methods=["longfed"]) == "" == curves.make(nothing)
