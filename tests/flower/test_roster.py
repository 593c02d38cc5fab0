import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from sortition.flower.roster import NodeProfile, Roster

BIG = 2**64 - 5  # node ids are uint64 and do not fit int64


def sized(name, size=10, key=""):
    return NodeProfile(name, {"sizes": np.array(size)}, key=key)


def test_first_roster_is_sorted_naturally_by_name():
    roster = Roster()
    roster.meet({7: NodeProfile("10"), BIG: NodeProfile("2"), 5: NodeProfile("1")})
    assert roster.names == ["1", "2", "10"]
    assert roster.node(1) == BIG
    assert roster.present([BIG, 7]).tolist() == [1, 2]


def test_who_joins_later_gets_the_next_id():
    roster = Roster(["sizes"])
    roster.meet({1: sized("b"), 2: sized("c")})
    roster.meet({3: sized("a", 99)})
    assert roster.names == ["b", "c", "a"]
    assert roster.population().sizes.tolist() == [10, 10, 99]


def test_who_comes_back_is_who_was_there():
    roster = Roster(["sizes"])
    roster.meet({1: sized("b"), 2: sized("c")})
    assert roster.unknown([1, 9]) == [9]
    roster.meet({9: sized("c", 12)})
    assert len(roster) == 2
    assert roster.node(1) == 9
    assert roster.present([1, 2]).tolist() == [0]  # the node that died counts no more
    assert roster.population().sizes.tolist() == [10, 12]


def test_of_two_nodes_of_one_name_the_later_is_refused():
    roster = Roster()
    assert roster.meet({1: NodeProfile("x"), 2: NodeProfile("x")}) == {
        2: "claims the name 'x' of node 1, which is online"
    }
    assert (roster.names, roster.node(0)) == (["x"], 1)


def test_a_name_whose_node_is_online_is_refused():
    roster = Roster(["sizes"])
    roster.meet({1: sized("a"), 2: sized("b")})
    assert "of node 2, which is online" in roster.meet({77: sized("b", 99)}, online=[1, 2, 77])[77]
    assert roster.node(1) == 2
    assert roster.population().sizes.tolist() == [10, 10]


def test_the_first_shape_is_that_of_most():
    roster = Roster(["label_counts"])
    told = {n: NodeProfile(f"c{n}", {"label_counts": np.ones(10)}) for n in range(2, 6)}
    refused = roster.meet({1: NodeProfile("!evil", {"label_counts": np.ones(1)}), **told})
    assert refused == {1: "sends label_counts of shape (1,) in place of (10,)"}
    assert roster.population().label_counts.shape == (4, 10)


def test_whole_numbers_of_all_widths_stack():
    roster = Roster(["groups", "sizes"])  # int64 beside uint64 would be floats, which groups cannot be
    kinds = [np.int64, np.uint64, np.uint8]
    told = {n: NodeProfile(f"{n}", {"groups": kind(3), "sizes": kind(4)}) for n, kind in enumerate(kinds)}
    refused = roster.meet({**told, 7: NodeProfile("7", {"groups": np.uint64(2**63), "sizes": np.array(1)})})
    assert list(refused) == [7]
    assert roster.population().groups.tolist() == [3, 3, 3]


def test_long_doubles_are_kept_as_floats():
    roster = Roster(["sizes"])
    roster.meet({1: NodeProfile("a", {"sizes": np.array(3, np.longdouble)})})
    assert roster.population().sizes.dtype == np.float64


def test_a_name_that_owner_of_cannot_read_is_refused():
    roster = Roster()
    roster.owner_of = lambda name: name.split("-")[1]
    refused = roster.meet({1: NodeProfile("bank-a"), 2: NodeProfile("nonsense")})
    assert "must be one that owner_of knows" in refused[2]
    assert roster.population().groups.tolist() == [0]


def test_nodes_without_a_name_are_told_apart():
    roster = Roster()
    roster.meet({1: NodeProfile(""), 2: NodeProfile("")})
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
    assert reason in roster.meet({2: NodeProfile("b", facts)})[2]
    assert roster.names == ["a"]


