"""Rules of sortition.aggregation between a selector's choice and the strategy's own step."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
)
from tests.flower.loopback import Loopback, node, told

from sortition.aggregation import CombineRule
from sortition.core import Cohort, Guards, InputError, Selector, StorageError, method
from sortition.core.storage import snapshot
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.zeros(2, np.float32), "seen": np.array(10)}
GOALS = {k: np.array([k**3, 2.0 * k**2], np.float32) for k in range(5)}


def drifting(k, factor=0.5):
    """A client whose update leads from the received model half of the way to its goal."""
    inner = node(f"c{k}")

    def answered(message):
        if message.metadata.message_type != "train":
            return inner(message)
        before = codec.to_arrays(message.content["arrays"])
        after = {"w": before["w"] + np.float32(factor) * (GOALS[k] - before["w"]), "seen": before["seen"] + 2}
        metrics = MetricRecord({"num-examples": 7})
        return RecordDict({"arrays": codec.to_record(after), "metrics": metrics})

    return answered


def federation():
    return Loopback({k: drifting(k) for k in range(5)})


def played(combine, rounds=4, strategy=None, grid=None, selector=None, config=None, **options):
    made = SelectorStrategy(
        selector or load("uniform", weights="uniform"),
        cohort=3,
        seed=2,
        strategy=strategy or FedAvg(**QUIET),
        combine=combine,
        **options,
    )
    result = made.start(grid or federation(), codec.to_record(MODEL), rounds, 0.5, ConfigRecord(config or {}))
    return made, codec.to_arrays(result.arrays)


def by_hand(rule, history, rates=None):
    """The same rounds with the rule itself and a plain step."""
    w, memory = np.zeros(2, np.float32), rule.init(2, 5)
    for t, record in enumerate(history):
        ids = np.array(record["cohort"])
        updates = np.stack([np.float32(0.5) * (GOALS[k] - w) for k in ids])
        rate = rates[t] if rates else 1.0
        update, memory = rule.apply(ids, np.array(record["weights"]), updates, memory, clients=5, rate=rate)
        w = w + update
    return w


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "geometric-median", "norm-bound", "fedvarp", "mifa"])
def test_the_model_is_the_rules(name):
    made, model = played(name)
    np.testing.assert_allclose(model["w"], by_hand(CombineRule(name), made.history), rtol=1e-5)
    assert (model["seen"].dtype.kind, int(model["seen"])) == ("i", 18)  # whole numbers are averaged, and stay whole
    _, mean = played("mean")
    assert not np.allclose(model["w"], mean["w"])


def test_the_strategy_makes_its_own_step_from_the_combined_update():
    made, model = played("fedvarp", strategy=FedAvgM(**QUIET, server_learning_rate=0.5, server_momentum=0.0), rounds=1)
    np.testing.assert_allclose(model["w"], 0.5 * by_hand(CombineRule("fedvarp"), made.history), rtol=1e-5)


def test_a_rule_with_parameters_of_ones_own():
    rule = CombineRule("trimmed-mean", trim=0.4)
    made, model = played(rule)
    np.testing.assert_allclose(model["w"], by_hand(rule, made.history), rtol=1e-5)


class Decaying(FedAvg):
    """Lowers the learning rate from round to round."""

    def configure_train(self, server_round, arrays, config, grid):
        return super().configure_train(server_round, arrays, ConfigRecord({**config, "lr": 1.0 / server_round}), grid)


def test_remembered_updates_are_divided_by_the_learning_rate_of_their_round():
    made, model = played("fedvarp", strategy=Decaying(**QUIET))
    expected = by_hand(CombineRule("fedvarp"), made.history, [1.0, 1 / 2, 1 / 3, 1 / 4])
    np.testing.assert_allclose(model["w"], expected, rtol=1e-5)
    made, model = played(CombineRule("fedvarp", remember="raw"), strategy=Decaying(**QUIET))
    np.testing.assert_allclose(model["w"], by_hand(CombineRule("fedvarp"), made.history), rtol=1e-5)


def test_silent_clients_keep_what_is_remembered_of_them():
    grid = federation()
    grid.nodes[4] = node("c4", trains=False)
    made, _ = played("fedvarp", rounds=6, grid=grid)
    assert 4 not in made.combining.memory.rows
    assert set(made.combining.memory.rows) == {k for record in made.history for k in record["answered"]}


@pytest.mark.parametrize("name", ["fedvarp", "mifa"])
def test_the_memory_is_in_the_checkpoint(name, tmp_path):
    whole, model = played(name, 5, checkpoint=tmp_path / "whole.npz")
    path = tmp_path / "c.npz"
    played(name, 2, checkpoint=path, horizon=5)
    again, resumed = played(name, 5, checkpoint=path, resume=True)
    assert told(again.history) == told(whole.history)
    np.testing.assert_array_equal(resumed["w"], model["w"])
    with pytest.raises(StorageError, match=r"combine.name was '\w+', is 'median'"):
        played("median", 6, checkpoint=path, resume=True)
    for edit in (lambda a: a.pop("engine.combine.rows"), lambda a: a.update({"engine.combine.total": np.zeros(9)})):
        arrays, header = snapshot.load(path)
        edit(arrays)
        snapshot.save(tmp_path / "bad.npz", arrays, header)
        (tmp_path / "bad.npz.history.jsonl").write_bytes((tmp_path / "c.npz.history.jsonl").read_bytes())
        with pytest.raises(StorageError, match="is not a checkpoint of this federation"):
            played(name, 6, resume=tmp_path / "bad.npz")


@method
class Expected(Selector):
    """Weights that sum to 1 only in expectation."""

    def select(self, state, round):
        return Cohort([4, 0, 2], [0.5, 0.25, 0.75], mass="expected")


def test_what_cannot_work_is_refused_before_anybody_trains():
    noisy = DifferentialPrivacyServerSideFixedClipping(FedAvg(**QUIET), 0.1, 1.0, 3)
    for strategy in (FedMedian(**QUIET), noisy):
        with pytest.raises(InputError, match=r"combine = 'fedvarp' makes one update of all, and .* a rule of its own"):
            played("fedvarp", strategy=strategy)
    with pytest.raises(InputError, match=r"Unknown combine rule 'fedvar'; .*fedvarp"):
        played("fedvar")
    with pytest.raises(InputError, match=r"SelectorStrategy.combine must be a rule's name or a CombineRule; got 3"):
        played(3)
    grid = federation()
    with pytest.raises(InputError, match=r"CombineRule.memory_limit must be at least .* for 5 updates of 2 numbers"):
        played(CombineRule("mifa", memory_limit=1e-9), grid=grid)
    with pytest.raises(InputError, match="combine = 'median' must be given weights that sum to 1"):
        played("median", selector=Expected(), grid=grid)
    assert grid.count("train") == 0
    played("norm-bound", selector=Expected(), grid=grid)  # keeps the mass
    played("fedvarp", selector=Expected(), strategy=FedAdam(**QUIET))


GUARDS = Guards(remember=20, clip=1.0)


@pytest.mark.parametrize("combine", ["mean", "norm-bound"])
def test_updates_are_shortened_before_the_strategy_sees_them(combine):
    made, model = played(combine, rounds=1, guards=GUARDS, strategy=FedAvg(**QUIET))
    updates = [0.5 * GOALS[k] for k in made.history[0]["cohort"]]
    shortest = min(np.linalg.norm(update) for update in updates)
    shortened = [update * min(1, shortest / max(np.linalg.norm(update), 1e-9)) for update in updates]
    np.testing.assert_allclose(model["w"], np.mean(shortened, axis=0), rtol=1e-5)
    assert made.history[0]["notes"]["guards"]["shortened"] == 2
    assert model["seen"] == 12


def test_what_aggregates_by_a_rule_of_its_own_cannot_be_clipped():
    with pytest.raises(InputError, match=r"Guards\.clip must be 0 with FedMedian"):
        played("mean", strategy=FedMedian(**QUIET), guards=GUARDS)
