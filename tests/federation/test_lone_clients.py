"""One client that fails, refuses or lies says nothing of the others: it does not end a federation."""

import json
from dataclasses import replace

import numpy as np
import pytest
from campaign.trust import TRUSTED
from tests.federation.fake import Device, Federation, Network
from tests.federation.test_messenger import Everybody, devices

from sortition.core import LOSS, Cohort, Guards, InputError, Needs, Selector, State, method
from sortition.federation.members import Members
from sortition.federation.messages import Profile, Reply
from sortition.federation.model_screening import ModelCheck

QUIET = Everybody(asking=False)


class Refuser(Device):
    """A client that does not say who it is."""

    def answer(self, ask, handle):
        return Reply(handle, "failed", "no")


class Unsure(Device):
    """A client that says that only a training shows whether it can report, and fails to train on trial."""

    reports = False

    def answer(self, ask, handle):
        if ask.kind == "profile":
            return Reply(handle, profile=Profile(self.name, {}, ("loss",), unsure=("loss",)))
        if ask.kind == "query" and not self.reports:
            return Reply(handle, "failed", "no such metric")
        return super().answer(ask, handle)


@method
class Reported(Selector[State]):
    """All who are there, of whom losses are reported."""

    needs = Needs(reports=(LOSS,))

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])
        yield


def arrive(network, *newcomers):
    """Let devices come online at the next look for messages."""
    poll = network.poll

    def poll_with_newcomers(wait):
        replies = poll(wait)
        for number, device in enumerate(newcomers, 100):
            network.devices.setdefault(f"session-{number}", device)
        return replies

    network.poll = poll_with_newcomers


@pytest.mark.parametrize("wait_for", [1, 3])
def test_a_client_that_comes_first_and_cannot_take_part_does_not_end_the_run(wait_for):
    network = Network([Refuser("first")])
    arrive(network, *devices(3))
    made = Federation(network, QUIET, cohort=3, wait_for=wait_for)
    (record,) = made.play()
    assert record["names"] == ["c0", "c1", "c2"]


def test_that_all_who_are_waited_for_cannot_take_part_is_said_at_once():
    made = Federation(Network([Refuser(f"c{k}") for k in range(3)]), QUIET, wait_for=3)
    with pytest.raises(InputError, match=r"No node can take part; node session-\d: does not say who it is"):
        made.play()


def test_a_client_that_is_alone_and_fails_to_answer_does_not_end_the_run():
    network = Network(devices(1))
    network.device("c0").fails = "no"
    made = Federation(network, Everybody(), cohort=2)
    made.play()
    network.devices |= {f"session-{number}": device for number, device in enumerate(devices(3)[1:], 1)}
    (record,) = made.play()
    assert record["answered"] == [1]


def test_a_client_that_is_alone_and_fails_to_train_does_not_end_the_run():
    network = Network(devices(1))
    network.device("c0").fails = "no"
    made = Federation(network, QUIET, cohort=1)
    made.play()
    made.messenger.check_progress()
    made.play()
    made.messenger.check_progress()
    network.device("c0").name = "elsewhere"
    network.offline = {"elsewhere"}
    network.devices["session-1"] = Device("c1")
    network.device("c1").fails = "no"
    made.play()
    with pytest.raises(InputError, match="None of the 2 chosen clients can train; client c1: no"):
        made.messenger.check_progress()


def test_whoever_sorts_first_does_not_fail_the_trial_for_all():
    others = [Unsure(f"c{k}") for k in range(9)]
    for device in others:
        device.reports = True
    made = Federation(Network([Unsure("a"), *others]), Reported(), cohort=10)
    (record,) = made.play()
    assert made.messenger.reports_are_proven
    assert "c8" in record["names"]


@pytest.mark.parametrize(("n", "trained"), [(2, 2), (10, 3)])
def test_that_no_training_reports_what_is_wanted_is_said_before_the_first_round(n, trained):
    network = Network([Unsure(f"c{k}") for k in range(n)])
    made = Federation(network, Reported(), cohort=3)
    with pytest.raises(
        InputError, match=r"Reported wants 'loss' reported, and the training of client .* no such metric"
    ):
        made.play()
    assert sum(ask.kind == "query" for ask in network.asks) == trained
    assert not any(ask.kind == "train" for ask in network.asks)


def test_a_client_that_is_alone_and_fails_its_trial_does_not_end_the_run():
    network = Network([Unsure("c0")])
    made = Federation(network, Reported(), cohort=2)
    made.play(2)
    assert [ask.kind for ask in network.asks].count("query") == 1
    network.devices["session-1"] = Unsure("c1")
    with pytest.raises(InputError, match="the training of client c1"):
        made.play()


