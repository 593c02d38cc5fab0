"""Examples that the server gets in place of clients, and facts that devices give."""

import numpy as np
from tests.studies.tables import small

from sortition.studies import build_federation
from sortition.studies.plan import plan


def run_of(method="uniform", **changes):
    table = small(**changes)
    return plan({**table, "method": [{"name": method}]}).runs[0]


def test_a_share_of_every_client_goes_to_the_server_and_to_nobody_else():
    table = small()
    before = build_federation.split_data(run_of().data, 0)
    after = build_federation.split_data(run_of(data={**table["data"], "validation": 0.2}).data, 0)
    assert before.validation is None
    for own, less in zip(before.train.indices, after.train.indices, strict=True):
        assert set(less) < set(own)
        assert len(own) - len(less) == max(1, len(own) // 5)
    left = np.concatenate(after.train.indices)
    assert not np.isin(after.validation, left).any()
    np.testing.assert_array_equal(
        np.sort(np.concatenate([left, after.validation])), np.sort(np.concatenate(before.train.indices))
    )


def test_without_the_key_only_a_method_that_asks_the_server_holds_examples_out():
    _, uniform = build_federation.setup(run_of())
    _, greedy = build_federation.setup(run_of("greedyfed"))
    assert uniform.world.validation is None
    assert (
        uniform.world.training_parts.sizes.sum()
        == greedy.world.training_parts.sizes.sum() + greedy.world.validation.size
    )
    assert "validation" not in run_of("greedyfed").table()["data"]  # folders stay as they are


def test_devices_of_unequal_speed_give_the_fact_speed():
    spread, _ = build_federation.setup(run_of("oort", devices={"speed_spread": 0.5}))
    alike, _ = build_federation.setup(run_of("oort"))
    np.testing.assert_array_equal(spread.population.speed, spread.world.fleet.speed)
    assert "speed" not in alike.population.facts
