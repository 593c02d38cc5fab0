"""Who is who: names, ids, facts and keys of clients that come and go."""

import numpy as np
import pytest

from sortition.federation.members import Members
from sortition.federation.messages import Peer, Profile

BIG = 2**64 - 5  # Flower's node ids are uint64 and do not fit int64
KEYS = {}  # of the profiles that have one


def sized(name, size=10, key=""):
    profile = Profile(name, {"sizes": np.array(size)})
    KEYS[id(profile)] = profile, key
    return profile


def meet(members, profiles, online=()):
    """Let nodes, known by numbers, say who they are; who is refused, and why."""
    peers = {str(node): Peer(key=KEYS.get(id(profile), (None, ""))[1]) for node, profile in profiles.items()}
    said = {str(node): profile for node, profile in profiles.items()}
    refused = members.meet(said, peers, [str(node) for node in online])
    return {int(session): reason for session, reason in refused.items()}


def present(members, nodes):
    return members.find_present([str(node) for node in nodes]).tolist()


def node(members, client):
    return int(members.session_of(client))


def test_the_first_members_are_sorted_naturally_by_name():
    members = Members()
    meet(members, {7: Profile("10"), BIG: Profile("2"), 5: Profile("1")})
    assert members.names == ["1", "2", "10"]
    assert node(members, 1) == BIG
    assert present(members, [BIG, 7]) == [1, 2]


def test_who_joins_later_gets_the_next_id():
    members = Members(["sizes"])
    meet(members, {1: sized("b"), 2: sized("c")})
    meet(members, {3: sized("a", 99)})
    assert members.names == ["b", "c", "a"]
    assert members.population().sizes.tolist() == [10, 10, 99]


def test_who_comes_back_is_who_was_there():
    members = Members(["sizes"])
    meet(members, {1: sized("b"), 2: sized("c")})
    assert members.find_strangers(["1", "9"]) == ["9"]
    meet(members, {9: sized("c", 12)})
    assert len(members) == 2
    assert node(members, 1) == 9
    assert present(members, [1, 2]) == [0]  # the node that died counts no more
    assert members.population().sizes.tolist() == [10, 12]


def test_of_two_nodes_of_one_name_the_later_is_refused():
    members = Members()
    assert meet(members, {1: Profile("x"), 2: Profile("x")}) == {2: "claims the name 'x' of node 1, which is online"}
    assert (members.names, node(members, 0)) == (["x"], 1)


def test_a_name_whose_node_is_online_is_refused():
    members = Members(["sizes"])
    meet(members, {1: sized("a"), 2: sized("b")})
    assert "of node 2, which is online" in meet(members, {77: sized("b", 99)}, online=[1, 2, 77])[77]
    assert node(members, 1) == 2
    assert members.population().sizes.tolist() == [10, 10]


def test_the_first_shape_is_that_of_most():
    members = Members(["label_counts"])
    told = {n: Profile(f"c{n}", {"label_counts": np.ones(10)}) for n in range(2, 6)}
    refused = meet(members, {1: Profile("!evil", {"label_counts": np.ones(1)}), **told})
    assert refused == {1: "sends label_counts of shape (1,) in place of (10,)"}
    assert members.population().label_counts.shape == (4, 10)


def test_whole_numbers_of_all_widths_stack():
    members = Members(["groups", "sizes"])  # int64 beside uint64 would be floats, which groups cannot be
    kinds = [np.int64, np.uint64, np.uint8]
    told = {n: Profile(f"{n}", {"groups": kind(3), "sizes": kind(4)}) for n, kind in enumerate(kinds)}
    refused = meet(members, {**told, 7: Profile("7", {"groups": np.uint64(2**63), "sizes": np.array(1)})})
    assert list(refused) == [7]
    assert members.population().groups.tolist() == [3, 3, 3]


def test_long_doubles_are_kept_as_floats():
    members = Members(["sizes"])
    meet(members, {1: Profile("a", {"sizes": np.array(3, np.longdouble)})})
    assert members.population().sizes.dtype == np.float64


def test_a_name_that_owner_of_cannot_read_is_refused():
    members = Members()
    members.owner_of = lambda name: name.split("-")[1]
    refused = meet(members, {1: Profile("bank-a"), 2: Profile("nonsense")})
    assert "must be one that owner_of knows" in refused[2]
    assert members.population().groups.tolist() == [0]


def test_nodes_without_a_name_are_told_apart():
    members = Members()
    meet(members, {1: Profile(""), 2: Profile("")})
    assert members.names == ["node-1", "node-2"]


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
    members = Members(["sizes"])
    meet(members, {1: sized("a")})
    assert reason in meet(members, {2: Profile("b", facts)})[2]
    assert members.names == ["a"]


def test_members_survive_a_restart_without_its_nodes():
    members = Members(["sizes"])
    meet(members, {1: sized("a", 3), 2: sized("b", 4)})
    again = Members(["sizes"])
    again.restore(*members.export())
    assert present(again, [1, 2]) == []
    meet(again, {8: sized("b", 4)})
    assert present(again, [8]) == [1]


