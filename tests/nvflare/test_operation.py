"""How a job is operated: silence and back-off, one deadline, over-selection, eligibility, records, files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from tests.nvflare.loopback import Quadratic, Site, facts, federation
from tests.nvflare.loopback_controllers import (
    WithinFedAvg,
    Workflow,
    before_sending,
    begun,
    cohorts,
    made,
    played,
)

from sortition.audit.encoding import decode_ids
from sortition.core.storage import snapshot

BOTH = pytest.mark.parametrize("kind", [Workflow, WithinFedAvg], ids=["own", "fedavg"])
BATTERY = {}  # of each site, in percent
ROUNDS = []  # records that on_round was called with


def charged(name, facts):
    """An operator's floor."""
    return bool(facts["battery"] >= 20)


def raising(record):
    ROUNDS.append(record)
    raise RuntimeError("the dashboard is down")


def with_battery(site):
    return {**facts(site), "battery": BATTERY[site]}


def by_a_clock(controller):
    """Let time pass only while the server waits; the seconds so far, in a list of one."""
    now = [0.0]
    controller.started.messenger.clock = lambda: now[0]
    poll = controller.transport.poll

    def poll_at_once(wait):
        now[0] += wait
        return poll(0.0)

    controller.transport.poll = poll_at_once
    return now


# -- the order of answers ----------------------------------------------------------------------------------------------


@BOTH
def test_choices_do_not_depend_on_the_order_in_which_answers_come(kind):
    class Alike(Quadratic):
        def loss(self):
            return 1.0

    def in_order(names):
        loopback = federation(client=Alike)
        send = loopback.broadcast
        loopback.broadcast = lambda task, targets: send(task, sorted(targets, key=names.index))
        return loopback

    names = [f"site-{number}" for number in range(1, 7)]
    orders = [names, names[::-1], names[3:] + names[:3]]
    chosen = [cohorts(played(kind, in_order(order), "power-of-choice", cohort=3)) for order in orders]
    assert chosen[0] == chosen[1] == chosen[2]


# -- silence -----------------------------------------------------------------------------------------------------------


def test_a_silent_site_is_left_out_and_asked_less_and_less_often():
    loopback = federation()
    controller = begun(loopback, deadline=10, profile_timeout=0.5)
    now = by_a_clock(controller)
    before_sending(loopback, lambda task, t: now.append(now.pop() + 1.0))  # every task takes a second
    controller.rounds(1)
    loopback.silent, loopback.sent = {"site-3"}, []
    records = controller.rounds(9)
    assert [2 in record["cohort"] for record in records] == [True] + [False] * 8
    assert [record["silent"] for record in records] == [[2]] + [[]] * 8
    asked = [row for row, (kind, targets) in enumerate(loopback.sent) if kind == "profile" and targets == ["site-3"]]
    trainings = [sum(kind == "train" for kind, _ in loopback.sent[:row]) for row in asked]
    assert trainings == [2, 5]  # one round is left out, then two, then four
    assert any("No answer in time from site-3" in text for text in loopback.warnings)


def test_a_late_site_takes_part_when_it_has_answered():
    loopback = federation()
    controller = begun(loopback)
    controller.rounds(1)
    loopback.silent = {"site-3"}
    controller.rounds(1)
    loopback.silent = set()
    records = controller.rounds(2)
    assert [2 in record["cohort"] for record in records] == [False, True]
    assert controller.started.members[2].misses == 0


def test_a_site_that_connects_anew_takes_part_at_once():
    loopback = federation()
    controller = begun(loopback)
    controller.rounds(1)
    loopback.silent = {"site-3"}
    controller.rounds(1)
    loopback.silent, loopback.sites["site-3"].token = set(), "another token"
    (record,) = controller.rounds(1)
    assert 2 in record["cohort"]


def test_no_round_is_spent_while_all_sites_are_silent():
    loopback = federation(2)
    controller = begun(loopback, deadline=10, profile_timeout=50)
    now = by_a_clock(controller)
    controller.rounds(1)
    loopback.silent = set(loopback.sites)
    (record,) = controller.rounds(1)
    assert record["silent"] == [0, 1]
    loopback.silent, loopback.slow = set(), set(loopback.sites)
    poll, back = controller.transport.poll, now[0] + 20

    def poll_until_they_are_back(wait):
        if now[0] > back:
            loopback.slow = set()
            loopback.deliver()
        return poll(wait)

    controller.transport.poll = poll_until_they_are_back
    (record,) = controller.rounds(1)
    assert (record["round"], record["cohort"]) == (2, [0, 1])


