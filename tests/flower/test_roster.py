import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from sortition.core.errors import InputError
from sortition.flower.roster import Profile, Roster, natural

BIG = 2**64 - 5  # node ids are uint64 and do not fit int64


def sized(name, size=10):
    return Profile(name, {"sizes": np.array(size)})


def test_first_roster_is_sorted_naturally_by_name():
    roster = Roster()
    roster.meet({7: Profile("10"), BIG: Profile("2"), 5: Profile("1")})
    assert roster.names == ["1", "2", "10"]
    assert roster.node(1) == BIG
    assert roster.present([BIG, 7]).tolist() == [1, 2]


def test_natural_order_of_mixed_names():
    assert sorted(["b2", "b10", "a", "10", "9", "b2c"], key=natural) == ["9", "10", "a", "b2", "b2c", "b10"]


def test_who_joins_later_gets_the_next_id():
    roster = Roster(["sizes"])
    roster.meet({1: sized("b"), 2: sized("c")})
    roster.meet({3: sized("a", 99)})
    assert roster.names == ["b", "c", "a"]
    assert roster.population().sizes.tolist() == [10, 10, 99]


def test_who_comes_back_is_who_was_there():
    roster = Roster(["sizes"])
    roster.meet({1: sized("b"), 2: sized("c")})
    assert roster.strangers([1, 9]) == [9]
    roster.meet({9: sized("c", 12)})
    assert len(roster) == 2
    assert roster.node(1) == 9
    assert roster.present([1, 2]).tolist() == [0]  # the node that died counts no more
    assert roster.population().sizes.tolist() == [10, 12]


def test_two_nodes_of_one_name_are_refused_at_the_start():
    with pytest.raises(InputError, match=r"stable names must be different; got 'x' of two nodes"):
        Roster().meet({1: Profile("x"), 2: Profile("x")})


def test_nodes_without_a_name_are_told_apart():
    roster = Roster()
    roster.meet({1: Profile(""), 2: Profile("")})
    assert roster.names == ["node-1", "node-2"]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "its facts lack sizes"),
        ({"sizes": np.array(-1)}, "must be ≥ 0"),
        ({"sizes": np.array(np.nan)}, "must be finite"),
        ({"sizes": np.array([3, 4])}, "must be of shape"),
    ],
)
def test_unsound_facts_are_refused_with_a_reason(facts, reason):
    roster = Roster(["sizes"])
    roster.meet({1: sized("a")})
    assert reason in roster.meet({2: Profile("b", facts)})[2]
    assert roster.names == ["a"]


def test_a_roster_survives_a_restart_without_its_nodes():
    roster = Roster(["sizes"])
    roster.meet({1: sized("a", 3), 2: sized("b", 4)})
    again = Roster(["sizes"])
    again.restore(*roster.export())
    assert again.present([1, 2]).size == 0
    again.meet({8: sized("b", 4)})
    assert again.present([8]).tolist() == [1]


def test_any_text_can_be_a_name():
    names = ["²", "٣", "9" * 5000, "\x00", "client-10", "client-2"]
    assert sorted(names, key=natural).index("client-2") < sorted(names, key=natural).index("client-10")
