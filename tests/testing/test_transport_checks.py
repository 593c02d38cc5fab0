"""The checks of a transport accept one that keeps the contract and say of others what is wrong."""

from __future__ import annotations

import queue
import threading
import time

import pytest
from tests.federation.fleet import serving

from sortition.federation import Mailbox, Peer, Reply, Work
from sortition.testing import ContractError, check_transport


class Queues:
    """A transport on queues, as docs/backends.md has it."""

    def __init__(self, clients):
        self.clients = clients
        self.inboxes = {name: queue.SimpleQueue() for name in clients}
        self.replies = queue.SimpleQueue()
        self.posted = 0
        for name in clients:
            threading.Thread(target=self._live, args=(name,), daemon=True).start()

    def _live(self, name):
        while True:
            self._answer(name, self.inboxes[name].get())

    def _answer(self, name, work):
        self.replies.put(self.clients[name](work))

    def online(self):
        return {name: Peer(name=name) for name in self.inboxes}

    def post(self, asks):
        return [self._send(ask) if ask.session in self.inboxes else None for ask in asks]

    def _send(self, ask):
        self.posted += 1
        self.inboxes[ask.session].put(Work(str(self.posted), ask, ask.seconds))
        return str(self.posted)

    def poll(self, wait):
        replies = []
        try:
            replies.append(self.replies.get(block=wait > 0, timeout=wait or None))
            while True:
                replies.append(self.replies.get_nowait())
        except queue.Empty:
            return replies

    def cancel(self, handles):
        return []


def test_a_transport_that_keeps_the_contract():
    check_transport(Queues)


def test_the_mailbox_keeps_the_contract():
    mailbox = Mailbox()
    served = []

    def make(clients):
        served.append(serving(mailbox, dict(clients), threads=3))
        served[0].__enter__()
        return mailbox

    try:
        check_transport(make)
    finally:
        served[0].__exit__(None, None, None)


class TooFew(Queues):
    def online(self):
        return {"one": Peer(name="one")}


class Waits(Queues):
    def post(self, asks):
        return [self.clients[ask.session](Work("h", ask, 1.0)).handle for ask in asks]


class SameHandle(Queues):
    def _send(self, ask):
        super()._send(ask)
        return "h"


class Twice(Queues):
    def _answer(self, name, work):
        reply = self.clients[name](work)
        self.replies.put(reply)
        self.replies.put(reply)


class Mixed(Queues):
    def _answer(self, name, work):
        other = "two" if name == "one" else "one"
        super()._answer(other, work)


class OtherHandle(Queues):
    def _answer(self, name, work):
        self.clients[name](work)
        self.replies.put(Reply("another"))


class BusyPoll(Queues):
    def poll(self, wait):
        return super().poll(0)


class SleepingPoll(Queues):
    def poll(self, wait):
        time.sleep(wait)
        return super().poll(0)


class TakesStrangers(Queues):
    def post(self, asks):
        return [self._send(ask) if ask.session in self.inboxes else "sent to nobody" for ask in asks]


class SaysAllIsWithdrawn(Queues):
    def cancel(self, handles):
        return [handle for handle in handles if handle.isdecimal()]


class WithdrawsWhatNeverWas(Queues):
    def cancel(self, handles):
        return handles


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (TooFew, r"must show 3 clients in online\(\); got 1"),
        (Waits, r"must return from post\(\) at once"),
        (SameHandle, "must give every ask a handle of its own"),
        (Twice, "must give each reply once; [1-6] of 6 came again"),
        (Mixed, "must bring each ask to its own client"),
        (OtherHandle, "must bring 6 replies; 6 of them did not come"),
        (BusyPoll, r"must wait in poll\(0.2\)"),
        (SleepingPoll, r"must return from poll\(\) with the first reply"),
        (TakesStrangers, "must give None for a session that is not there"),
        (SaysAllIsWithdrawn, r"must not bring a reply to a message that cancel\(\) said is withdrawn"),
        (WithdrawsWhatNeverWas, r"must return from cancel\(\) only handles that it was given and had posted"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(make, sentence):
    with pytest.raises(ContractError, match=f"The transport {sentence}"):
        check_transport(make, seconds=0.5 if make is not Mixed else 30)
