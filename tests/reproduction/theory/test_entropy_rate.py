import numpy as np
import pytest

from sortition.reproduction.theory.entropy_rate import LabelQuadratics, descend


def test_balanced_clients_are_nearer_to_the_federation():
    world = LabelQuadratics([0.001, 100.0], np.ones(4), clients=20)
    assert world.shares.sum(axis=1) == pytest.approx(np.ones(20))
    assert world.entropy[:10].max() < world.entropy[10:].min() <= np.log(4)
    assert world.dissimilarity()[:10].min() > world.dissimilarity()[10:].max()


def test_chances_follow_entropy():
    world = LabelQuadratics([0.01, 1.0], np.ones(3), clients=6)
    assert world.chances(0.0) == pytest.approx(np.full(6, 1 / 6))
    chances = world.chances(2.0)
    assert chances[1] / chances[5] == pytest.approx(np.exp(2.0 * (world.entropy[1] - world.entropy[5])))


def test_a_descent_of_clients_that_are_alike_ends_at_the_optimum():
    world = LabelQuadratics([1e6], np.ones(3), clients=8)
    found = descend(world, 0.0, rounds=200, cohort=4, noise=0.0)
    assert found.bias < 1e-3
    assert found.scatter < 1e-3
    assert found.term == pytest.approx(1.0, abs=1e-3)  # everybody is balanced


def test_preferring_balanced_clients_trades_scatter_for_bias():
    world = LabelQuadratics([0.001, 0.1, 1.0], np.ones(10), clients=30)
    plain, guided = (descend(world, gamma, rounds=300, cohort=5) for gamma in (0.0, 4.0))
    assert guided.term > plain.term
    assert guided.scatter < plain.scatter
    assert guided.bias > plain.bias