def test_facts_on_which_the_operators_function_fails_leave_their_client_out():
    def eligible(name, facts):
        return 1.0 / float(facts["battery"]) < 5

    clients = [Device(f"c{k}", facts={"battery": 0.5}) for k in range(3)]
    clients[1].facts["battery"] = 0.0
    made = Federation(Network(clients), QUIET, cohort=3, eligible=eligible, facts=["battery"])
    (record,) = made.play()
    assert record["names"] == ["c0", "c2"]
    for device in clients:
        device.facts["battery"] = 0.0
    with pytest.raises(InputError, match=r"eligible must give true or false of client 'c0'.*ZeroDivisionError"):
        made.play()


@pytest.mark.parametrize("kind", ["tags", "signals", "unsure"])
@pytest.mark.parametrize("words", [("x",) * 101, ("x" * 256,)])
def test_a_client_does_not_fill_the_servers_memory_with_words(kind, words):
    members = Members(["sizes"])
    sizes = {"sizes": np.array(10)}
    refused = members.meet(
        {"1": Profile("a", sizes, **{kind: words}), "2": Profile("b", sizes, **{kind: ("x",) * 100})}
    )
    assert members.names == ["b"]
    rule = f"profile.{kind} must be at most 100 words of at most 255 characters"
    assert refused == {"1": f"{rule}; got {len(words)} words of up to {len(words[0])} characters."}


@pytest.mark.parametrize("word", ["\ud800", "a\nb", "\x1b[2J"])
def test_tags_that_cannot_be_written_are_refused(word):
    members = Members(["sizes"])
    refused = members.meet({"1": Profile("a", {"sizes": np.array(10)}, tags=("fine", word))})
    assert refused == {"1": f"profile.tags must be words that can be printed; got {word!r}."}


class OtherArrays(Device):
    """A client that sends other arrays than the model has, or some of them only."""

    sent = "evil"

    def answer(self, ask, handle):
        reply = super().answer(ask, handle)
        if ask.kind != "train":
            return reply
        return replace(reply, model={self.sent: np.ones(2, np.float32)})


def people(kind, names):
    return [kind(name, facts={"sizes": 9}) for name in names]


@pytest.mark.parametrize("guards", [Guards(strikes=3, quarantine=20), TRUSTED])
def test_what_the_first_clients_send_is_overturned_by_more_of_others(guards):
    network = Network(people(OtherArrays, ["e0", "e1"]))
    made = Federation(network, "uniform", cohort=5, guards=guards)
    made.play()
    honest = people(Device, [f"c{k}" for k in range(18)])
    network.devices |= {f"session-{number}": device for number, device in enumerate(honest, 10)}
    made.play(40)
    assert made.messenger.check.names == {"w"}
    np.testing.assert_allclose(made.engine.model["w"], 1.0, atol=0.05)
    quarantined = np.flatnonzero(made.driver.registrar.strikes)
    assert {made.messenger.members[client].name for client in quarantined.tolist()} <= {"e0", "e1"}


def test_where_updates_are_clipped_arrays_that_the_model_does_not_have_are_refused():
    network = Network(people(OtherArrays, [f"e{k}" for k in range(5)]))
    made = Federation(network, "uniform", cohort=5, guards=TRUSTED)
    (record,) = made.play()
    assert "['evil'] are not in the model" in record["left_out"]["0"]
    assert made.messenger.check.votes == {}


def test_votes_on_arrays_outlast_a_restart():
    model = {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)}
    check = ModelCheck()
    check.screen({client: dict(model) for client in range(3)}, model)
    check.screen({client: {"w": model["w"]} for client in range(3, 5)}, model)
    again = ModelCheck()
    again.restore_names(json.loads(json.dumps(check.export_names())))
    assert (again.names, again.votes) == (check.names, check.votes)
    again.screen({5: {"w": model["w"]}}, model)
    assert again.names == {"w", "b"}
    again.screen({6: {"w": model["w"]}}, model)
    assert again.names == {"w"}
    assert set(again.screen({0: model}, model)[1]) == {0}


@pytest.mark.parametrize(
    "stored",
    [
        ["w"],
        {},
        {"names": ["w"], "votes": 5},
        {"names": 5, "votes": []},
        {"names": [5], "votes": []},
        {"names": None, "votes": [5]},
        {"names": None, "votes": [{"names": ["w"]}]},
        {"names": None, "votes": [{"names": "w", "clients": [0]}]},
        {"names": None, "votes": [{"names": ["w"], "clients": [-1]}]},
        {"names": None, "votes": [{"names": ["w"], "clients": [[]]}]},
    ],
)
def test_damaged_votes_on_arrays_are_refused(stored):
    with pytest.raises(ValueError, match="arrays that clients send"):
        ModelCheck().restore_names(stored)
