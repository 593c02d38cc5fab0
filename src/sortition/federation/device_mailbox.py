"""A transport for devices that check in when they like: the server never calls a device, each device calls the server.

A device checks in, and is given work or told how long to wait; when it has done its work, it delivers a reply. The
mailbox knows no network: an HTTP server, or any other, proves who a device is and calls these methods, from any thread.
``examples/server`` is such a server.

Both calls may be repeated. A device that checks in again before it has delivered gets the same work under the same
handle, and a reply that is delivered twice counts once.

A device at work does not call, so that nobody can tell whether it is slow or gone. Work with a deadline lapses by
itself. Work without one is given up when its device has not called for ``lost_after`` seconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import uuid4

from sortition.core.errors import bad
from sortition.core.validation import is_number
from sortition.federation.messages import Ask, Handle, Peer, Reply

Receipt = Literal["accepted", "repeated", "expired"]
REMEMBERED = 3600.0  # seconds after which a second delivery of the same reply is no longer recognised as one
LOST_AFTER = 86400.0  # seconds without a call after which a device has lost work that has no deadline


@dataclass(frozen=True, eq=False)
class Work:
    """What a device is to do.

    Attributes:
        handle: under which its reply is delivered.
        ask: what it is asked.
        seconds: how long the reply is waited for; infinite where there is no deadline.
    """

    handle: Handle
    ask: Ask
    seconds: float


@dataclass(frozen=True)
class Wait:
    """That there is nothing to do.

    Attributes:
        seconds: after which the device should check in again.
    """

    seconds: float


@dataclass(eq=False)
class Letter:
    """A message that is not answered.

    Attributes:
        ask: what it says.
        name: of the device that it is for.
        expires: when nobody waits for the reply any more.
        is_fetched: whether the device was given it.
        is_cancelled: whether its round ended while the device was at work.
    """

    ask: Ask
    name: str
    expires: float
    is_fetched: bool = False
    is_cancelled: bool = False

    def is_open(self, clock: float) -> bool:
        """Tell whether a reply is still waited for."""
        return not self.is_cancelled and self.expires > clock


@dataclass(eq=False)
class Box:
    """What the mailbox knows of one device.

    Attributes:
        key: a digest of the key that proved its name, where there is one.
        boot: what it said when it started.
        starts: how often it started, as far as is known.
        last_call: when it last called.
        handles: of its letters, in the order in which they were posted.
    """

    key: str
    boot: str
    last_call: float
    starts: int = 1
    handles: list[Handle] = field(default_factory=list)


class Mailbox:
    """Keeps messages until devices fetch them, and replies until the federation takes them.

    Every method may be called from any thread.

    Args:
        presence: seconds after its last call for which a device counts as online.
        pause: seconds after which a device without work is told to check in again.
        lost_after: seconds after its last call for which a device is waited for that has work without a deadline.
        clock: seconds; tests give another one.
    """

    takes_replies_after_restart = True  # a device delivers under the handle that it was given, whoever has restarted

    def __init__(
        self,
        presence: float = 120.0,
        pause: float = 30.0,
        *,
        lost_after: float = LOST_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (is_number(presence) and presence > 0):
            raise bad("Mailbox.presence", "seconds > 0", presence)
        if not (is_number(pause) and 0 < pause < presence):
            hint = "A device that waits so long would not count as online."
            raise bad("Mailbox.pause", f"seconds between 0 and presence, {presence:g}", pause, hint)
        if not (is_number(lost_after) and lost_after > 0):
            raise bad("Mailbox.lost_after", "seconds > 0", lost_after, "math.inf waits without end.")
        self.presence = float(presence)
        self.pause = float(pause)
        self.lost_after = float(lost_after)
        self._clock = clock
        self._changed = threading.Condition()
        self._boxes: dict[str, Box] = {}
        self._letters: dict[Handle, Letter] = {}
        self._replies: list[Reply] = []
        self._delivered: set[Handle] = set()
        self._deliveries: deque[tuple[float, Handle]] = deque()  # when each was delivered, the oldest first

    # -- what devices call ---------------------------------------------------------------------------------------------

    def check_in(self, name: str, key: str = "", *, boot: str = "") -> Work | Wait:
        """Give a device its work, or say how long to wait; returns at once.

        Args:
            name: of the device. The caller has proved it, as by a token or a certificate.
            key: a digest of the key that proved it, for ``Federation(bind_names=True)``.
            boot: any text that is new whenever the device's program starts, such as a UUID. A device that restarted has
                lost its work, which is not waited for any longer, and it is asked who it is.
        """
        if not (isinstance(name, str) and name):
            raise bad("Mailbox.check_in(name)", "a text that is not empty", name)
        with self._changed:
            clock = self._clock()
            if name not in self._boxes:
                self._boxes[name] = Box(key=key, boot=boot, last_call=clock)
            box = self._boxes[name]
            if (box.key, box.boot) != (key, boot):
                self._restart(box, key, boot)
            box.last_call = clock
            handle = self._next_handle(box, clock)
            if handle is None:
                return Wait(self.pause)
            letter = self._letters[handle]
            letter.is_fetched = True
            return Work(handle, letter.ask, letter.expires - clock)

    def deliver(self, handle: Handle, reply: Reply, *, name: str | None = None) -> Receipt:
        """Take the reply to a message.

        Args:
            handle: of the work that is done.
            reply: what came of it; its own handle is not read.
            name: of the device that delivers, where the caller knows it: nobody answers for another.

        Returns:
            ``accepted``; ``repeated`` for a reply that was accepted before; ``expired`` where nobody waits for it: its
            round is over, or the server that asked has restarted.
        """
        with self._changed:
            clock = self._clock()
            self._forget_deliveries(clock)
            if handle in self._delivered:
                return "repeated"
            letter = self._letters.get(handle)
            if letter is None or name not in (None, letter.name):
                return "expired"
            del self._letters[handle]
            self._boxes[letter.name].last_call = clock
            if letter.is_open(clock):
                self._delivered.add(handle)
                self._deliveries.append((clock, handle))
                self._arrive(replace(reply, handle=handle))
                return "accepted"
            # what it sent is dropped, but that it is idle again is news
            self._arrive(Reply(handle, "lost", reason="it came after the end of its round"))
            return "expired"

    # -- what the federation calls -------------------------------------------------------------------------------------

    def online(self) -> Mapping[str, Peer]:
        """Return the devices that called in the last ``presence`` seconds, by session."""
        with self._changed:
            earliest = self._clock() - self.presence
            return {
                session_of(name, box): Peer(name=name, key=box.key)
                for name, box in self._boxes.items()
                if box.last_call >= earliest
            }

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle | None]:
        """Keep messages until their devices check in; None for a session that has ended."""
        with self._changed:
            clock = self._clock()
            self._drop_expired(clock)
            names = {session_of(name, box): name for name, box in self._boxes.items()}
            handles: list[Handle | None] = []
            for ask in asks:
                name = names.get(ask.session)
                if name is None:
                    handles.append(None)
                    continue
                handle = ask.key or uuid4().hex
                self._delivered.discard(handle)  # what was delivered to a server that then stopped is asked for again
                self._letters[handle] = Letter(ask, name, expires=clock + ask.seconds)
                self._boxes[name].handles.append(handle)
                handles.append(handle)
            return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        """Return all replies since the last call; sleep until there is one, at most ``wait`` seconds."""
        with self._changed:
            self._give_up_lost(self._clock())
            if wait > 0:
                self._changed.wait_for(lambda: bool(self._replies), timeout=min(wait, threading.TIMEOUT_MAX))
            replies = self._replies
            self._replies = []
            return replies

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Withdraw messages, and return those that no device has fetched. The others' replies are refused."""
        with self._changed:
            withdrawn = []
            for handle in handles:
                letter = self._letters.get(handle)
                if letter is None:
                    continue
                if letter.is_fetched:
                    letter.is_cancelled = True
                else:
                    del self._letters[handle]
                    withdrawn.append(handle)
            return withdrawn

    # -- inside the lock -----------------------------------------------------------------------------------------------

    def _restart(self, box: Box, key: str, boot: str) -> None:
        """Begin another session of a device; what it was doing is lost."""
        box.key = key
        box.boot = boot
        box.starts += 1
        for handle in box.handles:
            letter = self._letters.pop(handle, None)
            if letter is not None:
                self._arrive(Reply(handle, "lost", reason="the device restarted"))
        box.handles = []

    def _give_up_lost(self, clock: float) -> None:
        """Report as lost the work without a deadline of devices that have not called for long."""
        for handle, letter in list(self._letters.items()):
            silence = clock - self._boxes[letter.name].last_call
            if letter.expires == math.inf and silence > self.lost_after:
                del self._letters[handle]
                self._arrive(Reply(handle, "lost", reason=f"the device has not called for {silence:.0f} s"))

    def _next_handle(self, box: Box, clock: float) -> Handle | None:
        """Return the first of a device's messages to which a reply is waited for."""
        box.handles = [handle for handle in box.handles if handle in self._letters]
        for handle in box.handles:
            if self._letters[handle].is_open(clock):
                return handle
        return None

    def _arrive(self, reply: Reply) -> None:
        """Keep a reply for the federation, and wake it up."""
        self._replies.append(reply)
        self._changed.notify_all()

    def _drop_expired(self, clock: float) -> None:
        """Forget messages whose replies nobody waits for any more."""
        for handle in [handle for handle, letter in self._letters.items() if letter.expires <= clock]:
            del self._letters[handle]

    def _forget_deliveries(self, clock: float) -> None:
        """Forget the handles of replies that were delivered long ago."""
        while self._deliveries and self._deliveries[0][0] < clock - REMEMBERED:
            _, handle = self._deliveries.popleft()
            self._delivered.discard(handle)


def session_of(name: str, box: Box) -> str:
    """Return the session of a device: another one whenever it has started anew."""
    return f"{name}/{box.starts}"
