"""Late updates and buffered steps in Flower: through push and pull, while the user's own strategy aggregates."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, FedXgbBagging
from tests.flower.loopback import MODEL, Loopback, node

from sortition.core import InputError
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

LATE = {"quorum": 0.5, "late": "use"}
BUFFERED = {"kind": "buffered", "buffer": 2}


class SlowNodes(Loopback):
    """Some nodes answer their training only when so many more trainings were sent."""

    def __init__(self, nodes, slow):
        super().__init__(nodes)
        self.slow = slow
        self.released_at = {}

    def trainings(self):
        return self.count("train")

    def push_messages(self, messages):
        made = super().push_messages(messages)
        for key, message in zip(made, messages, strict=True):
            if message.metadata.message_type == "train":
                delay = self.slow.get(message.metadata.dst_node_id, 0)
                self.released_at[key] = self.trainings() + delay
        return made

    def pull_messages(self, message_ids):
        released = [key for key in message_ids if self.released_at.get(key, 0) <= self.trainings()]
        return super().pull_messages(released)


def grid(slow, count=6):
    facts = {"sizes": np.asarray(5.0)}
    metrics = {"num-examples": 5}
    nodes = {k: node(f"client-{k}", facts, metrics, w=(1.0 + k, 1.0)) for k in range(1, count + 1)}
    return SlowNodes(nodes, slow)


def quiet(kind=FedAvg, **options):
    return kind(fraction_evaluate=0.0, min_available_nodes=1, **options)


def started(pace, network, rounds=8, strategy=None, **options):
    made = SelectorStrategy(
        load("uniform", weights="uniform"), cohort=4, pace=pace, strategy=strategy or quiet(), **options
    )
    result = made.start(network, codec.to_record(MODEL), rounds, timeout=30.0)
    return made, codec.to_arrays(result.arrays)["w"]


def check_accounts(records):
    flying = set()
    for record in records:
        used = record["cohort"] if record["answered"] is None else record["answered"]
        ended = [*used, *record["notes"].get("unsound_updates", [])]
        for fate in ("failed", "given_up", "too_stale"):
            ended += [int(client) for client in record.get(fate, {})]
        assert len(set(ended)) == len(ended)
        assert not flying & set(record["cohort"])
        flying = (flying | set(record["cohort"])) - set(ended)
        assert record.get("in_flight", 0) == len(flying)


@pytest.mark.parametrize("pace", [LATE, BUFFERED], ids=["late", "buffered"])
@pytest.mark.parametrize("strategy", [FedAvg, FedAdam])
def test_steps_no_longer_wait_for_slow_nodes(pace, strategy):
    made, model = started(pace, grid({1: 4, 2: 4}), strategy=quiet(strategy))
    assert [record["round"] for record in made.history] == list(range(8))
    assert any("staleness" in record for record in made.history)
    assert np.isfinite(model).all()
    check_accounts(made.history)


def test_a_stale_model_reaches_the_strategy_rebased():
    """The strategy's messages hold w_v + (w_k − w_{v−τ}) of a stale client."""
    seen = []

    class Watching(FedAvg):
        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            seen.append({r.metadata.src_node_id: codec.to_arrays(r.content["arrays"])["w"].tolist() for r in replies})
            return super().aggregate_train(server_round, replies)

    network = grid({1: 4}, count=4)
    made, _ = started({"quorum": 3, "late": "use", "staleness": "constant"}, network, 4, strategy=quiet(Watching))
    stale = next(row for row, record in enumerate(made.history) if "staleness" in record)
    record = made.history[stale]
    place = next(k for k, tau in enumerate(record["staleness"]) if tau)
    client = record["answered"][place]
    assert made.members[client].name == "client-1"
    assert seen[stale][1] != [2.0, 1.0]  # as it was sent


def test_a_quorum_alone_does_not_overlap():
    made, _ = started({"quorum": 0.5}, grid({1: 99, 2: 99}), rounds=4)
    assert not any("staleness" in record or "in_flight" in record for record in made.history)


@pytest.mark.parametrize(
    ("strategy", "pace", "message"),
    [
        (quiet(FedXgbBagging), LATE, r"for FedXgbBagging, which trains trees"),
        (
            DifferentialPrivacyServerSideFixedClipping(quiet(), 0.1, 1.0, 4),
            LATE,
            r"one whose rounds do not overlap for DifferentialPrivacy",
        ),
        (quiet(), {**BUFFERED, "refill": "arrival"}, r"pace\.refill must be 'step' in Flower"),
    ],
)
def test_what_a_strategy_cannot_do_is_refused_by_name(strategy, pace, message):
    with pytest.raises(InputError, match=message):
        SelectorStrategy(load("uniform", weights="uniform"), cohort=4, pace=pace, strategy=strategy)


def test_after_a_restart_work_in_flight_is_given_up_by_name(tmp_path):
    options = {"checkpoint": tmp_path / "run.npz", "resume": True}
    first, _ = started(LATE, grid({1: 99, 2: 99}), rounds=4, **options)
    at_work = first.history[-1]["in_flight"]
    assert at_work
    again, _ = started(LATE, grid({}), rounds=8, **options)
    given_up = {k: why for record in again.history for k, why in record.get("given_up", {}).items()}
    assert len(given_up) == at_work
    assert set(given_up.values()) == {"the server restarted"}
    check_accounts(again.history)


@pytest.mark.parametrize("timeout", [600, 1800, 1800.0, None])
def test_a_timeout_beside_the_deadline_of_the_pace_is_refused_by_its_own_name(timeout):
    strategy = SelectorStrategy(load("uniform"), cohort=4, pace={"deadline": 30.0}, strategy=quiet())
    with pytest.raises(
        InputError, match=r"start\(timeout\) must be left out where the pace has a deadline \(30\.0 s\)"
    ):
        strategy.start(grid({}), codec.to_record(MODEL), 1, timeout=timeout)


def test_the_deadline_of_the_pace_decides_where_no_timeout_is_given():
    strategy = SelectorStrategy(load("uniform"), cohort=4, pace={"deadline": 30.0}, strategy=quiet())
    strategy.start(grid({}), codec.to_record(MODEL), 1)
    assert strategy.driver.pace.deadline == 30.0


def test_a_timeout_that_is_no_number_of_seconds_is_refused_by_its_own_name():
    strategy = SelectorStrategy(load("uniform"), cohort=4, strategy=quiet())
    with pytest.raises(InputError, match=r"start\(timeout\) must be seconds > 0, or None; got -1"):
        strategy.start(grid({}), codec.to_record(MODEL), 1, timeout=-1)
