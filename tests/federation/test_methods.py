"""Every method of the catalogue on a mailbox of devices chooses what it chooses in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.federation.as_simulated import initial_model, simulated_devices
from tests.federation.fleet import over_the_wire, serving
from tests.flower import federation as task

from sortition.clients.named_arrays import as_vector
from sortition.core.errors import InputError
from sortition.federation import Federation, Mailbox
from sortition.selectors import discover, load

METHODS = task.methods()


def federation_of(selector, mailbox, **options):
    return Federation(
        mailbox,
        initial_model(),
        selector,
        cohort=task.COHORT,
        seed=task.SEED,
        wait_for=len(simulated_devices()),
        **options,
    )


@pytest.mark.parametrize("label", METHODS)
def test_the_same_answers_lead_to_the_same_cohorts(label):
    cohorts, params = task.simulated(METHODS[label])
    mailbox = Mailbox()
    federation = federation_of(METHODS[label], mailbox)
    with serving(mailbox, {name: over_the_wire(device) for name, device in simulated_devices().items()}):
        model = federation.run(task.ROUNDS)
    assert [record["cohort"] for record in federation.history] == cohorts
    np.testing.assert_allclose(as_vector(model), params, atol=1e-6)


def test_methods_that_are_left_out_are_refused_with_the_reason():
    refused = set(discover()) - set(METHODS)
    assert refused == {"greedyfed"}
    with pytest.raises(InputError, match=r"GreedyFed needs 'shapley', which the server .* Federation has none"):
        federation_of(load("greedyfed"), Mailbox())
