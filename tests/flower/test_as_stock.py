"""What an app sees under a selector that chooses everybody is what it sees under Flower's own loop."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from tests.flower import federation
from tests.flower.in_process import grid_of

from sortition.core.errors import InputError
from sortition.flower import SelectorStrategy, answer, codec
from sortition.selectors import load

NODES = 4
MODEL = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.float32)}
N = "num-examples"


class Client:
    """Answers for a loss alone."""

    def __init__(self, received):
        self.client = received.client

    def loss(self):
        return 1.0 + self.client


def app_of(records=None, evaluated=None, kind=None, fails=()):
    """An app that trains and evaluates; ``records`` and ``evaluated`` give more records of a client's replies."""
    app = ClientApp()

    @app.train(*([kind] if kind else []))
    def train(message, context):
        me = context.node_config["partition-id"]
        if me in fails:
            raise ValueError("no disk")
        context.state["trainings"] = ConfigRecord({"n": context.state.get("trainings", {"n": 0})["n"] + 1})
        key = next(iter(message.content.array_records))
        arrays = codec.to_record({n: v / 2 + me for n, v in codec.to_arrays(message.content[key]).items()})
        metrics = {N: 10 * (me + 1), "train_loss": float(me), "seen": context.state["trainings"]["n"]}
        content = {key: arrays, "metrics": MetricRecord(metrics)}
        return Message(RecordDict(content | (records(me) if records else {})), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        me = context.node_config["partition-id"]
        content = {"metrics": MetricRecord({N: 10 * (me + 1), "loss": float(me)})}
        return Message(RecordDict(content | (evaluated(me) if evaluated else {})), reply_to=message)

    return app


def sizes(context):
    return {"sizes": 10 * (context.node_config["partition-id"] + 1)}


def played(strategy, app, method="full", rounds=2, cohort=NODES, client=None, **start):
    answer(app, client, facts=sizes)
    made = SelectorStrategy(method, cohort=cohort, strategy=strategy)
    return made, made.start(grid_of(app, NODES), codec.to_record(MODEL), rounds, **start)


def both(make, rounds=2, start=None, **app):
    """Results and strategies of Flower's own loop and of ours."""
    stock, inside = make(), make()
    expected = stock.start(grid_of(app_of(**app), NODES), codec.to_record(MODEL), rounds, **(start or {}))
    _, result = played(inside, app_of(**app), rounds=rounds, **(start or {}))
    return (expected, stock), (result, inside)


def compare(expected, result):
    ours = codec.to_arrays(result.arrays)
    for name, value in codec.to_arrays(expected.arrays).items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-5)
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        there, here = getattr(expected, name), getattr(result, name)
        assert there.keys() == here.keys()
        for number, metrics in there.items():
            assert dict(here[number]) == pytest.approx(dict(metrics))


class Summing(Strategy):
    """A strategy that is none of Flower's: other names of records, metrics as clients send them, a plain mean."""

    def __init__(self):
        self.seen = []

    def summary(self):
        """Nothing to say."""

    def configure_train(self, server_round, arrays, config, grid):
        config["server-round"] = server_round
        content = RecordDict({"model": arrays, "settings": config})
        return [Message(content, node, MessageType.TRAIN) for node in grid.get_node_ids()]

    def aggregate_train(self, server_round, replies):
        replies = sorted(replies, key=lambda message: message.metadata.src_node_id)
        self.seen.append([sorted(message.content) for message in replies])
        self.seen.append([sorted(message.content["metrics"]) for message in replies])
        sent = [codec.to_arrays(message.content["model"]) for message in replies]
        return codec.to_record({n: np.mean([arrays[n] for arrays in sent], axis=0) for n in sent[0]}), None

    def configure_evaluate(self, server_round, arrays, config, grid):
        content = RecordDict({"model": arrays, "settings": config})
        return [Message(content, node, MessageType.EVALUATE) for node in grid.get_node_ids()]

    def aggregate_evaluate(self, server_round, replies):
        replies = sorted(replies, key=lambda message: message.metadata.src_node_id)
        self.seen.append([sorted(message.content) for message in replies])
        self.seen.append([sorted(message.content["metrics"]) for message in replies])
        return MetricRecord({"loss": float(sum(message.content["metrics"]["loss"] for message in replies))})


def total(records, weighted):
    return MetricRecord({"examples": sum(record["metrics"][weighted] for record in records)})


