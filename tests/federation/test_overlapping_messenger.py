"""Quorums, late updates and buffered steps over a transport, and on a server of one's own that is killed."""

import numpy as np
import pytest
from tests.federation import tiny
from tests.federation.fake import NEVER, Device, Federation, Network
from tests.federation.fleet import serving

from sortition.core import InputError
from sortition.federation import Federation as Server
from sortition.federation import Mailbox, Pace, Wait
from sortition.studies.audit.audit_run import examine_log


def network(seconds, **options):
    options = {"facts": {"sizes": 5.0}, **options}
    devices = [Device(f"client-{k}", train=train, w=(1.0 + k, 1.0), **options) for k, train in enumerate(seconds)]
    return Network(devices)


def answered(record):
    return record["cohort"] if record["answered"] is None else record["answered"]


def check_accounts(records, flying=()):
    """Nobody is in flight twice, and every dispatch ends exactly once; who is in flight at the end."""
    flying = set(flying)
    for record in records:
        ended = [*answered(record), *(record["notes"].get("unsound_updates", []))]
        for fate in ("failed", "given_up", "too_stale"):
            ended += [int(client) for client in record.get(fate, {})]
        assert len(set(ended)) == len(ended)
        assert not flying & set(record["cohort"])
        flying = (flying | set(record["cohort"])) - set(ended)
        assert record.get("in_flight", 0) == len(flying)
    return flying


BUFFERED = Pace(kind="buffered", buffer=2)


def test_steps_no_longer_wait_for_the_slow():
    slow = [10.0] * 3 + [1.0] * 7
    rounds = Federation(network(slow), cohort=4, seed=3)
    waited = rounds.play(6)[-1]["clock"]
    made = Federation(network(slow), cohort=4, seed=3, pace_option=BUFFERED)
    records = made.play(6)
    assert records[-1]["clock"] < waited / 2
    assert any("staleness" in record for record in made.play(20))
    check_accounts(made.files.history)


def test_a_quorum_closes_a_round_and_the_rest_is_dropped():
    made = Federation(network([1.0, 1.0, 9.0, 9.0]), cohort=4, pace_option={"quorum": 0.5})
    (record,) = made.play()
    assert record["answered"] == [0, 1]
    assert record["standby"] == [2, 3]
    assert record["clock"] == pytest.approx(1.0, abs=0.1)


def test_late_updates_are_used_when_they_come():
    made = Federation(network([1.0, 1.0, 2.5]), cohort=3, pace_option={"quorum": 2, "late": "use"})
    first, second, third = made.play(3)
    assert (first["answered"], first["in_flight"]) == ([0, 1], 1)
    assert (second["cohort"], second["busy"]) == ([0, 1], 1)
    assert 2 in answered(third)
    assert third["staleness"][third["answered"].index(2)] == 2
    assert sum(third["used"]) == pytest.approx(1)


def test_a_stale_model_is_rebased():
    """w_v + (w_k − w_{v−τ}): the slow client's change counts, not its old model."""
    made = Federation(network([1.0, 1.5]), cohort=2, pace_option={"quorum": 1, "late": "use", "staleness": "constant"})
    made.play(1)
    assert made.engine.model["w"].tolist() == [1.0, 1.0]  # the fast one's
    made.network.device("client-0").seconds["train"] = NEVER
    (second,) = made.play(1)
    assert (second["answered"], second["staleness"]) == ([1], [1])
    assert made.engine.model["w"].tolist() == [3.0, 2.0]  # (1, 1) + ((2, 1) − (0, 0))


def test_work_without_an_answer_is_given_up_and_others_are_chosen():
    seconds = [NEVER, NEVER, 1.0, 1.0, 1.0, 1.0]
    made = Federation(network(seconds), cohort=4, pace_option=BUFFERED, deadline=5.0)
    records = made.play(12)
    reasons = {k: why for record in records for k, why in record.get("given_up", {}).items()}
    assert set(reasons) == {"0", "1"}
    assert set(reasons.values()) == {"no answer before the deadline"}
    check_accounts(records)


def test_a_program_that_raises_has_failed():
    made = Federation(network([1.0] * 5), cohort=3, pace_option=BUFFERED)
    made.network.device("client-2").fails = "out of memory"
    records = made.play(6)
    failed = {k: why for record in records for k, why in record.get("failed", {}).items()}
    assert failed == {"2": "out of memory"}
    check_accounts(records)


def test_updates_that_cannot_be_used_have_ended():
    made = Federation(network([1.0] * 5), cohort=3, pace_option=BUFFERED)
    made.network.device("client-1").w = (np.nan, 1.0)
    records = made.play(6)
    assert any("1" in record["left_out"] for record in records)
    assert np.isfinite(made.engine.model["w"]).all()
    check_accounts(records)


