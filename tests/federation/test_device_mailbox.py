"""Post for devices that come and go: who gets what, once, and until when."""

from __future__ import annotations

import math
import threading

import pytest

from sortition.core.errors import InputError
from sortition.federation import Ask, Mailbox, Peer, Reply, Wait, Work
from sortition.federation.device_mailbox import REMEMBERED


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def mailbox(clock):
    return Mailbox(presence=60, pause=10, clock=clock)


def posted(mailbox, name="a", seconds=50.0):
    """The handle of a message to a device that has checked in."""
    session = next(session for session, peer in mailbox.online().items() if peer.name == name)
    (handle,) = mailbox.post([Ask("train", session, seconds=seconds)])
    assert handle is not None
    return handle


# -- who is there ------------------------------------------------------------------------------------------------------


def test_a_device_is_online_for_a_while_after_its_last_call(mailbox, clock):
    assert mailbox.online() == {}
    assert mailbox.check_in("a", key="k") == Wait(10)
    assert mailbox.online() == {"a/1": Peer(name="a", key="k")}
    clock.now += 60
    assert list(mailbox.online()) == ["a/1"]
    clock.now += 1
    assert mailbox.online() == {}
    assert mailbox.check_in("a", key="k") == Wait(10)
    assert list(mailbox.online()) == ["a/1"]


def test_a_delivery_is_a_call_too(mailbox, clock):
    mailbox.check_in("a")
    handle = posted(mailbox, seconds=1000)
    mailbox.check_in("a")
    clock.now += 100
    assert mailbox.online() == {}
    mailbox.deliver(handle, Reply(handle))
    assert list(mailbox.online()) == ["a/1"]


@pytest.mark.parametrize("changed", [{"boot": "2"}, {"key": "other"}])
def test_a_device_that_restarted_has_another_session_and_lost_its_work(mailbox, changed):
    mailbox.check_in("a", key="k", boot="1")
    handle = posted(mailbox)
    assert mailbox.check_in("a", key="k", boot="1").handle == handle
    assert mailbox.check_in("a", **{"key": "k", "boot": "1", **changed}) == Wait(10)
    assert list(mailbox.online()) == ["a/2"]
    (reply,) = mailbox.poll(0)
    assert (reply.handle, reply.outcome, reply.reason) == (handle, "lost", "the device restarted")
    assert mailbox.deliver(handle, Reply(handle)) == "expired"
    assert mailbox.post([Ask("train", "a/1")]) == [None]


def test_devices_say_once_or_often_that_they_restarted(mailbox):
    for _ in range(3):
        mailbox.check_in("a", boot="second start")
    assert list(mailbox.online()) == ["a/1"]


# -- work and replies --------------------------------------------------------------------------------------------------


def test_work_goes_to_its_device_in_the_order_of_posting(mailbox):
    mailbox.check_in("a")
    mailbox.check_in("b")
    first = posted(mailbox, "a")
    second = posted(mailbox, "a")
    other = posted(mailbox, "b")
    assert mailbox.check_in("a").handle == first
    assert mailbox.deliver(first, Reply("")) == "accepted"
    assert mailbox.check_in("a").handle == second
    assert mailbox.check_in("b").handle == other
    assert [reply.handle for reply in mailbox.poll(0)] == [first]


def test_work_that_was_not_delivered_is_given_again(mailbox, clock):
    """The answer to a check-in can be lost on the way."""
    mailbox.check_in("a")
    handle = posted(mailbox, seconds=50)
    assert mailbox.check_in("a").seconds == 50
    clock.now += 20
    again = mailbox.check_in("a")
    assert (again.handle, again.seconds) == (handle, 30)


def test_a_repeated_delivery_is_accepted_and_counts_once(mailbox, clock):
    mailbox.check_in("a")
    handle = posted(mailbox)
    receipts = [mailbox.deliver(handle, Reply(handle, rows={"loss": 1.0})) for _ in range(3)]
    assert receipts == ["accepted", "repeated", "repeated"]
    assert [reply.handle for reply in mailbox.poll(0)] == [handle]
    assert mailbox.deliver(handle, Reply(handle)) == "repeated"
    assert mailbox.poll(0) == []
    clock.now += REMEMBERED + 1
    assert mailbox.deliver(handle, Reply(handle)) == "expired"


def test_nobody_delivers_for_another(mailbox):
    mailbox.check_in("a")
    mailbox.check_in("b")
    handle = posted(mailbox, "a")
    assert mailbox.deliver(handle, Reply(handle), name="b") == "expired"
    assert mailbox.poll(0) == []
    assert mailbox.deliver(handle, Reply(handle), name="a") == "accepted"


def test_a_handle_that_nobody_knows_is_expired(mailbox):
    assert mailbox.deliver("of an earlier server", Reply("")) == "expired"
    assert mailbox.poll(0) == []


def test_after_its_seconds_work_is_neither_given_nor_taken(mailbox, clock):
    mailbox.check_in("a")
    handle = posted(mailbox, seconds=50)
    clock.now += 50
    assert mailbox.check_in("a") == Wait(10)
    assert mailbox.deliver(handle, Reply(handle, rows={"loss": 1.0})) == "expired"
    (reply,) = mailbox.poll(0)  # that the device is idle again, and nothing that it sent
    assert (reply.outcome, reply.rows) == ("lost", {})


