import re

from sortition.reproduction.context import Context
from sortition.reproduction.figures import theory


def test_claims_stand_beside_what_is_measured(tmp_path):
    context = Context("theory", tmp_path, None, 1, None)
    cone = theory.distance_and_cone(context, labels=[2], cohorts=20, mixtures=500)
    found = re.search(r"\| 2 +\| ([\d.]+)", cone)
    assert float(found[1]) > 0.95  # two labels: the cone is the angle between both, and so is the distance
    assert "0.00" in theory.weights_of_uniform(context, clients=5, budgets=[1])
    assert theory.covariance_and_gradients(context, rates=[0.01], samples=[20]).count("| 0.01") == 1
    assert "exponent" in theory.queues_and_gap(context, horizons=[5, 10])
