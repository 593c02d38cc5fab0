"""What a strategy refuses before anything runs, and how replies become a model."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedProx
from tests.flower.loopback import Loopback, fails, node, usable

from sortition.core import Cohort
from sortition.core.errors import InputError
from sortition.federation.model_screening import move_model
from sortition.flower import SelectorStrategy, codec
from sortition.flower.grid_transport import read_profile
from sortition.selectors import load

MODEL = {"w": np.zeros(2, np.float32), "seen": np.array(10)}


def reply(w, seen=10):
    return RecordDict(
        {"arrays": codec.to_record({"w": np.asarray(w, np.float32), "seen": np.array(seen)}), "m": MetricRecord()}
    )


def test_products_between_clients_are_refused_with_a_sentence():
    with pytest.raises(InputError, match="FedGS asks for 'products', products between pairs of clients"):
        SelectorStrategy(load("fedgs", graph="secure"), cohort=2)


def test_what_the_server_would_have_to_compute_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"GreedyFed needs 'shapley'.* Use a Registrar in a loop of your own"):
        SelectorStrategy(load("greedyfed"), cohort=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cohort": 0}, "SelectorStrategy.cohort must be a whole number ≥ 1; got 0"),
        ({"cohort": 2, "wait_for": 1.5}, "wait_for must be a whole number"),
        ({"cohort": 2, "answer_timeout": 0}, "answer_timeout must be seconds > 0"),
        ({"cohort": 2, "patience": -1}, "patience must be seconds ≥ 0"),
        ({"cohort": 2, "patience": float("nan")}, "patience must be seconds ≥ 0"),
        ({"cohort": 2, "overselect": 0.9}, "overselect must be finite and ≥ 1"),
    ],
)
def test_bad_options_are_refused(options, told):
    with pytest.raises(InputError, match=told):
        SelectorStrategy(load("uniform"), **options)
    with pytest.raises(InputError, match="must be a Selector"):
        SelectorStrategy(3, cohort=2)
    with pytest.raises(InputError, match=r"no-such-method"):
        SelectorStrategy("no-such-method", cohort=2)


def test_a_selector_is_given_by_name_and_auto_is_the_default():
    assert SelectorStrategy("uniform", cohort=2).selector == load("uniform")
    assert SelectorStrategy(cohort=2).selector == load("auto")


def test_the_mean_keeps_the_cohorts_mass_and_skips_the_unsound():
    cohort = Cohort([3, 1, 2], [0.5, 0.25, 0.15])
    contents = {1: reply([1, 2], 14), 2: reply([np.nan, 0]), 3: reply([2, 0], 14)}
    models, faults = usable(contents, MODEL)
    assert faults == {2: "w is not finite"}
    done = cohort.ids[[k in models for k in cohort.ids.tolist()]]
    weights, _ = cohort.weights_of(done)
    np.testing.assert_allclose(weights, [0.6, 0.3])  # 0.9 shared 2 : 1
    mean = move_model(MODEL, models, done, weights)
    np.testing.assert_allclose(mean["w"], [0.6 * 2 + 0.3 * 1, 0.3 * 2], rtol=1e-6)
    assert mean["seen"] == 13  # 10 + 0.9 · 4, a whole number as before


def test_what_cannot_be_read_is_a_fault_and_no_crash():
    junk = ArrayRecord({name: Array("float32", (2,), "numpy.ndarray", b"junk") for name in MODEL})
    contents = {
        0: RecordDict({"arrays": junk}),
        1: RecordDict({"arrays": ConfigRecord({"w": 1.0})}),
        2: RecordDict({"arrays": codec.to_record(MODEL), "more": codec.to_record(MODEL)}),
        3: RecordDict({"arrays": codec.to_record(MODEL), codec.ROWS: MetricRecord({"loss": 1.0})}),
    }
    models, faults = usable(contents, MODEL)
    assert list(models) == [3]
    assert faults == {0: "no model", 1: "no model", 2: "2 ArrayRecords in place of one"}
    assert codec.received_arrays(contents[3], codec.ROWS) == {}
    assert read_profile(RecordDict({codec.SELF: ConfigRecord({"signals": "loss"}), codec.FACTS: junk})).facts == {}


def test_an_overselected_round_closes_when_the_cohort_has_answered():
    clients = {n: node(f"c{n}", w=(1.0, 2.0), trains=n != 1) for n in range(3)}
    made = SelectorStrategy(
        load("uniform", weights="uniform"), cohort=2, overselect=1.5, strategy=FedAvg(fraction_evaluate=0.0)
    )
    grid = Loopback(clients)
    result = made.start(
        grid, codec.to_record({"w": np.zeros(2, np.float32)}), 2, timeout=60
    )  # nobody waits for client 1
    first, second = made.history
    assert sorted(first["cohort"]) == [0, 1, 2]  # ⌈2 · 1.5⌉
    assert (sorted(first["answered"]), first["standby"], first["silent"]) == ([0, 2], [1], [])
    assert (sorted(second["cohort"]), second["busy"]) == ([0, 2], 1)  # client 1 is still at work
    assert codec.to_arrays(result.arrays)["w"].tolist() == [1.0, 2.0]


def test_an_overselected_round_waits_for_more_where_answers_are_errors_until_the_deadline():
    def broken(message):
        return node("c0")(message) if message.metadata.message_type == codec.PROFILE else fails(message)

    grid = Loopback({0: broken, 1: node("c1"), 2: node("c2", trains=False)})
    quiet = FedAvg(fraction_evaluate=0.0)
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=2, overselect=1.5, strategy=quiet)
    made.start(grid, codec.to_record({"w": np.zeros(2, np.float32)}), 1, timeout=0.1)
    (record,) = made.history
    assert (record["answered"], list(record["failed"]), record["silent"]) == ([1], ["0"], [2])
    assert "standby" not in record


ONLY_W = {"w": np.zeros(2, np.float32)}
QUIET = {"fraction_evaluate": 0.0}


def started(strategy, **options):
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=2, strategy=strategy)
    return made, made.start(Loopback({n: node(f"c{n}") for n in range(3)}), codec.to_record(ONLY_W), 2, **options)


def test_a_start_of_ones_own_is_called_as_the_app_calls_it():
    class Brief(FedAvg):
        def start(self, grid, initial_arrays, num_rounds):
            super().start(grid, initial_arrays, num_rounds)

    class Open(FedAvg):
        def start(self, grid, initial_arrays, **options):
            self.given = options
            return super().start(grid, initial_arrays, **options)

    assert started(Brief(**QUIET))[1] is None
    config = ConfigRecord({"lr": 0.1})
    made, result = started(Open(**QUIET), timeout=9.0, train_config=config)
    assert made.given == {"num_rounds": 2, "timeout": 9.0, "train_config": config}
    assert codec.to_arrays(result.arrays)["w"].tolist() == [1.0, 1.0]


def test_a_start_that_chooses_clients_itself_is_refused_with_the_reason():
    class Loop(FedAvg):
        def start(self, grid, initial_arrays, num_rounds):
            return None

    with pytest.raises(InputError, match=r"Loop.start must call self.configure_train, where the selector chooses"):
        started(Loop(**QUIET))


def test_methods_that_are_assigned_to_a_strategy_run_and_stay():
    strategy, seen = FedAvg(**QUIET), []
    aggregate = strategy.aggregate_train

    def logged(server_round, replies):
        seen.append(server_round)
        return aggregate(server_round, replies)

    strategy.aggregate_train = logged
    made, _ = started(strategy)
    assert (seen, strategy.aggregate_train, made.user_strategy.traits.linear) == ([1, 2], logged, False)
    assert "configure_train" not in vars(strategy)


def test_what_only_the_users_strategy_has_is_set_there():
    inner = FedProx(**QUIET)
    made = SelectorStrategy("uniform", cohort=2, strategy=inner)
    made.proximal_mu, made.seed, made.note = 0.5, 3, "ours"
    assert (inner.proximal_mu, made.seed) == (0.5, 3)
    assert not {"seed", "note"} & vars(inner).keys()
    assert "proximal_mu" not in vars(made)
