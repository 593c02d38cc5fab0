"""Any strategy runs with any selector as it runs without one; what cannot work is refused before anybody trains."""

from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
)
from tests.flower.loopback import MODEL, Loopback, fails, node

from sortition.core import Cohort, Selector
from sortition.core.errors import InputError
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

QUIET = {"fraction_evaluate": 0.0}
UNIFORM = load("uniform", weights="uniform")
METRICS = {"num-examples": 10, "train_loss": 1.0}


def federation(n=6):
    return Loopback({k: node(f"c{k}", w=(k, 1.0), metrics=METRICS) for k in range(n)})


def played(strategy, selector=UNIFORM, rounds=2, cohort=3, grid=None, model=MODEL, **options):
    made = SelectorStrategy(selector, cohort=cohort, strategy=strategy, **options)
    result = made.start(grid or federation(), codec.to_record(model), rounds, timeout=0.5)
    return made, codec.to_arrays(result.arrays)["w"]


EVERY = {
    "FedAvg": lambda: FedAvg(**QUIET),
    "FedProx": lambda: FedProx(**QUIET, proximal_mu=0.1),
    "FedAvgM": lambda: FedAvgM(**QUIET, server_momentum=0.9),
    "FedAdam": lambda: FedAdam(**QUIET),
    "FedAdagrad": lambda: FedAdagrad(**QUIET),
    "FedYogi": lambda: FedYogi(**QUIET),
    "FedMedian": lambda: FedMedian(**QUIET),
    "FedTrimmedAvg": lambda: FedTrimmedAvg(**QUIET),
    "Krum": lambda: Krum(**QUIET),
    "MultiKrum": lambda: MultiKrum(**QUIET, num_nodes_to_select=2),
    "Bulyan": lambda: Bulyan(**QUIET),
    "QFedAvg": lambda: QFedAvg(**QUIET, client_learning_rate=0.1),
}


@dataclass(frozen=True)
class Growing(Selector):
    """Two clients, and three in the third round."""

    def select(self, state, round):
        return Cohort.uniform(round.available[: 3 if round.index == 2 else 2])


@dataclass(frozen=True)
class Always(Selector):
    """The same clients with the same weights in every round."""

    ids: tuple[int, ...] = (4, 0, 2)
    weights: tuple[float, ...] = (0.5, 0.25, 0.25)

    def select(self, state, round):
        return Cohort(self.ids, self.weights)


@pytest.mark.parametrize("name", EVERY)
def test_a_rule_gives_what_it_gives_without_us_of_the_same_replies(name):
    """The chosen clients alone, with the weights as their examples, under Flower's own loop."""
    weights = {4: 0.5, 0: 0.2, 2: 0.2, 5: 0.1}
    sent = {k: {"w": (k * k, 1.0), "metrics": {**METRICS, "num-examples": a}} for k, a in weights.items()}
    everybody = Loopback({k: node(f"c{k}", **sent.get(k, {})) for k in range(6)})
    selector = Always(ids=tuple(weights), weights=tuple(weights.values()))
    _, ours = played(EVERY[name](), selector, cohort=4, grid=everybody)
    alone = Loopback({k: node(f"c{k}", **about) for k, about in sent.items()})
    stock = EVERY[name]()
    result = stock.start(alone, codec.to_record(MODEL), 2)
    np.testing.assert_allclose(ours, codec.to_arrays(result.arrays)["w"], rtol=1e-6)


def test_the_strategy_is_left_as_it_was():
    strategy = FedAvg(**QUIET, fraction_train=0.3, min_train_nodes=2, min_available_nodes=4)
    before = dict(vars(strategy))
    played(strategy)
    assert vars(strategy) == before