@BOTH
def test_a_dead_sites_profile_is_asked_beside_training(kind):
    """Its question stands for ten minutes, and no round waits for it."""
    loopback = federation(3)
    newcomer = Site("site-9")

    def comes(task, t):
        if (task, t) == ("train", 0):
            loopback.sites["site-9"] = newcomer
            loopback.silent.add("site-9")

    before_sending(loopback, comes)
    controller = played(kind, loopback, "full", deadline=None, profile_timeout=600)
    assert cohorts(controller) == [[0, 1, 2]] * 4
    assert loopback.tasks("profile") == [["site-1", "site-2", "site-3"], ["site-9"]]


# -- one deadline, and busy sites --------------------------------------------------------------------------------------


def test_a_deadline_includes_the_questions_and_a_busy_site_is_not_asked_or_chosen():
    loopback = federation()
    controller = begun(loopback, "power-of-choice", cohort=3, deadline=0.4, answer_timeout=100)
    now = by_a_clock(controller)
    controller.rounds(1)
    loopback.slow, began = {"site-4"}, now[0]
    (record,) = controller.rounds(1)
    assert now[0] - began == pytest.approx(0.1)  # a quarter of the deadline, though the question's own limit is longer
    assert (record["questions"][0]["asked"], record["questions"][0]["answered"]) == (6, 5)
    assert 3 not in record["cohort"]
    loopback.slow = set()
    (record,) = controller.rounds(1)  # its silence is not over
    assert loopback.tasks("query")[-1] == [f"site-{number}" for number in (1, 2, 3, 5, 6)]
    loopback.deliver()
    records = controller.rounds(2)
    assert 3 in records[-1]["cohort"]


def test_a_site_that_still_trains_is_busy_and_its_late_answer_frees_it():
    loopback = federation()
    controller = begun(loopback, "uniform", cohort=2, overselect=3.0, deadline=100)
    controller.rounds(1)
    loopback.slow = {"site-1", "site-2", "site-3", "site-4"}
    (first,) = controller.rounds(1)
    assert (first["answered"], first["standby"], first["silent"]) == ([4, 5], [0, 1, 2, 3], [])
    loopback.slow = set()
    (second,) = controller.rounds(1)
    assert (second["busy"], sorted(second["cohort"])) == (4, [4, 5])
    assert all(set(targets) == {"site-5", "site-6"} for targets in loopback.tasks("train")[2:])
    loopback.deliver()
    (third,) = controller.rounds(1)
    assert (third["busy"], third["available"], third["late"]) == (0, 6, [0, 1, 2, 3])


@BOTH
def test_with_overselection_exactly_the_cohort_counts(kind):
    controller = played(kind, federation(), "uniform", overselect=2.0)
    for record in controller.federation.history:
        assert (len(record["cohort"]), len(record["answered"]), len(record["standby"])) == (4, 2, 2)
        assert record["silent"] == []
    assert controller.federation.members.selections == 4


def test_fedavg_sums_up_the_results_that_count_and_no_others():
    loopback = federation()
    loopback.sites["site-2"] = Site("site-2", broken=lambda p: {name: value[:1] for name, value in p.items()})
    controller = played(WithinFedAvg, loopback, "full", cohort=6, fedavg={"stop_cond": "train_loss >= 100"})
    assert [record["answered"] for record in controller.federation.history] == [[0, 2, 3, 4, 5]] * 4
    assert controller._received_count == 5


def test_sites_that_have_not_fetched_a_task_never_see_it_when_enough_have_answered():
    loopback = federation()
    controller = begun(loopback, "uniform", cohort=2, overselect=3.0, deadline=100)
    controller.rounds(1)
    loopback.away = {"site-1", "site-2", "site-3", "site-4"}
    (record,) = controller.rounds(1)
    assert (record["answered"], record["standby"]) == ([4, 5], [0, 1, 2, 3])
    assert controller.started.messenger.busy_sessions() == set()
    assert loopback.cancelled == []  # two have answered: the task ends by itself


# -- who failed --------------------------------------------------------------------------------------------------------


@BOTH
def test_records_tell_who_failed_who_was_silent_and_who_was_not_needed(kind):
    loopback = federation()

    def fails(task, t):
        if task == "train":
            loopback.raising["site-1"] = ReturnCode.EXECUTION_EXCEPTION
            loopback.silent.add("site-2")

    before_sending(loopback, fails)
    controller = played(kind, loopback, "full", rounds=1, cohort=6)
    (record,) = controller.federation.history
    assert record["failed"] == {"0": "its task ended with EXECUTION_EXCEPTION"}
    assert (record["silent"], record["answered"]) == ([1], [2, 3, 4, 5])
    assert "standby" not in record
    assert any("site-1" in text and "EXECUTION_EXCEPTION" in text for text in loopback.warnings)


