"""Metrics that cannot be averaged are left out one by one and never stop the server."""

import math

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, QFedAvg
from tests.flower.loopback import MODEL, Loopback, node
from tests.flower.test_base_strategy import averaged

from sortition.flower import SelectorStrategy, codec
from sortition.flower.averaged_metrics import usable_metrics
from sortition.selectors import load

N = "num-examples"


def contents(*sent):
    return [RecordDict({"metrics": MetricRecord(values)}) for values in sent]


@pytest.mark.parametrize("odd", [[1.0, 2.0], math.nan, math.inf, -math.inf, 10**400, [math.nan]])
def test_one_clients_odd_metric_is_left_out(odd):
    assert averaged(FedAvg(), {"loss": 1.0}, {"loss": odd}, {"loss": 3.0}) == {"loss": pytest.approx(2.0)}


@pytest.mark.parametrize("examples", [-10, 0, [1, 2], math.nan, 10**30])
def test_a_clients_word_on_its_examples_moves_nothing(examples):
    assert averaged(FedAvg(), {N: 10, "loss": 1.0}, {N: examples, "loss": 3.0}) == {"loss": 2.0}


def test_without_a_majority_a_metric_is_dropped():
    assert averaged(FedAvg(), {"loss": 1.0, "x": 1.0}, {"loss": [1.0, 2.0], "x": 3.0}) == {"x": 2.0}
    assert averaged(FedAvg(), {"loss": [1.0]}, {"loss": [1.0, 2.0]}) == {}


def test_lists_of_one_length_are_averaged():
    told = averaged(FedAvg(), {"f1": [1.0, 2.0]}, {"f1": [3.0, 4.0]}, {"f1": [9.0]})
    assert told == {"f1": [pytest.approx(2.0), pytest.approx(3.0)]}


def test_the_reason_is_given():
    sent = dict(enumerate(contents({N: 1, "a": math.nan}, {N: 2}, {N: [1]}, {})))
    assert usable_metrics(sent, weight=N)[1] == {
        0: "metric 'a' is not finite",
        2: "metric 'num-examples' is a list in place of a number of examples",
        3: "metric 'num-examples' is missing in place of a number of examples",
    }
    sent = dict(enumerate(contents({"a": 1.0}, {"a": 2.0}, {})))
    assert usable_metrics(sent, complete=True)[1] == {2: "metric 'a' is missing"}
    assert usable_metrics(sent)[1] == {}


def test_an_own_average_that_fails_costs_the_metrics_only():
    def own(records, weighted):
        return MetricRecord({"best": max(record["metrics"]["accuracy"] for record in records)})

    assert averaged(FedAvg(train_metrics_aggr_fn=own), {"accuracy": 0.5}, {"accuracy": 0.75})["best"] == 0.75
    assert not averaged(FedAvg(train_metrics_aggr_fn=own), {"accuracy": 0.5}, {"loss": 1.0})


ODD = [{N: 10, "loss": [1.0, 2.0]}, {N: -10, "loss": 1.0}, {N: [1, 2], "loss": 1.0}, {N: math.nan, "loss": 1.0}, {}]


@pytest.mark.parametrize("odd", ODD)
def test_a_federation_with_odd_metrics_is_played_to_its_end(odd):
    sound = {N: 10, "loss": 1.0}
    grid = Loopback({1: node("a", metrics=sound), 2: node("b", metrics=sound), 3: node("c", metrics=odd)})
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=FedAvg())
    result = made.start(grid, codec.to_record(MODEL), 2)
    assert [record["answered"] for record in made.history] == [[0, 1, 2]] * 2
    assert result.evaluate_metrics_clientapp[2]["loss"] == 1.0


def test_a_rule_that_computes_the_model_from_metrics_leaves_out_who_lacks_them():
    sound = {N: 10, "train_loss": 1.0}
    grid = Loopback({1: node("a", metrics=sound), 2: node("b", metrics=sound), 3: node("c", metrics={N: 10})})
    rule = QFedAvg(client_learning_rate=0.1, fraction_evaluate=0.0)
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=rule)
    made.start(grid, codec.to_record(MODEL), 2)
    assert [(r["answered"], r["left_out"]) for r in made.history] == [
        ([0, 1], {"2": "metric 'train_loss' is missing"})
    ] * 2


def test_evaluations_of_no_example_are_left_out():
    grid = Loopback({n: node(f"c{n}", metrics={N: 0, "loss": 1.0}) for n in range(3)})
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=FedAvg())
    assert made.start(grid, codec.to_record(MODEL), 1).evaluate_metrics_clientapp == {}


def test_an_evaluation_does_not_wait_without_end():
    grid = Loopback({1: node("a")})  # FedAvg evaluates with two nodes or more
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=1, strategy=FedAvg(min_available_nodes=1))
    assert made.start(grid, codec.to_record(MODEL), 1).evaluate_metrics_clientapp == {}
    assert grid.count("evaluate") == 0