def test_a_start_of_ones_own_is_run_with_its_own_arguments():
    class Logged(FedAvg):
        def start(self, grid, initial_arrays, num_rounds=3, *rest, label="", **more):
            self.seen = [label, num_rounds]
            result = super().start(grid, initial_arrays, num_rounds, *rest, **more)
            self.seen.append(len(result.arrays))
            return result

        def aggregate_train(self, server_round, replies):
            self.replies = len(replies := list(replies))
            return super().aggregate_train(server_round, replies)

    strategy = Logged(**QUIET)
    made = SelectorStrategy(UNIFORM, cohort=3, strategy=strategy)
    made.start(federation(), codec.to_record(MODEL), 2, label="mine")
    assert strategy.seen == ["mine", 2, 1]
    assert strategy.replies == 3


def test_a_config_that_the_strategy_changes_is_changed_once_a_round():
    class Halving(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            config["lr"] = config["lr"] / 2
            return super().configure_train(server_round, arrays, config, grid)

    grid = Loopback(
        {k: node(f"c{k}", metrics=METRICS, signals=["update"], facts={"sizes": np.array(9)}) for k in range(4)}
    )
    made = SelectorStrategy(load("longfed", gradient="sum", first="ask"), cohort=2, strategy=Halving(**QUIET))
    sent = []
    for k in range(4):
        trains = grid.nodes[k]

        def answered(message, trains=trains):
            reply = trains(message)
            if "config" in message.content:
                sent.append((message.metadata.message_type, message.content["config"]["lr"]))
            if message.metadata.message_type == "query.update":
                return RecordDict({codec.ROWS: codec.to_record({"update": np.ones(2)})})
            return reply

        grid.nodes[k] = answered
    made.start(grid, codec.to_record(MODEL), 2, train_config=ConfigRecord({"lr": 1.0}))
    assert [lr for kind, lr in sent if kind == "train"] == [0.5, 0.5, 0.25, 0.25]
    assert {lr for kind, lr in sent if kind == "query.update"} <= {0.5, 0.25}
    assert ("query.update", 0.5) in sent


# -- differential privacy ----------------------------------------------------------------------------------------------


def test_a_strategy_around_ours_is_refused_and_the_right_way_is_named():
    inside = SelectorStrategy(UNIFORM, cohort=3, strategy=FedAvg(**QUIET))
    around = DifferentialPrivacyServerSideFixedClipping(inside, 1.0, 1.0, 3)
    grid = federation()
    with pytest.raises(InputError, match=r"Put that strategy inside: SelectorStrategy\(selector, strategy=…\)"):
        around.start(grid, codec.to_record(MODEL), 2)
    assert grid.sent == []
    with pytest.raises(InputError, match="must not hold a SelectorStrategy"):
        SelectorStrategy(UNIFORM, cohort=3, strategy=around)


@pytest.mark.parametrize("wrap", [DifferentialPrivacyServerSideFixedClipping])
def test_noise_inside_gets_equal_weights_and_as_many_clients_as_it_counts_on(wrap):
    private = wrap(FedAvg(**QUIET), 0.0, 1e9, 3)
    _, model = played(private, Always(), rounds=1)
    np.testing.assert_allclose(model, [2.0, 1.0])  # the mean of 4, 0 and 2, whatever the selector weighs
    with pytest.raises(InputError, match="num_sampled_clients must be the cohort, 3, without overselect"):
        SelectorStrategy(UNIFORM, cohort=3, strategy=wrap(FedAvg(**QUIET), 1.0, 1.0, 4))
    with pytest.raises(InputError, match="without overselect"):
        SelectorStrategy(UNIFORM, cohort=3, overselect=1.5, strategy=wrap(FedAvg(**QUIET), 1.0, 1.0, 3))


def test_with_fewer_replies_than_the_noise_counts_on_nothing_moves():
    grid = federation()
    grid.nodes[4] = node("c4", trains=False)
    private = DifferentialPrivacyServerSideFixedClipping(FedAvg(**QUIET), 1.0, 1.0, 3)
    made = SelectorStrategy(Always(), cohort=3, strategy=private)
    words = r"None of 1 rounds brought an update .* needs 3 usable updates in a round, and at most 2 came"
    with pytest.raises(InputError, match=words):
        made.start(grid, codec.to_record(MODEL), 1, timeout=0.3)
    assert made.history[0]["notes"]["too_few_for_noise"] == 2


def test_a_strategy_that_needs_more_updates_than_the_cohort_has_is_refused():
    with pytest.raises(InputError, match="cohort must be at least 7: of fewer updates Bulyan makes no model; got 6"):
        SelectorStrategy(UNIFORM, cohort=6, strategy=Bulyan(num_malicious_nodes=1, **QUIET))
    SelectorStrategy(UNIFORM, cohort=7, strategy=Bulyan(num_malicious_nodes=1, **QUIET))


def test_a_selector_that_keeps_choosing_fewer_than_the_strategy_needs_is_refused():
    few = load("batch-partitioning")  # whole batches of 2
    words = "BatchPartitioning chose 2 of 6 clients, and Bulyan makes no model of fewer than 3 updates. Let BatchPart"
    grid, made = federation(), SelectorStrategy(few, cohort=3, strategy=Bulyan(**QUIET))
    with pytest.raises(InputError, match=words):
        made.start(grid, codec.to_record(MODEL), 10)
    assert grid.count("train") == 4  # two rounds of two clients
    made = SelectorStrategy(few, cohort=3, strategy=Bulyan(**QUIET))
    with pytest.raises(InputError, match=r"None of 2 rounds .* at most 2 came. Let the selector choose more clients"):
        made.start(federation(), codec.to_record(MODEL), 2)


def test_a_small_cohort_now_and_then_ends_nothing():
    made = SelectorStrategy(Growing(), cohort=3, strategy=Bulyan(**QUIET))
    made.start(federation(), codec.to_record(MODEL), 4)
    assert [len(record["cohort"]) for record in made.history] == [2, 2, 3, 2]


def test_a_clipping_norm_that_adapts_survives_a_restart(tmp_path):
    def private():
        return DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(**QUIET), 0.1, 3, initial_clipping_norm=0.5)

    first = private()
    played(first, checkpoint=tmp_path / "c.npz")
    assert first.clipping_norm != 0.5
    second = private()
    made = SelectorStrategy(UNIFORM, cohort=3, strategy=second, checkpoint=tmp_path / "c.npz", resume=True)
    made.start(federation(), codec.to_record(MODEL), 2)
    assert second.clipping_norm == first.clipping_norm


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["FedAvg", "FedAvgM", "FedAdam", "FedYogi", "FedAdagrad"])
def test_a_mass_other_than_one_is_kept_where_the_strategy_can(name):
    made, model = played(EVERY[name](), Always(weights=(0.5, 0.25, 0.75)), rounds=1)
    if name == "FedAvg":
        np.testing.assert_allclose(model, [0.5 * 4 + 0.75 * 2, 1.5])  # w + Σ a_k Δ_k, from zeros
    assert made.history[0]["answered"] == [4, 0, 2]