def test_places_are_filled_at_every_arrival():
    pace = Pace(kind="buffered", buffer=3, refill="arrival")
    made = Federation(network([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), cohort=3, pace_option=pace)
    records = made.play(5)
    check_accounts(records)
    registrar = made.driver.registrar
    assert registrar.index > registrar.version


def test_updates_that_came_while_a_step_was_made_take_no_place():
    """Whoever has answered is not at work: with six instant devices, a selection of four places finds a free one."""
    made = Federation(network([0.0] * 6), cohort=4, pace_option=BUFFERED)
    records = made.play(8)
    assert all(record["cohort"] for record in records)
    check_accounts(records)


def test_adaptive_steps_follow_the_longest_training_at_work():
    """While a client that took 8 seconds is at work beside one of 1 second, a step is made every 8 / 2 seconds."""
    pace = Pace(kind="buffered", buffer="adaptive")
    made = Federation(network([1.0, 8.0]), cohort=2, pace_option=pace)
    records = made.play(14)
    check_accounts(records)
    clocks = np.array([record["clock"] for record in records])
    first_of_slow = next(t for t, record in enumerate(records) if 1 in answered(record))
    assert np.allclose(np.diff(clocks[:first_of_slow]), 1.0, atol=0.1)
    assert np.allclose(np.diff(clocks[first_of_slow:])[:2], 4.0, atol=0.1)


def test_saa_looks_at_single_updates():
    made = Federation(network([1.0, 1.0, 2.5]), cohort=3, pace_option={"quorum": 2, "late": "use", "staleness": "saa"})
    records = made.play(4)
    stale = [record for record in records if "staleness" in record]
    assert stale
    assert all(sum(record["used"]) == pytest.approx(1) for record in stale)


@pytest.mark.parametrize("method", ["power-of-choice", "microcosm", "oort", "fedcor"])
def test_methods_ask_while_others_are_at_work(method):
    seconds = [1.0, 2.0, 3.0, 1.0, 2.0, 9.0]
    facts = {"sizes": 5.0, "label_counts": [2, 3]}
    signals = ("loss", "training-loss", "duration", "rms-loss")
    made = Federation(network(seconds, facts=facts, signals=signals), method, cohort=3, pace_option=BUFFERED)
    records = made.play(8)
    check_accounts(records)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pace": {"kind": "buffered", "buffer": 9}}, r"pace\.buffer must be at most the concurrency, 3; got 9\."),
        ({"pace": {"quorum": 4}}, r"pace\.quorum must be at most the cohort, 3; got 4\."),
        ({"pace": {"deadline": 5.0}, "deadline": 9.0}, r"Federation\.deadline must be left out where the pace says it"),
        ({"pace": {"deadline": 5.0}, "deadline": 1800.0}, r"Federation\.deadline must be left out where the pace says"),
        ({"pace": {"overselect": 2.0}, "overselect": 1.5}, r"Federation\.overselect must be left out where the pace"),
        ({"pace": {"deadline": {"quantile": 0.5}}}, r"pace\.deadline must be seconds in a real federation"),
        ({"pace": {"slot": 60.0}}, r"pace\.slot must be left out in a real federation"),
        ({"pace": 3}, r"Federation\.pace must be a Pace or a table of its keys; got 3\."),
    ],
)
def test_a_mistake_is_one_sentence(options, message):
    with pytest.raises(InputError, match=message):
        Server(Mailbox(), tiny.model(), "uniform", cohort=3, **options)


# A server of one's own ------------------------------------------------------------------------------------------------

PACES = {
    "buffered": {"kind": "buffered", "concurrency": 5, "buffer": 2},
    "refilled": {"kind": "buffered", "concurrency": 5, "buffer": 2, "refill": "arrival"},
    "adaptive": {"kind": "buffered", "concurrency": 5, "buffer": "adaptive"},
    "late": {"quorum": 0.5, "late": "use"},
}


ROUNDS = 30


class Killed(BaseException):
    pass


def server(folder, mailbox, pace, **options):
    return Server(
        mailbox,
        tiny.model(),
        "uniform",
        cohort=4,
        pace=pace,
        seed=5,
        deadline=60.0,
        checkpoint=folder / "run.npz",
        resume=True,
        audit=folder / "run.audit.jsonl",
        wait_for=8,
        **options,
    )


