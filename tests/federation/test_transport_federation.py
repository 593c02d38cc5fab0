"""A federation on a server of one's own: rounds, deadlines, stops, and a server that is killed."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.federation import tiny
from tests.federation.fleet import serving

from sortition.aggregation import StepRule
from sortition.core import Guards, Population, Registrar
from sortition.core.errors import InputError, StorageError
from sortition.federation import Federation, Mailbox, Reply
from sortition.federation.model_screening import ModelCheck
from sortition.selectors import load

ROOT = Path(__file__).parents[2]


def handlers(count=8, **replaced):
    """What each device does with its work; some do something else."""
    usual = {name: device.handle for name, device in tiny.devices(count).items()}
    return usual | {name.replace("_", "-"): handle for name, handle in replaced.items()}


def played(rounds=4, devices=None, mailbox=None, selector="power-of-choice", **options):
    mailbox = mailbox or Mailbox()
    devices = devices or handlers()
    options = {"cohort": 3, "wait_for": len(devices), **options}
    federation = Federation(mailbox, tiny.model(), selector, **options)
    with serving(mailbox, devices):
        federation.run(rounds)
    return federation


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_it_trains_and_remembers():
    federation = played(rounds=5)
    assert len(federation.history) == 5
    assert federation.members.names == [f"device-{number}" for number in range(8)]
    assert all(record["names"] == [f"device-{k}" for k in record["cohort"]] for record in federation.history)
    goals = np.stack([tiny.goal_of(name) for name in federation.members.names])
    before = ((tiny.model()["w"] - goals) ** 2).sum()
    assert ((federation.model["w"] - goals) ** 2).sum() < before


def test_choices_and_model_are_those_of_a_bare_registrar():
    """The loop of docs/start/server-loop.md, by hand: no driver, no messenger, no mailbox."""
    federation = played(rounds=6, selector=load("power-of-choice", d=5), seed=7, horizon=6)
    sizes = [int(tiny.facts(name)["sizes"]) for name in federation.members.names]
    registrar = Registrar(load("power-of-choice", d=5), Population(sizes=sizes), horizon=6, seed=7)
    goals = np.stack([tiny.goal_of(name) for name in federation.members.names])
    w = tiny.model()["w"]
    for record in federation.history:
        turn = registrar.begin(np.arange(8), 3)
        while turn.question is not None:
            ids = turn.question.ids
            turn.answer({int(k): ((w - goals[k]) ** 2).sum() for k in ids[::-1]})
        assert turn.cohort.ids.tolist() == record["cohort"]
        updates = [(w + 0.5 * (goals[k] - w)).astype(np.float32) - w for k in turn.cohort.ids]
        w = w + (turn.cohort.weights[:, None] * np.stack(updates)).sum(axis=0).astype(np.float32)
        registrar.finish(turn)
    np.testing.assert_allclose(federation.model["w"], w, atol=1e-5)


def slowed(device, seconds):
    def handle(work):
        time.sleep(seconds)
        return device.handle(work)

    return handle


def test_the_order_of_arrival_does_not_matter():
    runs = []
    for pauses in ([0.0] * 8, [0.02, 0, 0.01, 0, 0.03, 0, 0.005, 0], [0, 0.03, 0, 0.02, 0, 0.01, 0, 0.005]):
        devices = tiny.devices()
        handles = {name: slowed(devices[name], pause) for name, pause in zip(devices, pauses, strict=True)}
        runs.append(played(rounds=4, devices=handles))
    for run in runs[1:]:
        assert [record["cohort"] for record in run.history] == [record["cohort"] for record in runs[0].history]
        np.testing.assert_array_equal(run.model["w"], runs[0].model["w"])


def test_exactly_the_cohort_is_used_of_those_that_stand_by():
    federation = played(rounds=3, overselect=2.0, deadline=60)
    for record in federation.history:
        assert len(record["cohort"]) == 6
        assert len(record["answered"]) == 3
        assert len(record["standby"]) == 3
        assert record["silent"] == []


def test_who_misses_the_deadline_is_silent_and_left_out_for_a_while():
    over = threading.Event()

    def never(work):
        if work.ask.kind == "train":
            over.wait()
        return tiny.devices()["device-0"].handle(work)

    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "full", cohort=8, deadline=3.0, wait_for=8)
    with serving(mailbox, handlers(device_0=never), threads=8):
        try:
            federation.run(2)
        finally:
            over.set()
    first, second = federation.history
    assert first["silent"] == [0]
    assert first["answered"] == [1, 2, 3, 4, 5, 6, 7]
    assert 0 not in second["cohort"]


def test_a_late_upload_is_refused_and_noted():
    """Four of eight close a round; the upload of one that is still at work is refused."""
    at_work = threading.Event()
    closed = threading.Event()
    receipts = []
    late_handles = []

    class NotingMailbox(Mailbox):
        def deliver(self, handle, reply, *, name=None):
            receipt = super().deliver(handle, reply, name=name)
            if name == "device-0" and reply.model is not None:
                receipts.append(receipt)
                late_handles.append(handle)
            return receipt

    def slow(work):
        if work.ask.kind == "train":
            at_work.set()
            closed.wait()
        return tiny.devices()["device-0"].handle(work)

    def after_the_slow_one_began(name):
        def handle(work):
            if work.ask.kind == "train":
                at_work.wait()
            return tiny.devices()[name].handle(work)

        return handle

    devices = {name: after_the_slow_one_began(name) for name in tiny.devices()} | {"device-0": slow}
    mailbox = NotingMailbox()
    federation = Federation(
        mailbox,
        tiny.model(),
        "uniform",
        cohort=4,
        overselect=2.0,
        wait_for=8,
        on_round=lambda record: closed.set(),
    )
    with serving(mailbox, devices, threads=8):
        federation.run(1)
    assert receipts == ["expired"]
    assert 0 in federation.history[0]["standby"]
    kept = [reply for reply in mailbox.poll(0) if reply.outcome == "ok"]  # of stand-bys that were not needed
    assert not {reply.handle for reply in kept} & set(late_handles)  # what came too late is not even kept


def test_a_program_that_raises_is_named_and_the_round_goes_on(caplog):
    def broken(work):
        reply = tiny.devices()["device-3"].handle(work)
        return Reply(work.handle, "failed", reason="ValueError: no") if work.ask.kind == "train" else reply

    federation = played(rounds=1, devices=handlers(device_3=broken), selector="full", cohort=8)
    assert federation.history[0]["failed"] == {"3": "ValueError: no"}
    assert "Client device-3 is left out: ValueError: no" in caplog.text


def test_a_device_that_restarts_is_the_same_client():
    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "uniform", cohort=3, wait_for=8)
    devices = tiny.devices()
    check_in = mailbox.check_in
    boots = iter(range(1000))

    def restarting(name):
        return check_in(name, boot=str(next(boots) // 60) if name == "device-2" else "")

    mailbox.check_in = restarting
    with serving(mailbox, {name: device.handle for name, device in devices.items()}):
        federation.run(10)
    assert len(federation.members) == 8
    assert len(federation.history) == 10


def test_eligibility_goes_by_what_is_true_now():
    full = {"device-1", "device-5"}

    def charging(name):
        device = tiny.devices()[name]
        device.answers.facts = lambda context: {**tiny.facts(context), "battery": 1.0 if name in full else 0.2}
        return device.handle

    federation = played(
        rounds=3,
        devices={name: charging(name) for name in tiny.devices()},
        selector="uniform",
        facts=["battery"],
        eligible=lambda name, facts: facts["battery"] > 0.5,
        on_round=lambda record: full.clear() or full.update({"device-7"}),
    )
    assert [record["names"] for record in federation.history] == [["device-1", "device-5"], ["device-7"], ["device-7"]]


def test_steps_rules_and_guards_are_those_of_the_library():
    plain = played(rounds=3, selector="uniform")
    median = played(rounds=3, selector="uniform", combine="median")
    momentum = played(rounds=3, selector="uniform", step=StepRule("momentum", momentum=0.5))
    guarded = played(rounds=3, selector="uniform", guards=Guards(explore=1.0))
    assert not np.allclose(plain.model["w"], median.model["w"])
    assert not np.allclose(plain.model["w"], momentum.model["w"])
    assert "guards" in guarded.history[0]["notes"]


def test_what_on_round_raises_is_logged_and_the_round_is_kept(tmp_path, caplog):
    def broken(record):
        raise RuntimeError("no disk")

    federation = played(rounds=2, on_round=broken, checkpoint=tmp_path / "run.npz")
    assert len((tmp_path / "run.npz.history.jsonl").read_text().splitlines()) == 2
    assert len(federation.history) == 2
    assert "broken raised RuntimeError in round 0: no disk" in caplog.text


def test_rounds_are_logged(caplog):
    with caplog.at_level(logging.INFO, "sortition"):
        played(rounds=1)
    assert "Round 0: PowerOfChoice chose 3 of 8, and 3 answered" in caplog.text


def test_the_log_says_what_a_first_round_waits_for(caplog):
    def slow_to_introduce_itself(handle):
        def slow(work):
            if work.ask.kind == "profile":
                time.sleep(0.3)
            return handle(work)

        return slow

    mailbox = Mailbox()
    devices = {name: slow_to_introduce_itself(handle) for name, handle in handlers().items()}
    for name in devices:
        mailbox.check_in(name)
    with caplog.at_level(logging.INFO, "sortition"):
        played(rounds=1, devices=devices, mailbox=mailbox)
    assert "Waiting for clients: 8 nodes are online, and 8 of them have not said yet who they are" in caplog.text


# -- mistakes are said before anything runs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cohort": 0}, "Federation.cohort must be a whole number ≥ 1; got 0"),
        ({"transport": object()}, "Federation.transport must be a transport, with online, post, poll, cancel"),
        ({"model": [1.0]}, "Federation.model must be a table from names to arrays"),
        ({"model": {}}, "Federation.model must be a table with at least one array of floats"),
        ({"model": {"w": ["a"]}}, r"Federation.model\['w'\] must be an array of numbers"),
        ({"model": {"w": [np.nan]}}, r"Federation.model\['w'\] must be finite"),
        ({"selector": "power"}, "power-of-choice"),
        ({"step": 3}, "Federation.step must be a StepRule, its name or None; got 3"),
        ({"step": "adamm"}, "Unknown step rule"),
        ({"combine": "medium"}, "median"),
        ({"overselect": 0.5}, "Federation.overselect must be finite and ≥ 1"),
        ({"deadline": -1}, "Federation.deadline must be seconds > 0"),
        ({"refresh": {"battery": 3}}, "Federation.refresh must be of the facts"),
        ({"resume": True}, "Federation.resume must be a path where no checkpoint is given"),
        ({"eligible": 3}, "Federation.eligible must be names, tags or a function"),
        ({"guards": {"explore": 1}}, "Federation.guards must be Guards or None"),
        ({"overslect": 1.5}, "Unknown option 'overslect'; Federation has .* Did you mean 'overselect'"),
    ],
)
def test_a_mistake_is_one_sentence(options, message):
    given = {"transport": Mailbox(), "model": tiny.model(), "selector": "uniform", "cohort": 2, **options}
    transport, model, selector = (given.pop(name) for name in ("transport", "model", "selector"))
    with pytest.raises(InputError, match=message):
        Federation(transport, model, selector, **given)


def test_rounds_are_a_whole_number_and_a_federation_is_run_once():
    federation = played(rounds=1)
    with pytest.raises(InputError, match=r"Federation\.run must be called once"):
        federation.run(1)
    with pytest.raises(InputError, match=r"Federation.run\(rounds\) must be a whole number ≥ 1; got 0"):
        federation.run(0)


def test_an_old_checkpoint_is_not_overwritten(tmp_path):
    played(rounds=1, checkpoint=tmp_path / "run.npz")
    with pytest.raises(StorageError, match="is the checkpoint of an earlier run"):
        Federation(Mailbox(), tiny.model(), cohort=3, checkpoint=tmp_path / "run.npz").run(1)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_stop_ends_after_the_round(tmp_path):
    mailbox = Mailbox()
    federation = Federation(
        mailbox,
        tiny.model(),
        "uniform",
        cohort=3,
        wait_for=8,
        checkpoint=tmp_path / "run.npz",
        checkpoint_every=100,
        on_round=lambda record: federation.stop() if record["round"] == 1 else None,
    )
    with serving(mailbox, handlers()):
        federation.run(50)
    assert len(federation.history) == 2
    resumed = played(rounds=3, selector="uniform", checkpoint=tmp_path / "run.npz", resume=True)
    assert len(resumed.history) == 3


def holding(name, over, begun=None):
    """A device that is given a training and never delivers it; ``begun`` is set when it has the training."""

    def handle(work):
        if work.ask.kind == "train":
            if begun is not None:
                begun.set()
            over.wait()
        return tiny.devices()[name].handle(work)

    return handle


def test_stop_closes_a_round_that_has_no_deadline():
    """Those who have answered count; whoever holds the round is not waited for."""
    over = threading.Event()
    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "full", cohort=8, deadline=math.inf, wait_for=8)
    running = threading.Thread(target=federation.run, args=(5,), daemon=True)
    with serving(mailbox, handlers(device_0=holding("device-0", over)), threads=8):
        try:
            running.start()
            while len(federation.messenger.training.replies) < 7:
                time.sleep(0.01)
            federation.stop()
            running.join(60)
            assert not running.is_alive()
        finally:
            over.set()
    (record,) = federation.history
    assert record["answered"] == [1, 2, 3, 4, 5, 6, 7]
    assert record["silent"] == [0]


def test_stop_ends_a_question_that_has_no_deadline():
    over = threading.Event()

    def silent(work):
        if work.ask.kind == "query":
            over.wait()
        return tiny.devices()["device-0"].handle(work)

    mailbox = Mailbox()
    federation = Federation(
        mailbox,
        tiny.model(),
        cohort=3,
        deadline=math.inf,
        answer_timeout=math.inf,
        wait_for=8,
        selector="power-of-choice",
    )
    running = threading.Thread(target=federation.run, args=(5,), daemon=True)
    with serving(mailbox, handlers(device_0=silent), threads=8):
        try:
            running.start()
            while not federation.messenger._awaited:
                time.sleep(0.01)
            time.sleep(0.5)
            federation.stop()
            running.join(60)
            assert not running.is_alive()
        finally:
            over.set()


def test_a_lost_device_does_not_hold_a_round_without_a_deadline():
    over = threading.Event()
    mailbox = Mailbox(lost_after=2.0)
    federation = Federation(mailbox, tiny.model(), "full", cohort=8, deadline=math.inf, wait_for=8)
    with serving(mailbox, handlers(device_0=holding("device-0", over)), threads=8):
        try:
            federation.run(1)
        finally:
            over.set()
    (record,) = federation.history
    assert record["silent"] == [0]
    assert record["answered"] == [1, 2, 3, 4, 5, 6, 7]


def test_a_lost_stand_by_is_not_busy_for_ever():
    """It is not needed, and its device never comes back: without a deadline, only its silence tells."""
    over = threading.Event()
    begun = threading.Event()
    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "uniform", cohort=7, overselect=8 / 7, deadline=math.inf, wait_for=8)

    def after_it(handle):
        def handle_later(work):
            if work.ask.kind == "train":
                begun.wait(60)  # an ask that its device has not fetched would be withdrawn
            return handle(work)

        return handle_later

    devices = {name: after_it(handle) for name, handle in handlers().items()}
    devices["device-0"] = holding("device-0", over, begun)
    with serving(mailbox, devices, threads=8):
        try:
            federation.driver.play_round()
            busy = federation.messenger.busy_sessions()
            mailbox.lost_after = 0.5
            deadline = time.monotonic() + 60
            while federation.messenger.busy_sessions() and time.monotonic() < deadline:
                federation.messenger._receive(0.1)
        finally:
            over.set()
    assert busy == {"device-0/1"}
    assert federation.messenger.busy_sessions() == set()


def test_what_clients_send_is_decided_once(tmp_path):
    """The first cohort sends some of the arrays; after a restart, a reply that comes alone is held against that."""

    def partial(name, *, fails=False):
        def handle(work):
            if work.ask.kind == "train" and fails:
                raise RuntimeError("no power")
            reply = tiny.devices()[name].handle(work)
            return replace(reply, model={"w": reply.model["w"]}) if reply.model else reply

        return device_handle(handle)

    def device_handle(handle):
        def guarded(work):
            try:
                return handle(work)
            except RuntimeError as error:
                return Reply(work.handle, "failed", reason=str(error))

        return guarded

    names = ["device-0", "device-1"]
    options = {"selector": "full", "cohort": 2, "wait_for": 2, "checkpoint": tmp_path / "run.npz"}
    model = {**tiny.model(), "personal": np.zeros(3, np.float32)}
    for rounds, one_fails in ((1, False), (2, True)):
        mailbox = Mailbox()
        federation = Federation(mailbox, model, resume=True, **options)
        devices = {"device-0": partial("device-0"), "device-1": partial("device-1", fails=one_fails)}
        with serving(mailbox, devices):
            federation.run(rounds)
    assert federation.messenger.check.names == {"w"}
    assert federation.history[-1]["answered"] == [0]
    assert federation.history[-1]["left_out"] == {}
    assert [record["names"] for record in federation.history] == [names, names]


def test_stop_ends_a_server_that_nobody_calls():
    federation = Federation(Mailbox(), tiny.model(), cohort=3)
    running = threading.Thread(target=federation.run, args=(5,), daemon=True)
    running.start()
    federation.stop()
    running.join(60)
    assert not running.is_alive()
    assert federation.history == []


def test_the_history_is_read_as_any_run(tmp_path):
    played(rounds=3, checkpoint=tmp_path / "run.npz", audit=tmp_path / "audit.jsonl")
    about = json.loads((tmp_path / "run.npz.about.json").read_text())
    assert about["backend"] == "server"
    assert about["names"] == [f"device-{number}" for number in range(8)]
    assert (tmp_path / "audit.jsonl.reveal.json").exists()


SERVER = """
import sys
from tests.federation import tiny
from tests.federation.fleet import serving
from sortition.federation import Federation, Mailbox