@pytest.mark.parametrize("name", ["FedMedian", "Krum", "QFedAvg"])
def test_a_mass_other_than_one_is_refused_before_anybody_trains_where_the_strategy_rescales(name):
    grid = federation()
    with pytest.raises(InputError, match=r"Always weighs this cohort 1.5 in all, and \w+ rescales weights to 1"):
        played(EVERY[name](), Always(weights=(0.5, 0.25, 0.75)), grid=grid)
    assert grid.count("train") == 0


def test_weights_of_zero_reach_no_division():
    made = SelectorStrategy(Always(weights=(0.0, 1.0, 0.0)), cohort=3, strategy=Krum(**QUIET))
    result = made.start(federation(), codec.to_record(MODEL), 1)
    assert codec.to_arrays(result.arrays)["w"].tolist() == [0.0, 1.0]  # of client 0 alone
    grid = federation()
    grid.nodes[0] = node("c0", trains=False)
    made = SelectorStrategy(Always(weights=(0.0, 1.0, 0.0)), cohort=3, strategy=FedAvg(**QUIET))
    with pytest.raises(InputError, match="brought an update that could be used"):
        made.start(grid, codec.to_record(MODEL), 1, timeout=0.3)


def test_that_a_rule_ignores_weights_is_logged(caplog):
    played(FedMedian(**QUIET))
    assert "FedMedian does not use the selector's weights" in caplog.text
    caplog.clear()
    played(FedAvg(**QUIET))
    assert "does not use" not in caplog.text