OPTIONS = {
    "plain": FedAvg,
    "names of records": lambda: FedAvg(arrayrecord_key="model", configrecord_key="settings"),
    "metrics that sum examples": lambda: FedAvg(train_metrics_aggr_fn=total, evaluate_metrics_aggr_fn=total),
    "no metrics": lambda: FedAvg(train_metrics_aggr_fn=lambda records, weighted: None),
    "a strategy of one's own": Summing,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_strategy_mean_what_they_mean_without_us(name):
    (expected, _), (result, _) = both(OPTIONS[name])
    compare(expected, result)


@pytest.mark.parametrize("timeout", [None, math.inf, 30.0, 3600])
def test_any_time_limit_of_start_is_taken(timeout):
    (expected, _), (result, _) = both(FedAvg, start={"timeout": timeout})
    compare(expected, result)


def test_a_time_limit_that_is_given_is_passed_on():
    class Strict(FedAvg):
        def start(self, grid, initial_arrays, num_rounds, timeout):
            return super().start(grid, initial_arrays, num_rounds, timeout)

    (expected, _), (result, _) = both(Strict, start={"timeout": 3600})
    compare(expected, result)


def test_a_message_lapses_when_the_strategy_says_so_and_with_its_round():
    class Brief(FedAvg):
        lifetime = 7.0

        def configure_train(self, server_round, arrays, config, grid):
            for message in super().configure_train(server_round, arrays, config, grid):
                message.metadata.ttl = self.lifetime
                yield message

    app = app_of()
    answer(app, facts=sizes)
    for strategy, timeout, expected in [(Brief(), 30.0, 7.0), (Brief(), 5.0, 5.0), (FedAvg(), 30.0, 30.0)]:
        grid = grid_of(app, NODES)
        made = SelectorStrategy("full", cohort=NODES, strategy=strategy)
        made.start(grid, codec.to_record(MODEL), 1, timeout=timeout)
        lifetimes = {message.metadata.ttl for message in grid.sent if message.metadata.message_type == "train"}
        assert max(lifetimes) == pytest.approx(expected, abs=1.0)  # less what the round took so far


def test_a_rule_of_ones_own_sees_the_failures():
    class Counting(FedAvg):
        def aggregate_train(self, server_round, replies):
            self.failed = [message.error.reason for message in replies if message.has_error()]
            return super().aggregate_train(server_round, replies)

    (expected, stock), (result, inside) = both(Counting, fails=(1,))
    assert stock.failed == inside.failed == ["ValueError: no disk"]
    compare(expected, result)


# -- records and metrics -----------------------------------------------------------------------------------------------


def lone(me):
    """A metric that only this client sends."""
    return {"metrics": MetricRecord({N: 5, "loss": 1.0, "train_loss": 1.0, f"only-{me}": 1.0})}


@pytest.mark.parametrize("name", ["metrics of one's own", "a second ArrayRecord", "a second MetricRecord"])
def test_a_strategy_of_ones_own_sees_all_that_clients_send(name):
    more = {
        "metrics of one's own": {"records": lone, "evaluated": lone},
        "a second ArrayRecord": {"records": lambda me: {"control": codec.to_record({"c": np.ones(2)})}},
        "a second MetricRecord": {"evaluated": lambda me: {"more": MetricRecord({"x": me})}},
    }
    (expected, stock), (result, inside) = both(Summing, **more[name])
    assert inside.seen == stock.seen
    compare(expected, result)


def test_evaluations_without_examples_reach_a_strategy_that_wants_none():
    without = {"evaluated": lambda me: {"metrics": MetricRecord({"loss": float(me)})}}
    (expected, _), (result, _) = both(Summing, **without)
    assert result.evaluate_metrics_clientapp[2] == expected.evaluate_metrics_clientapp[2] == {"loss": 6.0}


@pytest.mark.parametrize("method", ["hics", "tifl", "divfl", "longfed", "power-of-choice"])
def test_names_of_records_of_ones_own_work_with_questions_and_reports(method):
    class Knowing(Client):
        batches = 1

        def accuracy(self):
            return 0.5

        def gradient(self):
            return np.ones(8)

    strategy = Summing()
    config = {"train_config": ConfigRecord({"lr": 0.1, "steps": 1})}
    made, _ = played(strategy, app_of(), method, cohort=2, client=Knowing, **config)
    assert [record["left_out"] for record in made.history] == [{}, {}]
    assert strategy.seen[0] == [["metrics", "model"]] * len(made.history[0]["cohort"])


def test_metrics_that_not_all_clients_send_are_named_in_the_log(caplog):
    more = {"records": lambda me: lone(me) | {"more": MetricRecord({"x": 1.0})}, "evaluated": lone}
    _, result = played(FedAvg(), app_of(**more))
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Left out, as replies")]
    assert "metric 'only-0', metric 'only-1', metric 'only-2', metric 'only-3', MetricRecord 'more'" in said[0]
    assert said[1].endswith("metric 'only-0', metric 'only-1', metric 'only-2', metric 'only-3'")
    assert dict(result.train_metrics_clientapp[1]) == {"loss": pytest.approx(1.0), "train_loss": pytest.approx(1.0)}
    caplog.clear()
    played(FedAvg(), app_of())
    assert "Left out, as replies" not in caplog.text


def test_several_models_in_a_reply_are_refused_where_the_strategy_takes_one():
    more = {"records": lambda me: {"control": codec.to_record({"c": np.ones(2)})}}
    with pytest.raises(InputError, match="client 0: 2 ArrayRecords in place of one"):
        played(FedAvg(), app_of(**more))


def test_options_that_the_selector_takes_the_place_of_are_logged(caplog):
    tokens = {"records": lambda me: {"metrics": MetricRecord({"tokens": 7})}}
    played(FedAvg(weighted_by_key="tokens", fraction_train=0.0, fraction_evaluate=0.0), app_of(**tokens))
    assert "FedAvg.weighted_by_key = 'tokens': what clients say there is not read" in caplog.text
    assert "FedAvg.fraction_train = 0 is not read: the selector says who trains" in caplog.text
    caplog.clear()
    played(FedAvg(), app_of())
    assert "not read" not in caplog.text


def test_that_clients_report_other_amounts_than_their_facts_is_logged_once(caplog):
    batches = {"records": lambda me: {"metrics": MetricRecord({N: 3 if me else 1})}}
    played(FedAvg(fraction_evaluate=0.0), app_of(**batches))
    said = [record.getMessage() for record in caplog.records if "by its facts" in record.getMessage()]
    assert said[0].startswith("Client 3 reports num-examples = 3 and has 40 by its facts: weights are the selector's")
    assert said[1].startswith("Client 1 reports num-examples = 3 and has 20 by its facts")
    assert len(said) == 2
    caplog.clear()
    played(FedAvg(fraction_evaluate=0.0), app_of())
    played(FedAvg(fraction_evaluate=0.0), app_of(**batches), load("uniform", weights="uniform"))
    assert "by its facts" not in caplog.text


# -- what stays on a client --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "asked"), [("tifl", "query.duration"), ("fedcor", "query.rehearse")])
def test_a_training_that_is_only_tried_leaves_nothing_in_the_nodes_state(method, asked):
    seen = {}

    class Seeing(FedAvg):
        def aggregate_train(self, server_round, replies):
            for message in replies:
                seen.setdefault(message.metadata.src_node_id, []).append(message.content["metrics"]["seen"])
            return super().aggregate_train(server_round, replies)

    class Rated(Client):
        def accuracy(self):
            return 0.5

    app = app_of()
    answer(app, Rated, facts=sizes)
    grid, made = grid_of(app, NODES), SelectorStrategy(federation.methods()[method], cohort=2, strategy=Seeing())
    made.start(grid, codec.to_record(MODEL), 6)
    assert grid.count(asked)
    assert seen
    assert all(trainings == list(range(1, len(trainings) + 1)) for trainings in seen.values())


@pytest.mark.parametrize("method", ["uniform", "tifl"])
def test_messages_of_a_type_of_ones_own_reach_its_function(method):
    class Special(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            for message in super().configure_train(server_round, arrays, config, grid):
                yield Message(message.content, message.metadata.dst_node_id, "train.special")

    class Rated(Client):
        def accuracy(self):
            return 0.5

    made, _ = played(Special(), app_of(kind="special"), method, cohort=2, client=Rated)
    assert all(record["answered"] and not record["left_out"] for record in made.history)


def test_a_metric_that_training_does_not_give_is_found_before_a_round_is_paid_for():
    app = app_of()
    answer(app, facts=sizes)
    grid = grid_of(app, NODES)
    made = SelectorStrategy("delta", cohort=3, strategy=FedAvg(fraction_evaluate=0.0))
    with pytest.raises(InputError, match=r"Delta wants 'step-gradient' reported, .* client \d .* a metric 'steps'"):
        made.start(grid, codec.to_record(MODEL), 2)
    assert grid.count("train") == 0
    assert grid.count("query.step_gradient") == 3  # clients that trained on trial


def test_a_method_whose_reports_are_given_is_tried_once_and_leaves_no_trace():
    app = app_of()
    answer(app, facts=sizes)
    grid = grid_of(app, NODES)
    made = SelectorStrategy("oort", cohort=3, strategy=FedAvg(fraction_evaluate=0.0))
    made.start(grid, codec.to_record(MODEL), 3)
    assert sum(kind.startswith("query.rms") for kind in (m.metadata.message_type for m in grid.sent)) == 1
    assert made.messenger.reports_are_proven
