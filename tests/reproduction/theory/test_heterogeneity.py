from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sortition.core import GRADIENT, Measure
from sortition.reproduction import preset
from sortition.reproduction.figures import heterogeneity
from sortition.reproduction.run_preset import Cuts, reproduce_preset
from sortition.reproduction.theory.heterogeneity import (
    clustered_share,
    convergence_term,
    estimated_entropy,
    fit_envelope,
    label_entropy,
    measure_heterogeneity,
    selected_entropy,
)
from sortition.results.run_folder import Run
from sortition.simulation import start
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan

STUDY = {
    "cohort": 4,
    "data": {"name": "digits", "clients": 20, "partition": {"name": "dirichlet-blocks", "alphas": [0.01, 0.3, 10.0]}},
    "model": {"name": "softmax"},
    "local": {"epochs": 2, "batch": 16, "lr": 0.05},
}


def test_label_entropy_by_hand():
    got = label_entropy(np.array([[4, 4, 0], [9, 0, 0], [2, 1, 1], [0, 0, 0]]))
    np.testing.assert_allclose(got, [math.log(2), 0, 1.5 * math.log(2), 0], atol=1e-12)


def test_an_envelope_finds_the_bound_that_made_the_points():
    gap = np.linspace(-2.3, 0, 30)
    exact = 5.0 - 4.0 * np.exp(1.3 * gap)
    found = fit_envelope(gap, exact)
    assert found.beta == pytest.approx(1.3, rel=0.1)  # of the grid
    assert (found.at(gap) >= exact - 1e-7).all()
    assert found.kappa >= found.rho >= 0
    assert found.tighter > 0.97


def test_an_envelope_of_what_does_not_fall_with_entropy_is_constant():
    gap = np.linspace(-2.3, 0, 30)
    found = fit_envelope(gap, gap + 3.0)  # balanced clients are farther off: the assumption gains nothing
    assert found.kappa == pytest.approx(3.0)
    assert found.rho == pytest.approx(0.0, abs=1e-9)
    assert found.tighter == pytest.approx(0.0, abs=1e-9)


def test_the_estimate_follows_the_labels_of_a_simulated_federation():
    _, ready = setup(plan({**STUDY, "rounds": 1, "seeds": 1, "method": [{"name": "uniform"}]}, (), subject="t").runs[0])
    params = start(ready).params
    got = measure_heterogeneity(ready.world, params, 0, 0.05)
    assert np.corrcoef(np.argsort(np.argsort(got.truth)), np.argsort(np.argsort(got.bias)))[0, 1] > 0.9
    gradients = ready.world.measure(params, Measure(GRADIENT, np.arange(20)), 0).values
    mean = np.average(gradients, axis=0, weights=ready.world.training_parts.sizes)
    np.testing.assert_allclose(got.dissimilarity, ((gradients - mean) ** 2).sum(axis=1), rtol=1e-5)


def test_the_preset_makes_a_page(tmp_path):
    made = preset.load_preset("hics-entropy")
    small = made.figures[0].model_copy(update={"study": STUDY, "moments": [0, 2], "temperature": 0.05})
    result = reproduce_preset(preset.Preset("hics-entropy", made.paper, (), (small,), None), tmp_path, Cuts())
    assert (tmp_path / "hics-entropy-estimate.png").stat().st_size > 1000
    assert (tmp_path / "hics-entropy-dissimilarity.png").exists()
    assert "Estimated and true label entropy" in result.page.markdown()
    assert result.page.markdown().count("| 2 ") == 2  # the second moment, in both tables


def test_ranks_of_what_does_not_vary():
    assert heterogeneity.rank_correlation(np.ones(4), np.arange(4.0)) == 0


def test_the_entropy_of_those_who_train(tmp_path):
    """Client 0 has one label, client 1 both: entropies 0 and ln 2, gaps −ln 2 and 0; one round of each."""
    (tmp_path / "config.toml").write_text('setting = "main"\nseed = 0\n')
    np.savez(tmp_path / "federation.npz", sizes=np.array([9, 8]), label_counts=np.array([[9, 0], [4, 4]]))
    noted = [{}, {"entropy": 1.5}]
    lines = [
        json.dumps({"round": t, "cohort": [t], "weights": [1.0], "answered": None, "notes": noted[t]}) for t in range(2)
    ]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    assert selected_entropy(Run(tmp_path)) == pytest.approx(math.log(2) / 2)
    assert estimated_entropy(Run(tmp_path)) == 1.5
    assert convergence_term(Run(tmp_path)) == pytest.approx((0.5 + 1) / 2)
    assert convergence_term(Run(tmp_path), beta=2.0) == pytest.approx((0.25 + 1) / 2)


def test_the_share_of_rounds_with_the_clustered_branch(tmp_path):
    """A round of the warm-up, one drawn by groups, two by clusters: two of three."""
    (tmp_path / "config.toml").write_text('setting = "main"\nseed = 0\n')
    noted = [{"forced": 2}, {"gamma": 3.0}, {"stage": "clustered"}, {"stage": "clustered"}]
    lines = [json.dumps({"round": t, "cohort": [0], "weights": [1.0], "notes": note}) for t, note in enumerate(noted)]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    assert clustered_share(Run(tmp_path)) == pytest.approx(2 / 3)
    (tmp_path / "rounds.jsonl").write_text(lines[0] + "\n")
    assert clustered_share(Run(tmp_path)) is None
