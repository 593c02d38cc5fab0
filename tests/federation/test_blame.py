"""Nobody is left out for a silence that is not its own, and who is silent holds nobody up for longer than is said."""

from dataclasses import replace

import numpy as np
import pytest
from tests.federation.fake import NEVER, Device, Federation, Network

from sortition.core import LOSS, Cohort, Guards, Measure, Needs, Selector, State, method
from sortition.core.signals import TRAINING_LOSS
from sortition.federation.messages import Profile
from sortition.selectors import load

QUIET = load("uniform", weights="uniform")


@method
class AsksTwice(Selector[State]):
    """Asks everybody twice, and chooses those who come first."""

    @property
    def needs(self):
        return Needs(asks=(LOSS,))

    def select(self, state, round):
        yield Measure(LOSS, round.available)
        yield Measure(LOSS, round.available)
        return Cohort.uniform(round.available[: round.budget])


@method
class WantsReports(Selector[State]):
    """Wants training losses, and chooses those who come first."""

    @property
    def needs(self):
        return Needs(reports=(TRAINING_LOSS,))

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


class UnsureDevice(Device):
    """A device of which only a training shows whether it can report its loss."""

    def answer(self, ask, handle):
        reply = super().answer(ask, handle)
        if ask.kind != "profile":
            return reply
        return replace(reply, profile=Profile(self.name, {}, (TRAINING_LOSS.name,), unsure=(TRAINING_LOSS.name,)))


def left_out(federation):
    """The clients that are left out of the next selection."""
    return [client for client, member in enumerate(federation.messenger.members.members) if member.silent_until]


def test_a_question_that_no_time_is_left_for_is_not_put_and_blames_nobody():
    """A mute client takes all the seconds for questions; those who would have answered the second one are no dead."""
    network = Network([Device("a"), Device("b"), Device("mute", query=NEVER)])
    federation = Federation(network, AsksTwice(), cohort=2, deadline=100.0)
    (record,) = federation.play()
    assert network.clock.now == pytest.approx(26.0)  # a quarter of the deadline for questions, and a second of training
    assert network.asked("query", "a") == 1
    assert record["answered"] == [0, 1]
    assert left_out(federation) == [2]


def test_stand_bys_of_a_round_that_closed_early_are_not_silent_where_the_guards_refuse_an_answer():
    """Two of four answers close the round; one of them is refused, and the two others were not waited for."""
    network = Network([Device("a"), Device("b"), Device("c", train=5.0), Device("d", train=5.0)])
    federation = Federation(network, QUIET, cohort=2, overselect=2.0, deadline=100.0, guards=Guards(bound=10.0))
    federation.play()
    network.clock.now += 10.0
    network.device("b").w = (1e6, 1e6)
    (record,) = federation.play()
    assert record["answered"] == [0]
    assert list(record["left_out"]) == ["1"]
    assert (record["standby"], record["silent"]) == ([2, 3], [])
    assert left_out(federation) == []


def test_facts_are_waited_for_no_longer_than_questions():
    """A deadline of 20 seconds bounds the questions about facts, too: a sleeping client costs 5 seconds, not 60."""
    network = Network([Device(f"c{k}", facts={"battery": 0.9}) for k in range(3)])
    options = {"facts": ["battery"], "eligible": lambda name, facts: True}
    federation = Federation(network, QUIET, cohort=3, deadline=20.0, **options)
    federation.play()
    network.device("c2").seconds["profile"] = NEVER
    began = network.clock.now
    (record,) = federation.play()
    assert record["cohort"] == [0, 1]
    assert network.clock.now - began <= 5.0 + 1.0 + 0.1
    asked = [ask.seconds for ask in network.asks if ask.kind == "profile" and ask.client == 2]
    assert asked[-1] == pytest.approx(5.0)


def test_a_client_that_was_silent_when_its_training_was_tried_is_not_chosen():
    network = Network([UnsureDevice("asleep", query=NEVER, train=NEVER), UnsureDevice("b"), UnsureDevice("c")])
    federation = Federation(network, WantsReports(), cohort=3, deadline=20.0)
    first, second = federation.play(2)
    assert first["cohort"] == [1, 2]
    assert second["cohort"] == [1, 2]
    assert network.asked("train", "asleep") == 0


def test_a_device_that_takes_another_name_is_one_client_at_a_time():
    """A silent device comes back under the same session with another name: nobody is sent two trainings."""
    network = Network([Device("a"), Device("old", train=NEVER)])
    federation = Federation(network, QUIET, cohort=3, deadline=10.0)
    federation.play()
    device = network.device("old")
    device.name = "new"
    device.seconds["train"] = 1.0
    records = federation.play(3)
    assert records[-1]["names"] == ["a", "new"]
    sessions = [ask.session for ask in network.asks if ask.kind == "train" and ask.round == records[-1]["round"]]
    assert len(sessions) == len(set(sessions))
    assert federation.messenger.members[1].session is None
    assert np.array_equal(federation.messenger.members.find_present(network.online()), [0, 2])


def test_an_answer_that_cannot_be_used_closes_no_first_round():
    """Before it is known which arrays clients send, a model that is not finite takes no place either."""
    network = Network([Device("bad", train=0.1, w=(np.nan, 1.0)), Device("c", train=1.0), Device("d", train=2.0)])
    federation = Federation(network, QUIET, cohort=2, overselect=1.5, deadline=100.0)
    (record,) = federation.play()
    assert record["answered"] == [1, 2]
    assert list(record["left_out"]) == ["0"]
    assert record["silent"] == []