mailbox = Mailbox()
said = lambda record: print("round", record["round"], flush=True)
federation = Federation(
    mailbox, tiny.model(), sys.argv[2], cohort=3, seed=5, wait_for=8, checkpoint=sys.argv[1], resume=True,
    step="adam", combine="fedvarp" if sys.argv[2] == "uniform" else "mean", on_round=said,
)
with serving(mailbox, {name: device.handle for name, device in tiny.devices().items()}):
    federation.run(8)
"""


def server(path, method):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), method], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


@pytest.mark.parametrize("method", ["power-of-choice", "uniform"])
def test_a_server_that_is_killed_goes_on_as_if_nothing_had_happened(method, tmp_path):
    from sortition.core.storage import snapshot

    whole = server(tmp_path / "whole.npz", method)
    killed = server(tmp_path / "killed.npz", method)
    for line in killed.stdout:
        if line.strip() == "round 2":
            killed.send_signal(signal.SIGKILL)
            break
    assert killed.wait() == -signal.SIGKILL
    killed.stdout.close()
    resumed = server(tmp_path / "killed.npz", method)
    lines = resumed.communicate(timeout=300)[0].splitlines()
    assert whole.communicate(timeout=300)[0].splitlines() == [f"round {number}" for number in range(8)]
    assert (whole.returncode, resumed.returncode) == (0, 0)
    assert lines[0] in ("round 3", "round 4")  # it may have come one round further before it died
    arrays, _ = snapshot.load(tmp_path / "whole.npz")
    again, _ = snapshot.load(tmp_path / "killed.npz")
    np.testing.assert_array_equal(arrays["model.0"], again["model.0"])
    cohorts = {
        name: [json.loads(line)["cohort"] for line in (tmp_path / f"{name}.npz.history.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    }
    assert cohorts["killed"] == cohorts["whole"]
    assert len(cohorts["whole"]) == 8


def test_numpys_whole_numbers_are_options_too(tmp_path):
    federation = played(
        rounds=np.int64(2),
        cohort=np.int64(3),
        horizon=np.int32(2),
        seed=np.int64(7),
        checkpoint_every=np.int8(1),
        checkpoint=tmp_path / "state.npz",
    )
    options = federation.options
    assert {type(value) for value in (options.cohort, options.horizon, options.seed, options.checkpoint_every)} == {int}
    assert [len(record["cohort"]) for record in federation.history] == [3, 3]


# -- guards that remember ----------------------------------------------------------------------------------------------


def shouting(device, factor, from_round):
    """A device that sends updates of so many times their length from some round on."""

    def handle(work):
        reply = device.handle(work)
        if work.ask.kind != "train" or work.ask.round < from_round:
            return reply
        return replace(reply, model={"w": (factor * reply.model["w"]).astype(np.float32)})

    return handle


def test_no_round_moves_the_model_further_than_the_clip_allows():
    loud = {name: shouting(device, 1e5, from_round=6) for name, device in tiny.devices(3).items()}
    options = {"devices": handlers() | loud, "selector": "uniform", "cohort": 4, "rounds": 12}
    unguarded = played(**options)
    assert np.abs(unguarded.model["w"]).max() > 1e3
    guarded = played(guards=Guards(norm=50, remember=50, clip=1.2, strikes=1, quarantine=30), **options)
    assert np.abs(guarded.model["w"]).max() < 5
    assert any(record["notes"].get("guards", {}).get("shortened") for record in guarded.history)
    assert {client for record in guarded.history for client in record["left_out"]} == {"0", "1", "2"}


def test_models_that_went_too_far_are_brought_back():
    check = ModelCheck(Guards(remember=5, clip=1))
    check.norm_limit = 1.0
    model = {"w": np.zeros(2, np.float32), "count": np.array([3])}
    sent = {0: {"w": np.array([3, 4], np.float32), "count": np.array([9])}, 1: {"w": np.array([0.1, 0], np.float32)}}
    shorter = check.shortened(sent, model)
    np.testing.assert_allclose(shorter[0]["w"], [0.6, 0.8])
    assert shorter[0]["count"].tolist() == [9]
    assert shorter[1] is sent[1]
