"""The user's strategy does everything but choose: its messages, its aggregate, its metrics, its memory."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedProx
from tests.flower.loopback import Loopback

from sortition.aggregation import StepRule
from sortition.core.errors import InputError
from sortition.flower import codec
from sortition.flower.aggregation import export_memory, restore_memory
from sortition.flower.base_strategy import BaseStrategy

START = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "seen": np.array(4)}
N = "num-examples"


def deltas(rounds=4):
    rng = np.random.default_rng(0)
    return [rng.normal(size=6).astype(np.float32) for _ in range(rounds)]


def reply(model, **metrics):
    records = {"arrays": codec.to_record(model), "metrics": MetricRecord(metrics)}
    return Message(RecordDict(records), 1, MessageType.TRAIN)


def stepped(base, model=START, updates=None, first=0):
    for t, delta in enumerate(updates if updates is not None else deltas(), first):
        base.configure(t + 1, codec.to_record(model), ConfigRecord(), None, [7, 8])
        near, far = ({"w": model["w"] + share * delta.reshape(2, 3), "seen": model["seen"]} for share in (0.5, 2.0))
        arrays, _ = base.aggregate(t + 1, {0: reply(near), 1: reply(far)}, {0: 2 / 3, 1: 1 / 3})  # together, delta
        model = {name: value.astype(model[name].dtype) for name, value in codec.to_arrays(arrays).items()}
    return model


RULES = [
    (lambda: FedAvg(), StepRule()),
    (
        lambda: FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
        StepRule("momentum", lr=0.5, momentum=0.9),
    ),
    (
        lambda: FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99, tau=1e-3),
        StepRule("adam", lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-3),
    ),
]


@pytest.mark.parametrize(("make", "rule"), RULES, ids=["FedAvg", "FedAvgM", "FedAdam"])
def test_the_strategys_aggregate_by_our_weights_is_our_own_rules(make, rule):
    params, state = START["w"].reshape(-1), rule.init(6)
    for t, delta in enumerate(deltas(), 1):
        rate = rule.lr
        if rule.name == "adam":  # Flower corrects the bias, with the round + 1 as Adam's t
            rate *= np.sqrt(1 - rule.beta2 ** (t + 1)) / (1 - rule.beta1 ** (t + 1))
        params, state = replace(rule, lr=rate).apply(params, delta, state)
    model = stepped(BaseStrategy(make()))
    np.testing.assert_allclose(model["w"].reshape(-1), params, rtol=1e-4)
    assert model["seen"] == 4


@pytest.mark.parametrize("make", [make for make, _ in RULES], ids=["FedAvg", "FedAvgM", "FedAdam"])
def test_memory_survives_a_restart(make):
    whole = stepped(BaseStrategy(make()))
    before = BaseStrategy(make())
    half = stepped(before, updates=deltas()[:2])
    after = BaseStrategy(make())
    restore_memory(after.strategy, *export_memory(before.strategy))
    resumed = stepped(after, half, deltas()[2:], first=2)
    np.testing.assert_array_equal(resumed["w"], whole["w"])


def test_arrays_that_a_strategy_of_ones_own_keeps_survive_a_restart():
    class Remembering(FedAvg):
        label = "mine"

        def __init__(self):
            super().__init__()
            self.momentum, self.per_layer, self.last = np.zeros(3), {"w": np.zeros(2)}, None

    before, after = Remembering(), Remembering()
    before.momentum, before.per_layer, before.last = np.arange(3.0), {"w": np.ones(2)}, codec.to_record(START)
    restore_memory(after, *export_memory(before))
    assert (after.momentum.tolist(), after.per_layer["w"].tolist()) == ([0, 1, 2], [1, 1])
    assert codec.to_arrays(after.last)["seen"] == 4


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_the_strategy_writes_to_exactly_the_chosen_whatever_it_would_sample(share):
    strategy = FedProx(proximal_mu=0.3, fraction_train=share, min_available_nodes=50)
    base = BaseStrategy(strategy)
    made = base.configure(7, codec.to_record(START), ConfigRecord({"lr": 0.1}), None, [5, 3, 9])
    assert list(made) == [5, 3, 9]
    content = made[3].content
    assert dict(content["config"]) == {"lr": 0.1, "proximal-mu": 0.3, "server-round": 7}
    assert list(content["arrays"]) == ["w", "seen"]
    assert (strategy.fraction_train, strategy.min_available_nodes) == (share, 50)


def test_configs_per_node_stay_apart():
    class PerNode(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            for node in grid.get_node_ids():
                own = ConfigRecord({**config, "lr": node / 10})
                yield Message(RecordDict({"arrays": arrays, "config": own}), node, MessageType.TRAIN)

    made = BaseStrategy(PerNode()).configure(1, codec.to_record(START), ConfigRecord(), None, [2, 4])
    assert [made[node].content["config"]["lr"] for node in (2, 4)] == [0.2, 0.4]


def test_a_strategy_that_chooses_for_itself_is_refused():
    class Fastest(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return list(super().configure_train(server_round, arrays, config, grid))[:1]

    with pytest.raises(InputError, match=r"Fastest.configure_train must write once .* wrote 1 messages to 1"):
        BaseStrategy(Fastest()).configure(1, codec.to_record(START), ConfigRecord(), None, [1, 2, 3])

    class Repeated(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return 2 * list(super().configure_train(server_round, arrays, config, grid))

    with pytest.raises(InputError, match="it wrote 4 messages to 2"):
        BaseStrategy(Repeated()).configure(1, codec.to_record(START), ConfigRecord(), None, [1, 2])
    with pytest.raises(InputError, match=r"strategy must be a flwr.serverapp.strategy.Strategy; got 'fedavg'"):
        BaseStrategy("fedavg")


def averaged(strategy, *replies, weights=None):
    weights = weights or [1 / len(replies)] * len(replies)
    messages = {row: reply(START, **metrics) for row, metrics in enumerate(replies)}
    return dict(BaseStrategy(strategy).aggregate(1, messages, dict(enumerate(weights)))[1])


def test_metrics_are_averaged_by_the_cohorts_weights_whatever_clients_say_of_their_examples():
    told = averaged(FedAvg(), {"loss": 1.0, N: 1}, {"loss": 4.0, N: 2})
    assert told == {"loss": pytest.approx(2.5)}  # as the model is
    told = averaged(FedAvg(), {"loss": 1.0}, {"loss": 4.0, "extra": 1.0}, weights=[0.75, 0.25])
    assert told == {"loss": pytest.approx(1.75)}
    assert averaged(FedAvg(), {}, {"loss": 1.0}) == {}


def test_the_strategys_own_rule_sees_every_reply_and_its_other_records():
    class Counting(FedAvg):
        def aggregate_train(self, server_round, replies):
            self.seen = [dict(message.content["extra"]) for message in replies]
            return super().aggregate_train(server_round, replies)

    strategy, messages = Counting(), {row: reply(START, loss=1.0) for row in range(3)}
    for row, message in messages.items():
        message.content["extra"] = ConfigRecord({"control": row})
    BaseStrategy(strategy).aggregate(1, messages, dict.fromkeys(messages, 1 / 3))
    assert strategy.seen == [{"control": 0}, {"control": 1}, {"control": 2}]


def test_the_strategys_own_rule_sees_what_each_client_said_and_all_metric_records():
    class Reading(FedAvg):
        def aggregate_train(self, server_round, replies):
            self.seen = [(message.content["metrics"]["loss"], dict(message.content["gap"])) for message in replies]
            return replies[0].content["arrays"], None

    strategy, messages = Reading(), {0: reply(START, loss=1.0), 1: reply(START, loss=np.inf), 2: reply(START, loss=3.0)}
    for row, message in messages.items():
        message.content["gap"] = MetricRecord({"gap": row})
    messages[1].content["more"] = MetricRecord({"alone": 1.0})
    BaseStrategy(strategy).aggregate(1, messages, dict.fromkeys(messages, 1 / 3))
    assert strategy.seen == [(1.0, {"gap": 0}), (np.inf, {"gap": 1}), (3.0, {"gap": 2})]
    assert "more" not in messages[1].content


def test_an_average_of_ones_own_finds_its_records_where_we_compute_the_model():
    def average(records, weighted):
        (first, second) = (record["mine"]["loss"] * record["mine"][weighted] for record in records)
        return MetricRecord({"loss": first + second + records[0]["more"]["bias"]})

    records = {"arrays": codec.to_record(START), "mine": MetricRecord({"loss": 2.0}), "more": ConfigRecord({"bias": 1})}
    messages = {row: Message(RecordDict(dict(records)), 1, MessageType.TRAIN) for row in range(2)}
    for message in messages.values():
        message.content["mine"] = MetricRecord({"loss": 2.0})
    base = BaseStrategy(FedAvg(train_metrics_aggr_fn=average))
    _, metrics = base.step(1, START, messages, {0: 0.5, 1: 0.75})
    assert metrics == {"loss": pytest.approx(3.5)}


def test_a_strategy_is_shown_the_chosen_nodes_however_it_looks_for_them():
    class Informed(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            content = RecordDict({"arrays": arrays, "config": config})
            return [Message(content, info.node_id, MessageType.TRAIN) for info in grid.get_nodes()]

    grid = Loopback(dict.fromkeys(range(5)))
    made = BaseStrategy(Informed()).configure(1, codec.to_record(START), ConfigRecord(), grid, [4, 2])
    assert list(made) == [4, 2]


@pytest.mark.parametrize("kind", ["c8", "V2", "U1"])
def test_a_model_that_is_not_of_real_numbers_is_refused(kind):
    with pytest.raises(InputError, match="initial_arrays must hold real numbers; 'odd' is of type"):
        BaseStrategy(FedAvg()).check_model(codec.to_record({**START, "odd": np.zeros(2, kind)}))
