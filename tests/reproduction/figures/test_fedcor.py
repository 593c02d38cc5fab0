from __future__ import annotations

import numpy as np
import pytest
from tests.studies import folders

from sortition.core import stream
from sortition.reproduction.context import Context
from sortition.reproduction.figures import fedcor, fedcor_toy
from sortition.results.run_folder import find
from sortition.studies.plan import plan
from sortition.studies.runs import runner

STUDY = {
    "rounds": 12,
    "cohort": 5,
    "seeds": [0],
    "data": {"name": "digits", "clients": 20, "partition": {"name": "shards", "per_client": 1}},
    "model": {"name": "softmax"},
    "local": {"epochs": 1, "batch": 16, "lr": 0.05},
    "method": [{"name": "uniform"}, {"name": "fedcor", "warmup": 8, "dimension": 6, "sigma": 0.02}],
    "setting": [{"name": "1SPC"}],
}


class Undrawn(Context):
    """Checks a chart without rendering it."""

    def save(self, name, chart):
        assert chart.to_dict()["$schema"]
        return f"{self.name}-{name}.png"


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    out = tmp_path_factory.mktemp("fedcor")
    runner.execute(plan(STUDY), out / "runs", jobs=1)
    return Undrawn("try", out, out / "runs", None, None)


def test_labels_met(context):
    run = next(run for run in find(context.runs) if run.method == "fedcor")
    counts = run.federation()["label_counts"]
    cohorts = [record["cohort"] for record in run.records[2:4]]
    expected = np.mean([len({y for k in ids for y in np.flatnonzero(counts[k])}) for ids in cohorts])
    assert fedcor.labels_met(run, **{"from": 3, "to": 4}) == pytest.approx(expected)
    assert fedcor.labels_met(run, **{"from": 99}) is None


def test_lead_and_swing(tmp_path):
    ours = folders.make(tmp_path, [0.1, 0.5, 0.7, 0.5], method="ours")
    theirs = folders.make(tmp_path, [0.9, 0.4, 0.4, 0.4], method="theirs")
    assert fedcor.lead(ours, reference=theirs, **{"from": 2}) == pytest.approx((0.5 + 0.7 + 0.5) / 3 - 0.4)
    assert fedcor.swing(ours, **{"from": 2}) == pytest.approx(0.2)  # changes +0.2 and −0.2
    assert fedcor.swing(theirs, **{"from": 2}) == pytest.approx(0)
    assert fedcor.swing(ours, **{"from": 4}) is None


def test_the_embedding_is_that_after_warm_up(context):
    run = next(run for run in find(context.runs) if run.method == "fedcor")
    ids, x = fedcor.first_embedding(run)
    assert ids.tolist() == list(range(20))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(x * np.linalg.norm(run.records[8]["notes"]["embedding"]["x"], axis=1)[:, None],
                               run.records[8]["notes"]["embedding"]["x"], atol=1e-9)  # fmt: skip
    assert "try-embedding.png" in fedcor.embedding(context, setting="1SPC", method="fedcor")
    assert fedcor.embedding(context, setting="1SPC", method="uniform") == ""


def test_correlations_of_one_label_and_of_two():
    x = np.array([[1.0, 0], [1.0, 0], [0, 1.0], [0, -1.0]])
    # one label: the pairs (0, 1) and (2, 3), r = 1 and −1; two labels: all orthogonal
    assert fedcor.mean_correlations(x, np.array([0, 0, 1, 1])) == pytest.approx((0, 0))
    assert fedcor.mean_correlations(x, np.array([0, 0, 1, 2]))[0] == pytest.approx(1)


def test_frequencies_are_drawn_where_there_are_runs(context):
    text = fedcor.frequency(context, setting=["1SPC", "none such"], methods=["uniform", "fedcor"])
    assert "try-frequency.png" in text
    assert fedcor.frequency(context, setting=["none such"], methods=["uniform"]) == ""


def test_in_the_toy_correlations_beat_losses(tmp_path):
    toy = fedcor_toy.Toy(0)
    chosen = toy.choices(15, stream(0, "toy samples"))
    loss = dict(zip(toy.pairs, toy.losses.mean(axis=1), strict=True))
    assert loss[chosen["Opt"]] == min(loss.values())
    assert loss[chosen["Cor"]] < loss[chosen["Ind"]]
    assert toy.y[list(chosen["Cor"])].sum() == 0  # one of each class
    text = fedcor_toy.make(Undrawn("toy", tmp_path, None, 2, None))
    assert "over 2 worlds" in text
    assert "toy-choices.png" in text