def test_the_result_of_a_task_that_has_ended_is_counted_as_late():
    loopback = federation()
    controller = begun(loopback)
    controller.rounds(1)
    result = FLModelUtils.to_shareable(loopback.sites["site-1"].sent)
    controller.process_result_of_unknown_task(loopback.sites["site-1"], "train", "an id", result, FLContext())
    controller.rounds(1)
    assert controller.started.registrar.counters["late"] == 1


# -- who may be chosen -------------------------------------------------------------------------------------------------


@BOTH
def test_a_battery_floor_is_decided_on_what_is_true_now(kind):
    BATTERY.update({f"site-{number}": 90 for number in range(1, 7)})
    loopback = federation(facts=with_battery)
    before_sending(loopback, lambda task, t: BATTERY.update({"site-2": 10}) if (task, t) == ("train", 1) else None)
    floor = {"eligible": "tests.nvflare.test_operation:charged", "facts": ["battery"]}
    controller = played(kind, loopback, "full", cohort=6, **floor)
    assert cohorts(controller) == [list(range(6))] * 2 + [[0, 2, 3, 4, 5]] * 2


def test_a_fact_is_asked_again_when_it_is_too_old():
    BATTERY.update({f"site-{number}": 90 for number in range(1, 7)})
    for age, asked in (("selection", 4), (1000, 1)):
        loopback = federation(facts=with_battery)
        floor = {"eligible": "tests.nvflare.test_operation:charged", "facts": ["battery"]}
        played(Workflow, loopback, "full", cohort=6, **floor, refresh={"battery": age})
        assert len(loopback.tasks("profile")) == asked + (age == "selection")


def test_eligible_names_sites_and_tags():
    loopback = federation()
    loopback.sites["site-4"] = Site("site-4", tags=["gpu"])
    controller = played(Workflow, loopback, "full", cohort=6, eligible=["gpu", "site-2"])
    assert cohorts(controller) == [[1, 3]] * 4
    assert decode_ids(controller.federation.history[0]["present"]).tolist() == [1, 3]


# -- what a job leaves -------------------------------------------------------------------------------------------------


@BOTH
def test_on_round_that_raises_ends_nothing_and_comes_after_the_checkpoint(kind, tmp_path):
    ROUNDS.clear()
    loopback = federation()
    file = tmp_path / "run.npz"
    options = {"on_round": "tests.nvflare.test_operation:raising", "checkpoint": str(file)}
    controller = played(kind, loopback, "uniform", **options)
    assert [record["round"] for record in ROUNDS] == [0, 1, 2, 3]
    lines = (tmp_path / "run.npz.history.jsonl").read_text().splitlines()
    assert [json.loads(line)["cohort"] for line in lines] == cohorts(controller)
    assert sum("raising raised RuntimeError" in text for text in loopback.warnings) == 4


@BOTH
def test_a_history_says_what_it_is_of(kind, tmp_path):
    played(kind, federation(), "power-of-choice", cohort=3, checkpoint=str(tmp_path / "run.npz"))
    about = json.loads((tmp_path / "run.npz.about.json").read_text())
    assert (about["backend"], about["method"], about["cohort"]) == ("nvflare", "PowerOfChoice", 3)
    assert about["names"] == [f"site-{number}" for number in range(1, 7)]


def test_the_last_rounds_are_saved_though_no_checkpoint_is_due(tmp_path):
    file = tmp_path / "run.npz"
    options = {"checkpoint": str(file), "checkpoint_every": 3, "resume": True}
    first = played(Workflow, federation(), "uniform", rounds=4, **options)
    assert snapshot.load(file)[1]["rounds"] == 4
    second = played(Workflow, federation(), "uniform", rounds=5, **options)
    assert cohorts(second)[:4] == cohorts(first)


def test_an_aborted_job_stops_waiting():
    loopback = federation()

    def aborts(task, t):
        if (task, t) == ("train", 1):
            loopback.silent.update(loopback.sites)
            loopback.abort_signal.triggered = True

    for kind in (Workflow, WithinFedAvg):
        loopback = federation()
        before_sending(loopback, aborts)
        controller = made(kind, loopback, deadline=None)
        controller.run()
        assert len(cohorts(controller)) == 1
        assert controller.panics == []


def test_too_few_sites_end_a_job_before_its_first_round():
    controller = made(Workflow, federation(2), wait_for=3, patience=0.1)
    controller.run()
    (text,) = controller.panics
    assert "3 clients must be online before the first round; got 2 in 0.1 s" in text


def test_a_site_that_does_not_say_who_it_is_ends_no_job_that_has_enough():
    loopback = federation(3)
    loopback.silent = {"site-3"}
    controller = played(Workflow, loopback, "full", rounds=1, wait_for=3, patience=0.05, profile_timeout=600)
    assert cohorts(controller) == [[0, 1]]
    assert np.isfinite(controller.federation.history[0]["clock"])