# -- what clients send -------------------------------------------------------------------------------------------------


WHOLE = {"shared": np.zeros(2, np.float32), "norm": np.zeros(3, np.float32)}


def partial(name, value, whole=False):
    """A client that keeps an array at home."""
    inner = node(name, facts={"sizes": np.array(10)}, signals=["update"])

    def answered(message):
        if message.metadata.message_type != "train":
            return inner(message)
        arrays = {"shared": np.full(2, value, np.float32), **({"norm": WHOLE["norm"]} if whole else {})}
        return RecordDict({"arrays": codec.to_record(arrays), "metrics": MetricRecord(METRICS)})

    return answered


def test_parts_of_a_model_are_aggregated_as_without_us():
    grid = Loopback({k: partial(f"c{k}", float(k)) for k in range(3)})
    made = SelectorStrategy(UNIFORM, cohort=3, strategy=FedAvg(**QUIET))
    result = made.start(grid, codec.to_record(WHOLE), 2)
    assert {n: v.tolist() for n, v in codec.to_arrays(result.arrays).items()} == {"shared": [1.0, 1.0]}
    assert made.history[-1]["left_out"] == {}


def test_a_method_that_keeps_updates_goes_on_with_the_part_that_travels():
    grid = Loopback({k: partial(f"c{k}", float(k)) for k in range(3)})
    made = SelectorStrategy(load("clustered", gap="l2"), cohort=3, strategy=FedAvg(**QUIET))
    made.start(grid, codec.to_record(WHOLE), 3)
    assert not any("rejected" in record or record["left_out"] or record["failed"] for record in made.history)
    assert made.registrar.state.update.shape == (3, 2)
    assert not made.registrar.strikes.any()


def test_a_reply_that_comes_alone_does_not_decide_which_arrays_a_model_has():
    grid = Loopback({0: partial("c0", 9.0), **{k: partial(f"c{k}", 1.0, whole=True) for k in range(1, 4)}})
    grid.offline = {1, 2, 3}

    def strategy():
        alone = FedAvg(**QUIET, min_available_nodes=1)
        return SelectorStrategy(UNIFORM, cohort=4, strategy=alone, on_round=lambda record: grid.offline.clear())

    made = strategy()
    result = made.start(grid, codec.to_record(WHOLE), 3, timeout=0.3)  # nobody else was asked in the first round
    assert "alone, a reply must have the arrays" in made.history[0]["left_out"]["0"]
    assert {1, 2, 3} <= set(made.history[2]["answered"])
    assert codec.to_arrays(result.arrays).keys() == WHOLE.keys()
    grid.offline = {2, 3}  # a second client is asked, and silent
    grid.nodes[1] = node("c1", trains=False)
    made = strategy()
    result = made.start(grid, codec.to_record(WHOLE), 3, timeout=0.3)
    assert made.history[0]["left_out"].keys() == {"0"}
    assert {2, 3} <= set(made.history[2]["answered"])
    assert codec.to_arrays(result.arrays).keys() == WHOLE.keys()


def test_whole_numbers_are_refused_where_the_strategy_cannot_aggregate_them():
    model = {**MODEL, "num_batches_tracked": np.array(3)}
    with pytest.raises(InputError, match="QFedAvg cannot aggregate whole numbers, and the model has 'num_batches_tra"):
        played(QFedAvg(client_learning_rate=0.1, **QUIET), model=model)


def test_a_run_in_which_nobody_can_train_ends_with_the_reason():
    def broken(name):
        inner = node(name)
        return lambda message: inner(message) if message.metadata.message_type == codec.PROFILE else fails(message)

    grid = Loopback({k: broken(f"c{k}") for k in range(3)})
    with pytest.raises(InputError, match="None of the 3 chosen clients can train; client c0: no such query"):
        played(FedAvg(**QUIET), grid=grid)
    assert grid.count("train") == 3  # one round