def killed_after(federation, events):
    """Let the server die when it waits for updates or makes a step: nothing that it would do after is done."""
    messenger = federation.messenger
    left = [events]

    def counted(work):
        def work_or_die(*arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return work(*arguments)

        return work_or_die

    messenger.advance = counted(messenger.advance)
    messenger.collect = counted(messenger.collect)
    return federation


@pytest.mark.parametrize("metrics", [None, 0], ids=["without metrics", "with metrics"])
@pytest.mark.parametrize("pace", PACES)
def test_a_server_that_is_killed_loses_and_doubles_nothing(pace, metrics, tmp_path):
    handled = []

    def noting(device):
        def handle(work):
            if work.ask.kind == "train":
                handled.append((work.handle, work.ask.client, work.ask.round))
            return device.handle(work)

        return handle

    devices = {name: noting(device) for name, device in tiny.devices().items()}
    for events in (1, 4, 7):
        mailbox = Mailbox()
        with serving(mailbox, devices), pytest.raises(Killed):
            killed_after(server(tmp_path, mailbox, PACES[pace], metrics=metrics), events).run(ROUNDS)
    mailbox = Mailbox()
    with serving(mailbox, devices):
        federation = server(tmp_path, mailbox, PACES[pace], metrics=metrics)
        federation.run(ROUNDS)
    records = federation.history
    assert [record["round"] for record in records] == list(range(ROUNDS))
    check_accounts(records)
    assert not any("given_up" in record or "failed" in record for record in records)
    handles = {(client, index): handle for handle, client, index in handled}
    assert len(handles) == len({handle for handle, _, _ in handled})  # a work has one handle, over restarts too
    sent = sum(len(record["cohort"]) for record in records)
    assert len(handles) >= sent - records[-1].get("in_flight", 0)
    assert examine_log(tmp_path / "run.audit.jsonl").faults == []


def test_a_server_killed_with_a_thousand_trainings_in_flight_loses_and_doubles_none(tmp_path):
    """Devices answer under the handles that they were given before the server died; each answer is used once."""
    n_devices = 1100
    names = [f"device-{number}" for number in range(n_devices)]

    def thousand_at_once(mailbox):
        return Server(
            mailbox,
            tiny.model(),
            "uniform",
            cohort=1000,
            pace={"kind": "buffered", "buffer": 250},
            checkpoint=tmp_path / "run.npz",
            resume=True,
            wait_for=n_devices,
        )

    class Collecting:
        """A mailbox whose devices introduce themselves at once, and keep the work that they are given."""

        def __init__(self):
            self.mailbox = Mailbox()
            self.devices = tiny.devices(n_devices)
            self.work = {}
            for name in names:
                self.mailbox.check_in(name)

        def look(self):
            for name in names:
                work = self.mailbox.check_in(name)
                if isinstance(work, Wait):
                    continue
                if work.ask.kind == "train":
                    self.work[name] = work
                else:
                    self.mailbox.deliver(work.handle, self.devices[name].handle(work), name=name)

    first = Collecting()
    killed = thousand_at_once(first.mailbox)
    poll = killed.messenger.transport.poll

    def poll_until_all_are_at_work(wait):
        first.look()
        if len(first.work) == 1000:
            raise Killed
        return poll(0.0)

    killed.messenger.transport.poll = poll_until_all_are_at_work
    with pytest.raises(Killed):
        killed.run(4)
    second = Collecting()
    again = thousand_at_once(second.mailbox)
    sent_again = {}
    poll_again = again.messenger.transport.poll

    def poll_with_answers(wait):
        second.look()
        for name, work in second.work.items():
            sent_again[work.handle] = name
            second.mailbox.deliver(work.handle, second.devices[name].handle(work), name=name)
        second.work = {}
        return poll_again(0.0)

    again.messenger.transport.poll = poll_with_answers
    again.run(4)
    records = again.history
    handles_before = {work.handle: name for name, work in first.work.items()}
    assert handles_before.items() <= sent_again.items()  # the same work under the same handle
    assert set(records[0]["names"]) == set(handles_before.values())
    assert not any("given_up" in record or "failed" in record for record in records)
    used = [client for record in records for client in answered(record)]
    assert len(used) == 1000
    check_accounts(records)


def test_a_server_that_is_stopped_goes_on_with_work_in_flight(tmp_path):
    devices = {name: device.handle for name, device in tiny.devices().items()}
    mailbox = Mailbox()

    def stop(record):
        if record["round"] == 3:
            federation.stop()

    federation = server(tmp_path, mailbox, PACES["buffered"], on_round=stop)
    with serving(mailbox, devices):
        federation.run(10)
    assert 4 <= len(federation.history) < 10
    mailbox = Mailbox()
    with serving(mailbox, devices):
        again = server(tmp_path, mailbox, PACES["buffered"])
        again.run(10)
    assert len(again.history) == 10
    check_accounts(again.history)
