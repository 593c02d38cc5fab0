"""Who takes part when strangers lie about who they are, and what happens when nobody is there."""

import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import MODEL, Loopback, fails, node

from sortition.core.errors import InputError
from sortition.federation import messenger
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load


class Enrolled:
    """The enrolment of a federation whose rounds nobody plays."""

    def __init__(self, method="by-size", patience=0.0, timeout=0.01):
        quiet = FedAvg(fraction_evaluate=0.0, min_available_nodes=1)
        waiting = {"patience": patience, "profile_timeout": timeout}
        self.strategy = SelectorStrategy(load(method), cohort=1, strategy=quiet, **waiting)
        self.members = self.strategy.members

    def present(self, grid):
        self.strategy.transport.grid = grid
        return self.strategy.messenger.wait_for_clients()

    def node(self, client):
        return int(self.members.session_of(client))


def sized(name, size=100):
    return node(name, {"sizes": np.array(size)})


def strategy(cohort=2, **options):
    return SelectorStrategy(
        load("uniform", weights="uniform"),
        cohort=cohort,
        strategy=FedAvg(fraction_evaluate=0.0, min_available_nodes=1),
        **options,
    )


def test_a_name_whose_node_is_online_cannot_be_claimed():
    grid, found = Loopback({n: sized(f"c{n}") for n in range(1, 6)}), Enrolled()
    assert found.present(grid).tolist() == [0, 1, 2, 3, 4]
    grid.nodes[77] = sized("c3", 10**9)
    assert found.present(grid).tolist() == [0, 1, 2, 3, 4]
    assert found.node(2) == 3
    assert found.members.population().sizes.tolist() == [100] * 5
    asked = grid.count(codec.PROFILE)
    found.present(grid)
    assert grid.count(codec.PROFILE) == asked  # it is not asked again while the node of that name is there
    grid.offline.add(3)
    assert found.present(grid).tolist() == [0, 1, 3, 4]  # nobody comes back with ten million times as many examples
    grid.nodes[78] = sized("c3", 150)
    assert found.present(grid).tolist() == [0, 1, 2, 3, 4]  # a restarted node whose old id has lapsed
    assert found.node(2) == 78


def test_a_node_whose_name_another_took_is_asked_again_when_it_returns():
    grid, found = Loopback({1: sized("a"), 2: sized("b")}), Enrolled()
    found.present(grid)
    grid.offline.add(2)
    grid.nodes[9] = sized("b")
    found.present(grid)
    assert found.node(1) == 9
    grid.offline = {9}
    assert found.present(grid).tolist() == [0, 1]
    assert found.node(1) == 2


def test_of_two_nodes_with_one_name_the_first_takes_part(caplog):
    grid, found = Loopback({1: sized("x"), 2: sized("x"), 3: sized("y")}), Enrolled()
    assert found.present(grid).tolist() == [0, 1]
    assert (found.members.names, found.node(0)) == (["x", "y"], 1)


def test_the_shape_of_most_counts_and_the_others_are_asked_again(monkeypatch):
    monkeypatch.setattr(messenger, "LONGEST_PAUSE", 0.01)
    liar = {"label_counts": np.ones(1), "sizes": np.array(5)}
    honest = {"label_counts": np.ones(10), "sizes": np.array(5)}
    grid = Loopback({1: node("!evil", liar), **{n: node(f"c{n}", honest) for n in range(2, 6)}})
    found = Enrolled("fedss")
    assert found.present(grid).tolist() == [0, 1, 2, 3]
    assert found.members.names == ["c2", "c3", "c4", "c5"]
    grid.nodes[1] = node("mended", honest)
    time.sleep(0.02)
    assert found.present(grid).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [2**53 + 1, 1e308, 2**63, -1, np.nan])
def test_nodes_of_absurd_size_are_kept_out(size):
    grid, found = Loopback({1: sized("a"), 2: sized("liar", size), 3: sized("c")}), Enrolled()
    assert found.present(grid).tolist() == [0, 1]
    assert found.members.names == ["a", "c"]


def test_absurd_label_counts_are_kept_out():
    facts = [{"label_counts": np.full(10, n), "sizes": np.array(9)} for n in (5.0, 1e308, 2.0**52)]
    grid, found = Loopback({n: node(f"c{n}", told) for n, told in enumerate(facts)}), Enrolled("fedss")
    assert found.present(grid).tolist() == [0]


def test_a_newcomer_joins_the_registrar_though_another_fails():
    grid = Loopback({1: node("a"), 2: node("b")})

    def arrives(record):
        grid.nodes |= {3: fails, 4: node("d")}

    made = strategy(patience=0.0, on_round=arrives)
    made.start(grid, codec.to_record(MODEL), 3)
    assert [record["members"] for record in made.history] == [2, 3, 3]
    assert made.history[-1]["present"] == [0, 1, 2]