def profiles(*labels):
    """Clients with sizes, and with label counts where given."""
    return {
        node: Profile(str(node), {"sizes": np.array(5)} | ({} if row is None else {"label_counts": np.array(row)}))
        for node, row in enumerate(labels)
    }


def test_an_optional_fact_counts_if_everybody_gives_it_when_the_first_round_begins():
    members = Members(["sizes"], ["label_counts"])
    assert meet(members, profiles([1, 4], [2, 3])) == {}
    members.settle()
    assert members.population().facts == ("sizes", "label_counts")
    assert members.optional == ()
    late = {9: Profile("9", {"sizes": np.array(5)})}
    assert meet(members, late) == {9: "its facts lack label_counts"}


def test_an_optional_fact_that_one_client_lacks_is_never_read():
    members = Members(["sizes"], ["label_counts"])
    assert meet(members, profiles([1, 4], None)) == {}
    members.settle()
    assert members.population().facts == ("sizes",)
    assert meet(members, {9: Profile("9", {"sizes": np.array(5), "label_counts": np.array([1, 4])})}) == {}
    assert members.population().facts == ("sizes",)


@pytest.mark.parametrize("rows", [([1, 4], [2, 3]), ([1, 4], None)])
def test_restored_members_keeps_what_was_settled(rows):
    members, later = Members(["sizes"], ["label_counts"]), Members(["sizes"], ["label_counts"])
    meet(members, profiles(*rows))
    members.settle()
    later.restore(*members.export())
    assert (later.reads, later.optional) == (members.reads, ())


def test_without_authentication_a_client_comes_back_with_another_key():
    members = Members(("sizes",))
    meet(members, {1: sized("a", 10, "key of a"), 2: sized("b", 10, "key of b")})
    assert meet(members, {9: sized("a", 10, "another key")}, online=[2]) == {}
    assert present(members, [2, 9]) == [0, 1]


def test_a_name_belongs_to_the_key_that_first_had_it():
    members = Members(["sizes"])
    members.bind_keys = True
    assert meet(members, {1: sized("a", 10, "key of a"), 2: sized("b", 10, "key of b")}) == {}
    refused = meet(members, {9: sized("a", 10, "another key")}, online=[2])  # its holder is offline
    assert refused == {9: "claims the name 'a', which belongs to a node with another key"}
    assert meet(members, {8: sized("a", 10)}, online=[2]).keys() == {8}  # without a key neither
    assert meet(members, {7: sized("a", 10, "key of a")}, online=[2]) == {}
    assert node(members, 0) == 7


@pytest.mark.parametrize("size", [10**9, 101, 0])
def test_a_client_that_comes_back_cannot_have_any_size(size):
    members = Members(["sizes"])
    meet(members, {1: sized("a", 10), 2: sized("b", 10)})
    refused = meet(members, {9: sized("a", size)}, online=[2])
    assert refused == {9: f"comes back as 'a' with {size:g} examples; it had 10"}
    assert members.population().sizes.tolist() == [10, 10]
    assert meet(members, {8: sized("a", 50)}, online=[2]) == {}
    assert members.population().sizes.tolist() == [50, 10]


def test_restored_members_knows_no_nodes_of_clients_that_it_no_longer_has():
    members = Members(["sizes"])
    meet(members, {1: sized("b"), 2: sized("c")})
    saved = members.export()
    meet(members, {3: sized("d")})  # after the checkpoint
    members.restore(*saved)
    assert present(members, [1, 2, 3]) == []
    assert members.find_strangers(["1", "2", "3"]) == ["1", "2", "3"]


def test_members_say_who_can_answer_a_question():
    members = Members(reads=("sizes",))
    able = Profile(name="able", facts={"sizes": np.array(3)}, signals=("loss", "resources"))
    unable = Profile(name="unable", facts={"sizes": np.array(3)}, signals=("loss",))
    assert members.meet({"s1": able, "s2": unable}) == {}
    assert members.keep_able(np.array([0, 1]), "resources").tolist() == [0]
    assert members.keep_able(np.array([0, 1]), "loss").tolist() == [0, 1]


def test_sessions_that_ended_leave_nothing_behind():
    """A device that restarts without end must not fill the memory with what it says it answers."""
    members = Members()
    for start in range(50):
        members.meet({f"a/{start}": Profile("a", {}, (f"signal-{start}",))}, {f"a/{start}": Peer(name="a")})
    assert list(members._signals_of_session) == ["a/49"]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2J", "a" * 1_000])
def test_names_that_a_log_cannot_show_are_refused(name):
    refused = Members().meet({"1": Profile(name, {}, ())})
    assert "name must be" in refused["1"]
    assert refused["1"].isprintable()
    assert len(refused["1"]) < 300
