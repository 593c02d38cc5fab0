"""One driver over any network: deadlines, silence, busy clients, fresh facts, and records that say what happened."""

import logging

import numpy as np
import pytest
from tests.federation.fake import MODEL, NEVER, Device, Federation, Network

from sortition.core import LOSS, RESOURCES, Cohort, InputError, Measure, Needs, Selector, State, method
from sortition.federation.messages import Reply
from sortition.selectors import load

EVEN = load("uniform", weights="uniform")
SIZES = {"sizes": 10}


def devices(n=4, **options):
    return [Device(f"c{k}", **options) for k in range(n)]


@method
class Everybody(Selector[State]):
    """All who are there, after asking for their losses."""

    asking: bool = True

    @property
    def needs(self):
        return Needs(asks=(LOSS,) if self.asking else ())

    def select(self, state, round):
        if self.asking:
            yield Measure(LOSS, round.available)
        return Cohort.uniform(round.available[: round.budget])


QUIET = Everybody(asking=False)


def test_a_round_from_choice_to_record():
    made = Federation(Network(devices()), QUIET, cohort=3)
    (record,) = made.play()
    assert record["cohort"] == record["answered"] == [0, 1, 2]
    assert record["names"] == ["c0", "c1", "c2"]
    assert (record["available"], record["members"], record["busy"], record["silent"]) == (4, 4, 0, [])
    assert made.engine.model["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("delays", [(0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1), (0.3, 0.1, 0.4, 0.2)])
def test_equal_answers_in_any_order_of_arrival_give_one_cohort(delays):
    """Models that begin with zeros tie in the first round."""
    network = Network([Device(f"c{k}", facts=SIZES, query=delay) for k, delay in enumerate(delays)])
    made = Federation(network, load("power-of-choice", d=4), cohort=2, seed=1)
    assert [record["cohort"] for record in made.play(2)] == [[0, 3], [2, 1]]  # ties go by the seed, not by the network


class TestDeadline:
    def test_it_includes_questions(self):
        network = Network([*devices(3), Device("sleeper", query=NEVER, train=NEVER)])
        made = Federation(network, Everybody(), cohort=4, deadline=20.0)
        (record,) = made.play()
        assert network.clock.now <= 20.0
        assert record["questions"][0]["answered"] == 3
        question = next(ask for ask in network.asks if ask.kind == "query")
        assert question.seconds == pytest.approx(5.0)  # at most a quarter of it

    def test_who_is_silent_is_left_out_for_longer_and_longer(self):
        network = Network([*devices(3), Device("dead", train=NEVER, profile=0.0)])
        made = Federation(network, QUIET, cohort=4, deadline=10.0)
        made.play()
        network.device("dead").seconds["profile"] = NEVER
        seen = [3 in record["cohort"] for record in made.play(9)]
        assert seen == [False] * 9
        assert network.asked("train", "dead") == 1
        assert network.asked("profile", "dead") < 5  # once at enrolment, then after 1, 2, 4 … selections

    def test_who_answers_again_takes_part_again(self):
        network = Network([*devices(3), Device("late", train=NEVER)])
        made = Federation(network, QUIET, cohort=4, deadline=10.0)
        made.play()
        network.device("late").seconds["train"] = 1.0
        assert [3 in record["cohort"] for record in made.play(3)] == [False, True, True]
        assert made.messenger.members[3].misses == 0

    def test_who_comes_back_with_another_session_takes_part_at_once(self):
        network = Network([*devices(3), Device("c3", train=NEVER)])
        made = Federation(network, QUIET, cohort=4, deadline=10.0)
        made.play()
        del network.devices["session-3"]
        network.devices["session-9"] = Device("c3")
        made.play()  # it is asked beside this round's training
        assert 3 in made.play()[0]["cohort"]

    def test_a_busy_client_is_neither_asked_nor_chosen(self):
        network = Network([*devices(4), Device("slow", query=0.1, train=25.0)])
        made = Federation(network, Everybody(), cohort=4, overselect=1.25, deadline=40.0)
        first, second = made.play(2)
        assert (first["standby"], first["silent"], first["answered"]) == ([4], [], [0, 1, 2, 3])
        assert (second["busy"], second["available"]) == (1, 4)
        assert network.asked("query", "slow") == 1
        network.clock.now += 30.0
        (third,) = made.play()
        assert third["late"] == [4]
        assert 4 in third["cohort"]  # it is idle again

    def test_who_comes_after_the_deadline_is_named_in_the_next_record(self):
        network = Network([*devices(3), Device("slow", train=11.0)])
        made = Federation(network, QUIET, cohort=4, deadline=10.0)
        first, second = made.play(2)
        assert first["silent"] == [3]
        assert second["late"] == [3]

    def test_while_everybody_is_at_work_no_round_is_spent(self):
        """Two devices that stood by are the only ones left: the next round waits until one of them is idle."""
        network = Network([Device("quick", train=1.0), *(Device(f"slow{k}", train=25.0) for k in range(2))])
        made = Federation(network, QUIET, cohort=1, overselect=3.0, deadline=40.0, patience=100.0)
        (first,) = made.play()
        network.offline.add("quick")
        (second,) = made.play()
        assert first["standby"] == [1, 2]
        assert second["answered"] == [1]
        assert network.clock.now >= 25.0

    def test_nobody_is_waited_for_longer_than_the_round(self):
        network = Network([Device("a", train=NEVER), Device("b", train=NEVER)])
        made = Federation(network, QUIET, cohort=2, deadline=7.0)
        (record,) = made.play()
        assert network.clock.now == pytest.approx(7.0)
        assert (record["silent"], record["answered"]) == ([0, 1], [])
        assert record["notes"]["nothing_came_back"]


class TestOverselection:
    def test_exactly_the_cohorts_size_is_used_first_come_by_the_clock_then_by_id(self):
        network = Network([Device(f"c{k}", train=seconds) for k, seconds in enumerate([3.0, 1.0, 1.0, 1.0, 2.0, 9.0])])
        made = Federation(network, QUIET, cohort=2, overselect=3.0)
        (record,) = made.play()
        assert record["cohort"] == [0, 1, 2, 3, 4, 5]
        assert record["answered"] == [1, 2]  # of three that came at the same moment
        assert record["standby"] == [0, 3, 4, 5]
        assert record["silent"] == []

    def test_standby_clients_are_no_dead_ones(self, caplog):
        network = Network([*devices(2), Device("spare", train=99.0)])
        made = Federation(network, QUIET, cohort=2, overselect=1.5, logger=logging.getLogger("test"))
        with caplog.at_level(logging.INFO):
            (record,) = made.play()
        assert (record["standby"], record["silent"]) == ([2], [])
        assert "Not needed, since enough had answered: spare" in caplog.text
        assert "No answer in time" not in caplog.text
        assert made.messenger.members[2].silent_until is None

    def test_unsound_answers_take_no_place(self):
        """Two devices that answer at once with models that cannot be used must not close the round."""
        quick = [Device(f"bad{k}", train=0.1) for k in range(2)]
        network = Network([*quick, *(Device(f"c{k}", train=1.0 + k) for k in range(3))])
        made = Federation(network, QUIET, cohort=2, overselect=2.5)
        made.play()  # the first round decides which arrays are sent
        network.clock.now += 10.0  # those who stood by are idle again
        for device in quick:
            device.w = (np.nan, 1.0)
        (record,) = made.play()
        assert record["answered"] == [2, 3]
        assert list(record["left_out"]) == ["0", "1"]
        assert record["standby"] == [4]

    def test_failures_do_not_count_as_answers(self):
        network = Network(devices(3))
        network.device("c0").fails = "RuntimeError: no disk"
        made = Federation(network, QUIET, cohort=2, overselect=1.5)
        (record,) = made.play()
        assert (record["answered"], record["failed"], record["silent"]) == ([1, 2], {"0": "RuntimeError: no disk"}, [])


class TestFacts:
    def test_eligibility_is_decided_on_facts_that_are_true_now(self):
        network = Network([Device(f"c{k}", facts={"battery": 0.9}) for k in range(3)])
        made = Federation(
            network, QUIET, cohort=3, facts=["battery"], eligible=lambda name, facts: facts["battery"] > 0.2
        )
        assert made.play()[0]["cohort"] == [0, 1, 2]
        network.device("c1").facts["battery"] = 0.1
        assert made.play()[0]["cohort"] == [0, 2]
        network.device("c1").facts["battery"] = 0.5
        assert made.play()[0]["cohort"] == [0, 1, 2]

    def test_a_fact_that_stays_true_for_a_while_is_not_asked_before(self):
        network = Network([Device(f"c{k}", facts={"place": k}) for k in range(2)])
        made = Federation(network, QUIET, facts=["place"], refresh={"place": 100.0}, eligible=lambda name, facts: True)
        made.play(3)
        assert network.asked("profile", "c0") == 1
        network.clock.now += 200.0
        made.play()
        assert network.asked("profile", "c0") == 2

    def test_who_does_not_say_is_not_eligible_and_holds_nobody_up_for_long(self):
        network = Network([Device(f"c{k}", facts={"battery": 0.9}) for k in range(3)])
        options = {"facts": ["battery"], "eligible": lambda name, facts: True, "answer_timeout": 2.0}
        made = Federation(network, QUIET, cohort=3, **options)
        made.play()
        network.device("c2").seconds["profile"] = NEVER
        before = network.clock.now
        assert made.play()[0]["cohort"] == [0, 1]
        assert network.clock.now - before < 4.0

    def test_fresh_facts_for_eligibility_do_not_change_what_the_selector_reads(self):
        network = Network([Device(f"c{k}", facts={"sizes": 10, "battery": 0.9}) for k in range(3)])
        made = Federation(network, "by-size", facts=["battery"], eligible=lambda name, facts: facts["battery"] > 0.2)
        made.play()
        network.device("c1").facts = {"sizes": 99, "battery": 0.8}
        made.play()
        assert made.driver.registrar.population.sizes.tolist() == [10, 10, 10]

    @pytest.mark.parametrize(
        ("refresh", "told"),
        [
            ({"sizes": 5.0}, r"refresh must be of facts that the method does not read; got 'sizes'"),
            ({"colour": 5.0}, r"refresh must be of the facts \['sizes', 'battery'\]; got 'colour'"),
            ({"battery": 0}, r"refresh\['battery'\] must be seconds > 0, or 'selection'; got 0"),
            (5, r"refresh must be a table"),
        ],
    )
    def test_what_cannot_be_refreshed_is_refused(self, refresh, told):
        with pytest.raises(InputError, match=told):
            Federation(Network(devices()), "by-size", facts=["sizes", "battery"], refresh=refresh)


def test_a_newcomer_does_not_void_a_round_in_flight():
    network = Network(devices(3))
    made = Federation(network, QUIET, cohort=3)
    made.driver.open_round()
    made.driver.dispatch()
    network.devices["session-9"] = Device("newcomer")
    made.messenger.wait_for_clients()
    made.driver.registrar.join(made.messenger.population())
    record = made.driver.close_round()
    assert record["answered"] == [0, 1, 2]
    assert made.play()[0]["members"] == 4


def test_a_sink_that_raises_ends_nothing_and_comes_last(tmp_path):
    kept = []

    def breaks(record):
        kept.append((tmp_path / "c.npz").exists() and record["round"] < made.files.registrar.index)
        raise ValueError("no such dashboard")

    made = Federation(Network(devices(2)), QUIET, on_round=breaks, checkpoint=tmp_path / "c.npz")
    from contextlib import ExitStack

    with ExitStack() as stack:
        made.files.open(stack)
        made.play(2)
    assert kept == [True, True]
    assert made.complaints[0] == "breaks raised ValueError in round 0: no such dashboard"
    assert len((tmp_path / "c.npz.history.jsonl").read_text().splitlines()) == 2


def test_a_silent_newcomer_is_asked_beside_training():
    network = Network(devices(2))
    made = Federation(network, QUIET, profile_timeout=50.0)
    made.play()
    network.devices["session-9"] = Device("dead", profile=NEVER)
    before = network.clock.now
    made.play()
    assert network.clock.now - before == pytest.approx(1.0)  # as long as the others train


def test_replies_to_nothing_and_second_replies_are_counted_and_ignored():
    network = Network(devices(2))
    made = Federation(network, QUIET)
    poll = network.poll

    def twice(wait):
        replies = list(poll(wait))
        strange = [Reply("message-of-nobody")] if replies else []
        return [*replies, *replies, *strange]

    network.poll = twice
    assert made.play()[0]["answered"] == [0, 1]
    assert made.messenger.counted["duplicate"] >= 2
    assert made.messenger.counted["late"] >= 1


def test_too_few_clients_before_the_first_round_end_the_run():
    made = Federation(Network(devices(2)), QUIET, wait_for=3, patience=5.0)
    with pytest.raises(InputError, match=r"3 clients must be online before the first round; got 2 in 5 s"):
        made.play()


def test_nobody_there_later_is_a_round_that_is_skipped():
    network = Network(devices(2))
    made = Federation(network, QUIET, patience=5.0)
    made.play()
    network.offline = {"c0", "c1"}
    (record,) = made.play()
    assert (record["skipped"], record["notes"]["skipped"]) == (True, "nobody available")


def test_that_nobody_can_train_is_said_at_once():
    network = Network(devices(2))
    for device in network.devices.values():
        device.fails = "ImportError: no module"
    made = Federation(network, QUIET)
    made.play()
    with pytest.raises(InputError, match="None of the 2 chosen clients can train; client c0: ImportError: no module"):
        made.messenger.check_progress()


def test_an_unsound_model_is_left_out_with_its_reason():
    network = Network(devices(3))
    network.device("c1").w = (np.nan, 0.0)
    made = Federation(network, QUIET, cohort=3)
    (record,) = made.play()
    assert (record["answered"], record["left_out"]) == ([0, 2], {"1": "w is not finite"})
    assert record["notes"]["unsound_updates"] == [1]
    assert set(MODEL) == set(made.engine.model)


def test_a_model_without_an_output_layer_is_refused_before_the_first_round():
    network = Network(devices(3, signals=("bias-update",), facts=SIZES))
    made = Federation(network, "hics", cohort=2)
    made.engine._model = {"up.weight": np.zeros((6, 3, 4, 4), np.float32), "up.bias": np.zeros(3, np.float32)}
    with pytest.raises(InputError, match=r"HiCS looks at the output layer \(bias-update\).* 'up.bias' of shape \(3,\)"):
        made.play()
    assert not any(ask.kind == "train" for ask in network.asks)


def test_all_questions_of_a_round_share_a_quarter_of_it():
    @method
    class Curious(Selector[State]):
        @property
        def needs(self):
            return Needs(asks=(LOSS,))

        def select(self, state, round):
            for _ in range(4):
                yield Measure(LOSS, round.available)
            return Cohort.uniform(round.available[: round.budget])

    network = Network([*devices(2), Device("mute", query=NEVER)])
    made = Federation(network, Curious(), cohort=2, deadline=100.0)
    (record,) = made.play()
    assert record["answered"] == [0, 1]
    assert network.clock.now <= 27.0


def test_a_fresh_fact_of_another_shape_is_a_reason_and_ends_nothing():
    network = Network([Device(f"c{k}", facts={"place": np.array([1.0])}) for k in range(3)])
    made = Federation(network, QUIET, cohort=3, facts=["place"], eligible=lambda name, facts: bool(facts["place"] > 0))
    made.play()
    network.device("c1").facts["place"] = np.array([1.0, 2.0])
    assert made.play()[0]["cohort"] == [0, 2]


def test_answers_of_one_moment_tie_by_id_whatever_the_clock_does():
    @method
    class Backwards(Selector[State]):
        def select(self, state, round):
            return Cohort.uniform(round.available[::-1])

    class Running(type(Network([]).clock)):
        def __call__(self):
            self.now += 1e-6
            return self.now

    network = Network(devices(4, train=0.0), Running())
    (record,) = Federation(network, Backwards(), cohort=2, overselect=2.0).play()
    assert sorted(record["answered"]) == [0, 1]


def test_an_answer_of_an_earlier_session_is_late_and_not_kept():
    network = Network([Device("a", train=0.5), Device("b", train=50.0)])
    made = Federation(network, QUIET, cohort=1, overselect=2.0, deadline=200.0)
    made.play()
    network.devices["session-9"] = network.devices.pop("session-1")
    network.device("b").seconds["train"] = 60.0
    made.play(2)
    network.clock.now += 100.0
    made.play()
    assert made.messenger._inbox == {}
    assert made.messenger.counted["late"] >= 1


def test_a_profile_of_somebody_who_has_left_is_not_entered():
    network = Network(devices(2))
    made = Federation(network, QUIET)
    made.play()
    made.messenger._profiles["session-of-nobody"] = (
        network.devices["session-0"]
        .answer(type("Ask", (), {"kind": "profile", "facts": (), "optional": ()})(), "x")
        .profile
    )
    made.play()
    assert len(made.messenger.members) == 2


@method
class PerhapsQuick(Selector[State]):
    """All who are there, after asking those who can for their resources."""

    @property
    def needs(self):
        return Needs(may_ask=(RESOURCES,))

    def select(self, state, round):
        yield Measure(RESOURCES, round.available)
        return Cohort.uniform(round.available[: round.budget])


def test_one_client_that_fails_a_question_it_need_not_answer_stops_nobody():
    liar = Device("c3", signals=("loss", "resources"))
    liar.fails = "no"
    (record,) = Federation(Network([*devices(3), liar]), PerhapsQuick(), cohort=4).play()
    assert record["answered"] == [0, 1, 2]


def test_a_clients_words_are_one_short_line_in_the_log(caplog):
    network = Network(devices(3))
    network.device("c2").fails = "broken\n2026-01-01 INFO all is well \x1b[2J" + "x" * 10_000
    with caplog.at_level(logging.WARNING):
        Federation(network, Everybody(), cohort=3).play()
    lines = [entry.getMessage() for entry in caplog.records if "broken" in entry.getMessage()]
    assert lines
    assert all(line.isprintable() and len(line) < 3_000 for line in lines)