def test_expired_letters_do_not_pile_up(mailbox, clock):
    mailbox.check_in("a")
    for _ in range(20):
        posted(mailbox, seconds=5)
        clock.now += 6
        mailbox.check_in("a")
    assert len(mailbox._letters) <= 1
    assert len(mailbox._boxes["a"].handles) <= 1


def test_cancel_withdraws_what_nobody_has_seen(mailbox):
    for name in "ab":
        mailbox.check_in(name)
    seen = posted(mailbox, "a")
    unseen = posted(mailbox, "b")
    mailbox.check_in("a")
    assert list(mailbox.cancel([seen, unseen, "unknown"])) == [unseen]
    assert mailbox.check_in("b") == Wait(10)
    assert mailbox.check_in("a") == Wait(10)  # its round is over
    assert mailbox.deliver(seen, Reply(seen, rows={"loss": 1.0})) == "expired"
    (reply,) = mailbox.poll(0)
    assert (reply.handle, reply.outcome, reply.rows) == (seen, "lost", {})
    assert mailbox.deliver(seen, Reply(seen)) == "expired"
    assert mailbox.poll(0) == []


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("fetched", [False, True])
def test_work_without_a_deadline_is_lost_with_its_device(clock, fetched, cancelled):
    """Nobody waits for ever: neither a round, nor for a stand-by that it did not need."""
    mailbox = Mailbox(presence=60, pause=10, lost_after=600, clock=clock)
    mailbox.check_in("a")
    mailbox.check_in("b")
    handle = posted(mailbox, "a", seconds=math.inf)
    others = posted(mailbox, "b", seconds=math.inf)
    if fetched:
        mailbox.check_in("a")
    withdrawn = mailbox.cancel([handle]) if cancelled else []
    clock.now += 600
    mailbox.check_in("b")
    assert mailbox.poll(0) == []
    clock.now += 1
    lost = mailbox.poll(0)
    if withdrawn:  # no device had fetched it: there is nothing to lose
        assert lost == []
        return
    assert [(reply.handle, reply.outcome) for reply in lost] == [(handle, "lost")]
    assert "has not called for 601 s" in lost[0].reason
    assert mailbox.deliver(handle, Reply(handle)) == "expired"
    assert mailbox.deliver(others, Reply(others)) == "accepted"


def test_work_with_a_deadline_lapses_by_itself(clock):
    mailbox = Mailbox(presence=60, pause=10, lost_after=600, clock=clock)
    mailbox.check_in("a")
    posted(mailbox, "a", seconds=5000)
    clock.now += 1000
    assert mailbox.poll(0) == []


# -- threads -----------------------------------------------------------------------------------------------------------


def test_poll_sleeps_until_a_reply_comes():
    mailbox = Mailbox()
    mailbox.check_in("a")
    handle = posted(mailbox, seconds=600)
    polled = []
    waiting = threading.Thread(target=lambda: polled.extend(mailbox.poll(600)))
    waiting.start()
    mailbox.deliver(handle, Reply(handle))
    waiting.join(60)
    assert not waiting.is_alive()
    assert [reply.handle for reply in polled] == [handle]


def test_many_threads_get_every_reply_exactly_once():
    mailbox = Mailbox()
    names = [f"device-{number}" for number in range(40)]
    for name in names:
        mailbox.check_in(name)
    sessions = list(mailbox.online())
    handles = set(mailbox.post([Ask("query", session, seconds=600) for session in sessions * 5]))
    assert len(handles) == 200
    receipts: list[str] = []
    came: list[str] = []

    def device(name):
        while isinstance(work := mailbox.check_in(name), Work):
            receipts.append(mailbox.deliver(work.handle, Reply(work.handle), name=name))

    def federation():
        while len(came) < len(handles) and (replies := mailbox.poll(60)):
            came.extend(reply.handle for reply in replies)

    collector = threading.Thread(target=federation)
    devices = [threading.Thread(target=device, args=(name,)) for name in names * 2]  # each device twice
    collector.start()
    for thread in devices:
        thread.start()
    for thread in devices:
        thread.join()
    collector.join()
    assert mailbox.poll(0) == []
    assert sorted(came) == sorted(handles)
    assert receipts.count("accepted") == 200
    assert set(receipts) <= {"accepted", "repeated"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"presence": 0}, "Mailbox.presence must be seconds > 0; got 0"),
        ({"presence": 5, "pause": 5}, "Mailbox.pause must be seconds between 0 and presence, 5; got 5. A device that"),
        ({"pause": "soon"}, "Mailbox.pause must be seconds"),
        ({"lost_after": 0}, "Mailbox.lost_after must be seconds > 0; got 0. math.inf waits without end."),
    ],
)
def test_what_is_no_mailbox_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Mailbox(**options)


def test_a_device_has_a_name(mailbox):
    with pytest.raises(InputError, match=r"Mailbox.check_in\(name\) must be a text that is not empty; got ''"):
        mailbox.check_in("")
