"""Losses and gradients of a stack's batches, held against torch's own cross-entropy."""

import numpy as np
import pytest
import torch

from sortition.learning.stacked import BatchLosses

STEPS, CLIENTS, ROWS, CLASSES = 3, 4, 6, 5
ACTIVE = (4, 4, 2)  # the last two clients take two steps only


@pytest.fixture
def drawn():
    rng = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(STEPS, CLIENTS, CLASSES, ROWS, generator=rng)
    labels = torch.randint(0, CLASSES, (STEPS, CLIENTS, ROWS), generator=rng)
    weights = torch.full((STEPS, CLIENTS, ROWS), 1 / 4)
    weights[..., 4:] = 0  # rows beyond the batch
    return logits, labels, weights


def taken(losses, logits):
    return [losses.gradient(s, logits[s, :k].clone()) for s, k in enumerate(ACTIVE)]


def test_gradients_are_those_of_autograd(drawn):
    logits, labels, weights = drawn
    gradients = taken(BatchLosses(labels, weights), logits)
    for s, k in enumerate(ACTIVE):
        active_logits = logits[s, :k].clone().requires_grad_()
        each = torch.nn.functional.cross_entropy(active_logits, labels[s, :k], reduction="none")
        (each * weights[s, :k]).sum().backward()
        torch.testing.assert_close(gradients[s], active_logits.grad, atol=1e-7, rtol=1e-5)


def test_sums_and_squares_count_only_the_steps_that_a_client_takes(drawn):
    logits, labels, weights = drawn
    losses = BatchLosses(labels, weights)
    taken(losses, logits)
    flat = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(0, 1), reduction="none")
    each = flat.view(STEPS, CLIENTS, ROWS)
    for s, k in enumerate(ACTIVE):
        each[s, k:] = 0
    torch.testing.assert_close(losses.sums_over_steps(), (each * weights).sum((0, 2)))
    torch.testing.assert_close(losses.mean_squares(), (each.square() * weights).sum(2).t())


def test_a_loss_stays_finite_where_its_probability_underflows():
    labels, weights = torch.zeros(1, 1, 1, dtype=torch.int64), torch.ones(1, 1, 1)
    losses = BatchLosses(labels, weights)
    gradient = losses.gradient(0, torch.tensor([[[-500.0], [500.0]]]))
    assert losses.sums_over_steps().tolist() == [1000.0]
    np.testing.assert_array_equal(gradient.flatten().numpy(), [-1.0, 1.0])
