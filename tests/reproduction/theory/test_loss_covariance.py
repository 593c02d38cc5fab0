import numpy as np
import pytest
from scipy.stats import spearmanr

from sortition.reproduction.theory.loss_covariance import Quadratics, agreement, check_posterior, preference


def test_gradients_are_those_of_the_losses():
    world = Quadratics(clients=3, dimensions=2)
    step = 1e-6 * np.array([1.0, 0.0])
    change = world.losses(step) - world.losses(np.zeros(2))
    assert change / 1e-6 == pytest.approx(world.gradients[:, 0], rel=1e-4)


def test_both_rankings_meet_for_small_steps_and_many_samples():
    world = Quadratics()
    truth = agreement(world.gradients, world.weights)
    ranks = []
    for rate, samples in ((0.5, 10), (0.01, 2000)):
        covariance = np.cov(world.sampled_changes(samples, 4, rate), rowvar=False)
        ranks.append(spearmanr(preference(covariance, world.weights), truth).statistic)
    assert ranks[1] > 0.99 > ranks[0]


def test_the_posterior_mean_ranks_cohorts_as_their_loss_changes():
    """Lemma 1: eq. 7's cohort is the best, or nearly so; noise that drowns the covariance spoils the ranking."""
    found = check_posterior(Quadratics(clients=8), 3, 0.01)
    assert found.rank > 0.98
    assert found.best <= found.chosen < found.average
    assert found.gained > 0.9
    assert check_posterior(Quadratics(clients=8), 3, 0.01, noise=1e9).rank < 0.97
