"""Stock strategies' server steps, against our own rules of the same name."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedMedian, FedProx

from sortition.aggregation import StepRule
from sortition.core.errors import InputError
from sortition.flower import wire
from sortition.flower.base_strategy import Stock

START = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "seen": np.array(4)}


def deltas(rounds=4):
    rng = np.random.default_rng(0)
    return [rng.normal(size=6).astype(np.float32) for _ in range(rounds)]


def stepped(stock, model=START, updates=None, first=0):
    for t, delta in enumerate(updates if updates is not None else deltas(), first):
        stock.content(t + 1, wire.record(model), ConfigRecord())
        model = stock.step(t + 1, {"w": model["w"] + delta.reshape(2, 3), "seen": model["seen"]})
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
def test_server_steps_are_those_of_our_rules(make, rule):
    params, state = START["w"].reshape(-1), rule.init(6)
    for t, delta in enumerate(deltas(), 1):
        rate = rule.lr
        if rule.name == "adam":  # Flower corrects the bias, with the round + 1 as Adam's t
            rate *= np.sqrt(1 - rule.beta2 ** (t + 1)) / (1 - rule.beta1 ** (t + 1))
        params, state = replace(rule, lr=rate).apply(params, delta, state)
    model = stepped(Stock(make()))
    np.testing.assert_allclose(model["w"].reshape(-1), params, rtol=1e-4)
    assert model["w"].dtype == np.float32
    assert model["seen"] == 4


@pytest.mark.parametrize("make", [make for make, _ in RULES], ids=["FedAvg", "FedAvgM", "FedAdam"])
def test_memory_survives_a_restart(make):
    whole = stepped(Stock(make()))
    before = Stock(make())
    half = stepped(before, updates=deltas()[:2])
    after = Stock(make())
    after.restore(*before.export())
    again = stepped(after, half, deltas()[2:], first=2)
    np.testing.assert_array_equal(again["w"], whole["w"])


def test_train_config_is_the_stock_strategys():
    content = Stock(FedProx(proximal_mu=0.3)).content(7, wire.record(START), ConfigRecord({"lr": 0.1}))
    assert dict(content["config"]) == {"lr": 0.1, "proximal-mu": 0.3, "server-round": 7}
    assert list(content["arrays"]) == ["w", "seen"]


def test_a_rule_that_looks_at_single_replies_is_refused():
    with pytest.raises(InputError, match=r"must be of the FedAvg family .* got 'FedMedian'"):
        Stock(FedMedian())


def test_metrics_are_averaged_by_the_cohorts_weights_whatever_clients_say_of_their_examples():
    def reply(**metrics):
        return RecordDict({"metrics": MetricRecord(metrics)})

    stock = Stock(FedAvg())
    told = stock.metrics([reply(loss=1.0, **{"num-examples": 1}), reply(loss=4.0, **{"num-examples": 2})], [0.5, 0.5])
    assert dict(told) == {"loss": pytest.approx(2.5)}  # as the model is
    untold = stock.metrics([reply(loss=1.0), reply(loss=4.0, extra=1.0)], [0.75, 0.25])
    assert untold["loss"] == pytest.approx(1.75)
    assert "extra" not in untold
    assert not stock.metrics([RecordDict(), reply(loss=1.0)], [0.5, 0.5])