def test_what_only_the_users_strategy_has_is_reached_through_ours():
    class Saving(FedAvg):
        saved = ()

        def save_to(self, folder):
            self.folder = folder

        def aggregate_train(self, server_round, replies):
            self.saved = (*self.saved, f"{self.folder}/{server_round}")
            return super().aggregate_train(server_round, replies)

    made = SelectorStrategy(UNIFORM, cohort=3, strategy=Saving(**QUIET))
    made.save_to("models")
    made.start(federation(), codec.to_record(MODEL), 2)
    assert made.saved == ("models/1", "models/2")
    with pytest.raises(AttributeError, match="'Saving' object has no attribute 'missing'"):
        _ = made.missing
    with pytest.raises(AttributeError, match="SelectorStrategy has no '_private'"):
        _ = made._private


def test_half_precision_is_kept():
    grid = Loopback({k: node(f"c{k}", metrics=METRICS) for k in range(3)})
    for k in range(3):
        inner = grid.nodes[k]

        def half(message, inner=inner):
            reply = inner(message)
            if "arrays" in reply:
                reply["arrays"] = codec.to_record({"w": np.full(2, 0.5, np.float16)})
            return reply

        grid.nodes[k] = half
    _, model = played(FedAvg(**QUIET), grid=grid, model={"w": np.zeros(2, np.float16)})
    assert (model.dtype, model.tolist()) == (np.float16, [0.5, 0.5])


def trees(k):
    inner = node(f"c{k}")
    text = b'{"learner": {"gradient_booster": {"model": {"trees": [], "tree_info": [], "iteration_indptr": [0], '
    text += b'"gbtree_model_param": {"num_trees": "0", "num_parallel_tree": "1"}}}}}' + b" " * k  # of other lengths

    def answered(message):
        if message.metadata.message_type != "train":
            return inner(message)
        arrays = codec.to_record({"0": np.frombuffer(text, np.uint8)})
        return RecordDict({"arrays": arrays, "metrics": MetricRecord(METRICS)})

    return answered


@pytest.mark.parametrize(("rule", "cohort"), [(FedXgbCyclic, 1), (FedXgbCyclic, 2)])
def test_trees_that_travel_from_client_to_client_take_a_cohort_of_one(rule, cohort):
    grid = Loopback({k: trees(k) for k in range(3)})
    made = SelectorStrategy(UNIFORM, cohort=cohort, strategy=rule(fraction_train=1.0, **QUIET))
    start = codec.to_record({"0": np.frombuffer(b"", np.uint8)})
    if cohort > 1:
        with pytest.raises(InputError, match="use cohort=1"):
            made.start(grid, start, 2)
        return
    made.start(grid, start, 2)
    assert [len(record["answered"]) for record in made.history] == [1, 1]


def test_a_method_that_compares_updates_is_refused_with_trees():
    with pytest.raises(InputError, match="compares updates, and FedXgbBagging trains trees"):
        SelectorStrategy(load("clustered"), cohort=2, strategy=FedXgbBagging(**QUIET))


@dataclass(frozen=True)
class Expected(Selector):
    """Weights that sum to 1 only in expectation."""

    def select(self, state, round):
        return Cohort([4, 0, 2], [0.5, 0.25, 0.25], mass="expected")


def test_an_expected_mass_is_not_rescaled_for_those_who_fall_silent():
    grid = federation()
    grid.nodes[2] = node("c2", trains=False)
    _, model = played(FedAvg(**QUIET), Expected(), rounds=1, grid=grid)
    np.testing.assert_allclose(model, [0.5 * 4, 0.75])  # w + Σ a_k Δ_k of two of three, from zeros
    with pytest.raises(InputError, match="Expected weighs this cohort 1 in all, and FedMedian rescales weights to 1"):
        played(FedMedian(**QUIET), Expected())
