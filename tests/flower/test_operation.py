"""How a Flower federation is operated, on a fake clock: order of answers, facts, one deadline, newcomers, sinks."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import MODEL, Loopback

from sortition.core.storage import snapshot
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

NEVER = float("inf")
UNIFORM = load("uniform", weights="uniform")


class Node:
    """A client with facts, a loss, and seconds that each kind of message takes."""

    def __init__(self, name, *, facts=None, loss=1.0, **seconds):
        self.name = name
        self.facts = dict(facts or {})
        self.loss = loss
        self.seconds = seconds

    def __call__(self, message):
        kind = message.metadata.message_type
        if kind == codec.PROFILE:
            profile = ConfigRecord({"name": self.name, "signals": ["loss"]})
            facts = {name: np.asarray(value) for name, value in self.facts.items()}
            return RecordDict({codec.SELF: profile, codec.FACTS: codec.to_record(facts)})
        if kind == codec.query("loss"):
            return RecordDict({codec.ROWS: codec.to_record({"loss": np.asarray(self.loss)})})
        arrays = codec.to_record({"w": np.ones(2, np.float32)})
        return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 5})})

    def delay(self, kind):
        return self.seconds.get(kind.rpartition(".")[2], 0.1)


class ClockedGrid(Loopback):
    """A grid whose replies come after their nodes' seconds; time passes only while the server sleeps."""

    def __init__(self, *nodes):
        super().__init__(dict(enumerate(nodes)))
        self.now = 0.0
        self.arrival = {}

    def push_messages(self, messages):
        messages = list(messages)
        handles = super().push_messages(messages)
        for handle, message in zip(handles, messages, strict=True):
            node = self.nodes[message.metadata.dst_node_id]
            self.arrival[handle] = self.now + node.delay(message.metadata.message_type)
        return handles

    def pull_messages(self, message_ids):
        handles = [handle for handle in message_ids if self.arrival[handle] <= self.now]
        return super().pull_messages(sorted(handles, key=self.arrival.__getitem__))

    def sleep(self, seconds):
        self.now += seconds

    def asked(self, kind, node):
        return sum(
            message.metadata.message_type == kind and message.metadata.dst_node_id == node for message in self.sent
        )


@pytest.fixture
def played(monkeypatch):
    """Plays rounds of a strategy on a clocked grid, and returns the strategy."""

    def play(grid, selector=UNIFORM, *, rounds=1, timeout=20.0, cohort=4, **options):
        clock = SimpleNamespace(monotonic=lambda: grid.now, sleep=grid.sleep)
        monkeypatch.setattr("sortition.flower.grid_transport.time", clock)

        class OnThatClock(SelectorStrategy):
            def _set_up(self, options):
                super()._set_up(options)
                self.messenger.clock = clock.monotonic

        strategy = OnThatClock(selector, cohort=cohort, strategy=FedAvg(fraction_evaluate=0.0), **options)
        strategy.start(grid, codec.to_record(MODEL), rounds, timeout=timeout)
        return strategy

    return play


def test_choices_do_not_depend_on_the_order_in_which_equal_answers_come(played):
    selector = load("power-of-choice", d=4)
    cohorts = set()
    for delays in permutations([0.1, 1.0, 2.0, 3.0]):
        nodes = [Node(f"c{k}", facts={"sizes": 5}, loss=2.3) for k in range(4)]
        for node, delay in zip(nodes, delays, strict=True):
            node.seconds["loss"] = delay
        strategy = played(ClockedGrid(*nodes), selector, cohort=2, rounds=2, timeout=100.0)
        cohorts.add(str([record["cohort"] for record in strategy.history]))
    assert len(cohorts) == 1


def test_a_battery_floor_is_decided_on_what_is_true_now(played):
    nodes = [Node(f"c{k}", facts={"battery": 0.9}) for k in range(3)]

    def drains(record):
        nodes[1].facts["battery"] = [0.1, 0.5][record["round"] % 2]

    strategy = played(
        ClockedGrid(*nodes),
        rounds=3,
        cohort=3,
        facts=["battery"],
        eligible=lambda name, facts: facts["battery"] > 0.2,
        on_round=drains,
    )
    assert [sorted(record["cohort"]) for record in strategy.history] == [[0, 1, 2], [0, 2], [0, 1, 2]]


def test_one_deadline_includes_questions_and_who_is_silent_is_asked_less_and_less_often(played):
    grid = ClockedGrid(*(Node(f"c{k}", facts={"sizes": 5}) for k in range(3)))
    grid.nodes[3] = Node("sleeper", facts={"sizes": 5})
    grid.nodes[3].seconds = {"loss": NEVER, "train": NEVER}
    ends = []
    strategy = played(
        grid, load("power-of-choice", d=4), rounds=6, cohort=2, on_round=lambda record: ends.append(grid.now)
    )
    assert np.diff([0.0, *ends]).max() <= 20.0
    assert strategy.history[0]["questions"][0]["answered"] == 3
    assert grid.asked(codec.query("loss"), 3) < 4  # then after 1, 2, 4 … selections
    assert grid.asked("train", 3) == 0


def test_a_node_that_still_trains_is_busy_and_neither_asked_nor_chosen(played):
    grid = ClockedGrid(*(Node(f"c{k}", facts={"sizes": 5}) for k in range(3)), Node("slow", facts={"sizes": 5}))
    grid.nodes[3].seconds = {"train": 15.0}
    strategy = played(grid, load("power-of-choice", d=4), rounds=2, cohort=3, overselect=1.3, timeout=20.0)
    first, second = strategy.history
    assert (first["standby"], first["silent"]) == ([3], [])
    assert (second["busy"], second["available"]) == (1, 3)
    assert grid.asked(codec.query("loss"), 3) == 1


def test_a_newcomer_does_not_void_a_round_in_flight(played):
    grid = ClockedGrid(Node("a"), Node("b"))
    push = grid.push_messages

    def push_and_grow(messages):
        messages = list(messages)
        if any(message.metadata.message_type == "train" for message in messages):
            grid.nodes.setdefault(7, Node("newcomer"))
        return push(messages)

    grid.push_messages = push_and_grow
    strategy = played(grid, rounds=3, cohort=3)
    assert sorted(strategy.history[0]["cohort"]) == [0, 1]
    assert sorted(strategy.history[-1]["cohort"]) == [0, 1, 2]
    assert all(len(record["answered"] or record["cohort"]) == len(record["cohort"]) for record in strategy.history)


def test_what_on_round_raises_ends_nothing_and_comes_after_journal_and_checkpoint(played, tmp_path):
    seen = []

    def raising(record):
        _, header = snapshot.load(tmp_path / "run.npz")
        seen.append((record["round"], header["rounds"]))
        raise RuntimeError("the dashboard is down")

    grid = ClockedGrid(Node("a"), Node("b"))
    strategy = played(grid, rounds=3, cohort=2, checkpoint=tmp_path / "run.npz", on_round=raising)
    assert seen == [(0, 1), (1, 2), (2, 3)]
    assert len(strategy.history) == 3
