"""Metrics of strangers are left out one by one and never stop the server."""

import math

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import MODEL, Loopback, node

from sortition.flower import SelectorStrategy, metrics, wire
from sortition.flower.base_strategy import Stock
from sortition.selectors import load

N = "num-examples"


def contents(*told):
    return [RecordDict({"metrics": MetricRecord(values)}) for values in told]


def averaged(*told):
    return dict(Stock(FedAvg()).metrics(contents(*told), [1 / len(told)] * len(told)))


@pytest.mark.parametrize("odd", [[1.0, 2.0], math.nan, math.inf, -math.inf, 10**400, [math.nan]])
def test_one_clients_odd_metric_is_left_out(odd):
    assert averaged({"loss": 1.0}, {"loss": odd}, {"loss": 3.0}) == {"loss": 2.0}


@pytest.mark.parametrize("examples", [-10, 0, [1, 2], math.nan, 10**30])
def test_a_clients_word_on_its_examples_moves_nothing(examples):
    assert averaged({N: 10, "loss": 1.0}, {N: examples, "loss": 3.0}) == {"loss": 2.0}


def test_without_a_majority_a_metric_is_dropped():
    assert averaged({"loss": 1.0, "x": 1.0}, {"loss": [1.0, 2.0], "x": 3.0}) == {"x": 2.0}
    assert averaged({"loss": [1.0]}, {"loss": [1.0, 2.0]}) == {}


def test_lists_of_one_length_are_averaged():
    assert averaged({"f1": [1.0, 2.0]}, {"f1": [3.0, 4.0]}, {"f1": [9.0]}) == {"f1": [2.0, 3.0]}


def test_the_reason_is_told():
    _, faults = metrics.sound(dict(enumerate(contents({N: 1, "a": math.nan}, {N: 2}, {N: [1]}, {}))), weight=N)
    assert faults == {
        0: "metric 'a' is not finite",
        2: "metric 'num-examples' is a list in place of a number of examples",
        3: "metric 'num-examples' is missing in place of a number of examples",
    }


def test_an_own_average_that_fails_costs_the_metrics_only():
    def own(records, weighted):
        return MetricRecord({"best": max(record["metrics"]["accuracy"] for record in records)})

    stock = Stock(FedAvg(train_metrics_aggr_fn=own))
    assert stock.metrics(contents({"accuracy": 0.5}, {"accuracy": 0.75}), [0.5, 0.5])["best"] == 0.75
    assert not stock.metrics(contents({"accuracy": 0.5}, {"loss": 1.0}), [0.5, 0.5])


ODD = [{N: 10, "loss": [1.0, 2.0]}, {N: -10, "loss": 1.0}, {N: [1, 2], "loss": 1.0}, {N: math.nan, "loss": 1.0}, {}]


@pytest.mark.parametrize("odd", ODD)
def test_a_federation_with_odd_metrics_is_played_to_its_end(odd):
    sound = {N: 10, "loss": 1.0}
    grid = Loopback({1: node("a", metrics=sound), 2: node("b", metrics=sound), 3: node("c", metrics=odd)})
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=FedAvg())
    result = made.start(grid, wire.record(MODEL), 2)
    assert [record["answered"] for record in made.history] == [[0, 1, 2]] * 2
    assert result.evaluate_metrics_clientapp[2]["loss"] == 1.0


def test_evaluations_of_no_example_are_left_out():
    grid = Loopback({n: node(f"c{n}", metrics={N: 0, "loss": 1.0}) for n in range(3)})
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=FedAvg())
    assert made.start(grid, wire.record(MODEL), 1).evaluate_metrics_clientapp == {}


def test_an_evaluation_does_not_wait_without_end():
    grid = Loopback({1: node("a")})  # FedAvg wants two nodes
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=1, strategy=FedAvg())
    assert made.start(grid, wire.record(MODEL), 1).evaluate_metrics_clientapp == {}
    assert grid.count("evaluate") == 0