def test_a_roster_survives_a_restart_without_its_nodes():
    roster = Roster(["sizes"])
    roster.meet({1: sized("a", 3), 2: sized("b", 4)})
    again = Roster(["sizes"])
    again.restore(*roster.export())
    assert again.present([1, 2]).size == 0
    again.meet({8: sized("b", 4)})
    assert again.present([8]).tolist() == [1]


def profiles(*labels):
    """Clients with sizes, and with label counts where given."""
    return {
        node: NodeProfile(str(node), {"sizes": np.array(5)} | ({} if row is None else {"label_counts": np.array(row)}))
        for node, row in enumerate(labels)
    }


def test_an_optional_fact_counts_if_everybody_gives_it_when_the_first_round_begins():
    roster = Roster(["sizes"], ["label_counts"])
    assert roster.meet(profiles([1, 4], [2, 3])) == {}
    roster.settle()
    assert roster.population().facts == ("sizes", "label_counts")
    assert roster.optional == ()
    late = {9: NodeProfile("9", {"sizes": np.array(5)})}
    assert roster.meet(late) == {9: "its facts lack label_counts"}


def test_an_optional_fact_that_one_client_lacks_is_never_read():
    roster = Roster(["sizes"], ["label_counts"])
    assert roster.meet(profiles([1, 4], None)) == {}
    roster.settle()
    assert roster.population().facts == ("sizes",)
    assert roster.meet({9: NodeProfile("9", {"sizes": np.array(5), "label_counts": np.array([1, 4])})}) == {}
    assert roster.population().facts == ("sizes",)


@pytest.mark.parametrize("rows", [([1, 4], [2, 3]), ([1, 4], None)])
def test_a_restored_roster_keeps_what_was_settled(rows):
    roster, later = Roster(["sizes"], ["label_counts"]), Roster(["sizes"], ["label_counts"])
    roster.meet(profiles(*rows))
    roster.settle()
    later.restore(*roster.export())
    assert (later.reads, later.optional) == (roster.reads, ())


def test_without_authentication_a_client_comes_back_with_another_key():
    roster = Roster(("sizes",))
    roster.meet({1: sized("a", 10, "key of a"), 2: sized("b", 10, "key of b")})
    assert roster.meet({9: sized("a", 10, "another key")}, online=[2]) == {}
    assert roster.present([2, 9]).tolist() == [0, 1]


def test_a_name_belongs_to_the_key_that_first_had_it():
    roster = Roster(["sizes"])
    roster.bind_keys = True
    assert roster.meet({1: sized("a", 10, "key of a"), 2: sized("b", 10, "key of b")}) == {}
    refused = roster.meet({9: sized("a", 10, "another key")}, online=[2])  # its holder is offline
    assert refused == {9: "claims the name 'a', which belongs to a node with another key"}
    assert roster.meet({8: sized("a", 10)}, online=[2]).keys() == {8}  # without a key neither
    assert roster.meet({7: sized("a", 10, "key of a")}, online=[2]) == {}
    assert roster.node(0) == 7


@pytest.mark.parametrize("size", [10**9, 101, 0])
def test_a_client_that_comes_back_cannot_have_any_size(size):
    roster = Roster(["sizes"])
    roster.meet({1: sized("a", 10), 2: sized("b", 10)})
    refused = roster.meet({9: sized("a", size)}, online=[2])
    assert refused == {9: f"comes back as 'a' with {size:g} examples; it had 10"}
    assert roster.population().sizes.tolist() == [10, 10]
    assert roster.meet({8: sized("a", 50)}, online=[2]) == {}
    assert roster.population().sizes.tolist() == [50, 10]


def test_a_restored_roster_knows_no_nodes_of_clients_that_it_no_longer_has():
    roster = Roster(["sizes"])
    roster.meet({1: sized("b"), 2: sized("c")})
    saved = roster.export()
    roster.meet({3: sized("d")})  # after the checkpoint
    roster.restore(*saved)
    assert roster.present([1, 2, 3]).tolist() == []
    assert roster.unknown([1, 2, 3]) == [1, 2, 3]
