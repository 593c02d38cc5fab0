"""Guards in a Flower federation: absurd updates, small cohorts, owners that the server knows."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import Loopback, node, usable

from sortition.core import Guards
from sortition.core.errors import InputError
from sortition.federation.messages import Profile
from sortition.federation.model_screening import distance
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

MODEL = {"w": np.zeros(2, np.float32), "seen": np.array(10)}


def content(w):
    return RecordDict({"arrays": codec.to_record({"w": np.asarray(w), "seen": np.array(10)}), "m": MetricRecord()})


def test_an_absurd_update_is_left_out_with_its_reason():
    contents = {k: content([1.0, k]) for k in range(4)} | {4: content([1e9, 0])}
    models, faults = usable(contents, MODEL, Guards(norm=100))
    assert sorted(models) == [0, 1, 2, 3]
    assert faults == {4: "update: norm above 100 times the median"}
    assert 4 in usable(contents, MODEL, Guards(norm=0))[0]
    assert 4 not in usable({4: content([1e16, 0])}, MODEL)[0]  # alone, by the absolute bound


def test_whole_numbers_in_place_of_floats_are_measured_too():
    contents = {0: content(np.array([3, 4])), 1: content([1.0, 0]), 2: content([0.0, 1])}
    assert distance({"w": np.array([3, 4]), "seen": np.array(10**9)}, MODEL) == 5.0
    assert sorted(usable(contents, MODEL, Guards(norm=4))[0]) == [1, 2]


def strategy(n, guards, **more):
    """A strategy whose roster knows n clients, without a grid."""
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, seed=1, guards=guards, **more)
    made.members.meet({str(100 + k): Profile(f"bank{k // 4}-{k}") for k in range(n)})
    made.messenger.wait_for_clients = lambda: np.arange(n)
    made._running = True
    return made


def play(made, answers):
    """One round; ``answers`` gives the weights that a client sends, or None for silence."""
    arrays = codec.to_record(MODEL)
    sent = list(made.configure_train(1, arrays, ConfigRecord({}), None))
    replies = []
    for message in sent:
        client = message.metadata.dst_node_id - 100
        message.metadata.__dict__["_message_id"] = f"message-{client}"  # as the grid does when it is sent
        if answers(client) is not None:
            replies.append(Message(content(answers(client)), reply_to=message))
    assert all(message.metadata.message_type == MessageType.TRAIN for message in sent)
    return made.aggregate_train(1, replies)[0], made.history[-1]


def test_a_cohort_that_shrinks_below_the_minimum_moves_nothing():
    made = strategy(12, Guards(minimum=3))
    arrays, record = play(made, lambda k: [1.0, 1.0])
    assert codec.to_arrays(arrays)["w"].tolist() == [1.0, 1.0]
    first = record["cohort"][0]
    arrays, record = play(strategy(12, Guards(minimum=3)), lambda k: None if k == first else [1.0, 1.0])
    assert arrays is None
    assert record["notes"]["guards"] == {"too_few_completed": 2}
    assert len(record["answered"]) == 2


def test_fewer_clients_than_the_minimum_are_not_written_to():
    arrays, record = play(strategy(2, Guards(minimum=3)), lambda k: [1.0, 1.0])
    assert arrays is None
    assert record["cohort"] == []
    assert record["notes"]["guards"] == {"too_few_eligible": 2}


def test_unsound_updates_lead_to_quarantine():
    made = strategy(3, Guards(strikes=1, quarantine=2, norm=10))
    cohorts = [play(made, lambda k: [1e3, 0.0] if k == 1 else [1.0, 0.0])[1]["cohort"] for _ in range(4)]
    assert [1 in cohort for cohort in cohorts] == [True, False, False, True]


def test_quotas_go_by_the_owners_that_the_server_names():
    made = strategy(12, Guards(quota=1), owner_of=lambda name: name.split("-")[0])
    for _ in range(5):
        _, record = play(made, lambda k: [1.0, 0.0])
        assert sorted(k // 4 for k in record["cohort"]) == [0, 1, 2]  # three banks of four clients
        assert record["notes"]["guards"] == {"thinned": 9}


@pytest.mark.parametrize(
    ("guards", "told"),
    [
        (Guards(quota=1), r"Guards.quota must be 0 where owners are unknown; got 1.0."),
        (Guards(minimum=4), r"Guards.minimum must be at most the cohort, 3; got 4"),
    ],
)
def test_what_cannot_work_is_refused(guards, told):
    with pytest.raises(InputError, match=told):
        SelectorStrategy(load("uniform"), cohort=3, guards=guards)


def vectors(name, row):
    """A client that answers every question with one row, and trains."""
    inner = node(name, signals=["gradient"])

    def answered(message):
        if not message.metadata.message_type.startswith("query.gradient"):
            return inner(message)
        return RecordDict({codec.ROWS: codec.to_record({"gradient": np.asarray(row, np.float64)})})

    return answered


def test_a_client_that_comes_alone_does_not_fix_the_length_of_vectors():
    honest = {k: vectors(f"c{k}", [np.cos(k), np.sin(k)]) for k in range(1, 6)}
    grid = Loopback({0: vectors("c0", [1.0]), **honest})
    grid.offline = set(honest)
    made = SelectorStrategy(
        load("divfl", refresh="all"),
        cohort=2,
        guards=Guards(strikes=1, quarantine=10),
        strategy=FedAvg(fraction_evaluate=0.0, min_available_nodes=1),
        on_round=lambda record: grid.offline.clear(),
    )
    made.start(grid, codec.to_record({"w": np.zeros(2, np.float32)}), 6)
    first, *others = made.history
    assert [(q["signal"], q["asked"], q["answered"]) for q in first["questions"]] == [("gradient", 1, 0)]
    assert first["rejected"] == {"0": "gradient: shape (1,) in place of (2,)"}
    assert made.registrar.strikes.tolist() == [1, 0, 0, 0, 0, 0]
    full = [record for record in others if record["members"] == 6]
    assert len(full) >= 4
    for record in full:
        assert 0 not in record["cohort"]
        assert len(record["answered"]) == 2
    assert made.registrar.state.rows.shape == (6, 2)