@pytest.mark.parametrize("code", [3, 4, 5])  # message, reply or node unavailable
def test_a_question_that_got_lost_is_asked_again_and_ends_nothing(code):
    def late(message):
        grid.nodes[1] = sized("a")
        raise RuntimeError("Message Unavailable", code)

    grid = Loopback({1: late})
    assert Enrolled().present(grid).tolist() == [0]
    assert grid.count(codec.PROFILE) == 2


def test_that_no_app_answers_is_a_sentence_at_the_start():
    with pytest.raises(InputError, match=r"No node can take part; node \d: does not say who it is"):
        Enrolled().present(Loopback({1: fails, 2: fails}))


def test_places_that_nobody_can_fill_are_recorded():
    made = strategy(cohort=3)
    made.start(Loopback({1: node("a"), 2: node("b")}), codec.to_record(MODEL), 1)
    assert made.history[0]["notes"]["shortfall"] == 1
    made = strategy(cohort=2)
    made.start(Loopback({1: node("a"), 2: node("b")}), codec.to_record(MODEL), 1)
    assert "shortfall" not in made.history[0]["notes"]


def test_a_round_in_which_nobody_is_there_is_skipped_and_recorded(tmp_path):
    grid = Loopback({1: node("a"), 2: node("b")})

    def weather(record):
        grid.offline = {1, 2} if record["round"] == 0 else set()

    made = strategy(patience=0.05, on_round=weather, checkpoint=tmp_path / "c.npz", audit=tmp_path / "a.jsonl")
    began = time.monotonic()
    result = made.start(grid, codec.to_record(MODEL), 3)
    assert time.monotonic() - began >= 0.05
    assert [record["notes"].get("skipped") for record in made.history] == [None, "nobody available", None]
    assert made.history[1]["cohort"] == made.history[1]["present"] == []
    assert codec.to_arrays(result.arrays)["w"].tolist() == [1.0, 1.0]
    assert made.registrar.index == 3


def test_as_many_nodes_as_the_strategy_wants_are_waited_for_before_every_round():
    grid = Loopback({1: node("a"), 2: node("b"), 3: node("c")})

    def weather(record):
        grid.offline = {3} if record["round"] == 0 else set()

    made = SelectorStrategy(
        load("uniform", weights="uniform"),
        cohort=2,
        strategy=FedAvg(fraction_evaluate=0.0, min_available_nodes=3),
        patience=0.05,
        on_round=weather,
    )
    made.start(grid, codec.to_record(MODEL), 3)
    assert [record["notes"].get("skipped") for record in made.history] == [None, "nobody available", None]


def hangs(message):
    """A node whose app never answers."""


def test_a_newcomer_that_hangs_holds_nobody_up(caplog):
    grid = Loopback({1: node("a"), 2: node("b")})

    def arrives(record):
        grid.nodes[3] = hangs
        if record["round"] == 2:
            time.sleep(0.25)

    made = strategy(profile_timeout=0.2, answer_timeout=60.0, on_round=arrives)
    began = time.monotonic()
    made.start(grid, codec.to_record(MODEL), 4)
    assert time.monotonic() - began < 5
    assert [record["answered"] for record in made.history] == [[0, 1]] * 4
    assert "Node 3 did not say who it is in 0.2 s" in caplog.text
    assert grid.count(codec.PROFILE) == 3  # it is asked beside training, and not in every round


def test_a_node_that_hangs_before_the_first_round_is_waited_for_as_long_as_a_profile_may_take(caplog):
    grid, made = Loopback({1: node("a"), 2: hangs, 3: node("c")}), strategy(profile_timeout=0.1)
    made.start(grid, codec.to_record(MODEL), 1)
    assert made.history[0]["present"] == [0, 1]
    assert made.history[0]["names"] == ["a", "c"]
    assert "Node 2 did not say who it is" in caplog.text


def test_a_slow_newcomer_takes_part_from_the_round_after_its_answer():
    class Slow(Loopback):
        """The first answer of node 3 is there at the second look."""

        def pull_messages(self, message_ids):
            late = {key for key in message_ids if key in self.waiting and self.looks.setdefault(key, 0) < 2}
            late &= {key for key in late if self.waiting[key].metadata.src_node_id == 3}
            for key in late:
                self.looks[key] += 1
            return super().pull_messages([key for key in message_ids if key not in late])

    grid = Slow({1: node("a"), 2: node("b")})
    grid.looks = {}
    made = strategy(cohort=3, on_round=lambda record: grid.nodes.setdefault(3, node("c")))
    made.start(grid, codec.to_record(MODEL), 4)
    available = [record["present"] for record in made.history]
    assert available[0] == available[1] == [0, 1]
    assert available[-1] == [0, 1, 2]
