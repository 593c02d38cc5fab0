"""A transport for devices that check in when they like: the server never calls a device, each device calls the server.

A device checks in, and is given work or told how long to wait; when it has done its work, it delivers a reply. The
mailbox knows no network: an HTTP server, or any other, proves who a device is and calls these methods, from any thread.
``examples/server`` is such a server.

Both calls may be repeated. A device that checks in again before it has delivered gets the same work under the same
handle, and a reply that is delivered twice counts once.
"""

from __future__ import annotations

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
        seen: whether the device was given it.
        over: whether its round ended while the device was at work.
    """

    ask: Ask
    name: str
    expires: float
    seen: bool = False
    over: bool = False

    def is_open(self, now: float) -> bool:
        """Whether a reply is still waited for."""
        return not self.over and self.expires > now


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
        clock: seconds; tests give another one.
    """

    takes_replies_after_restart = True  # a device delivers under the handle that it was given, whoever has restarted

    def __init__(
        self, presence: float = 120.0, pause: float = 30.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not (is_number(presence) and presence > 0):
            raise bad("Mailbox.presence", "seconds > 0", presence)
        if not (is_number(pause) and 0 < pause < presence):
            hint = "A device that waits so long would not count as online."
            raise bad("Mailbox.pause", f"seconds between 0 and presence, {presence:g}", pause, hint)
        self.presence = float(presence)
        self.pause = float(pause)
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
            now = self._clock()
            box = self._boxes.get(name)
            if box is None:
                box = self._boxes[name] = Box(key=key, boot=boot, last_call=now)
            elif (box.key, box.boot) != (key, boot):
                self._restart(box, key, boot)
            box.last_call = now
            handle = self._next_handle(box, now)
            if handle is None:
                return Wait(self.pause)
            letter = self._letters[handle]
            letter.seen = True
            return Work(handle, letter.ask, letter.expires - now)

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
            now = self._clock()
            self._forget_deliveries(now)
            if handle in self._delivered:
                return "repeated"
            letter = self._letters.get(handle)
            if letter is None or name not in (None, letter.name):
                return "expired"
            del self._letters[handle]
            self._boxes[letter.name].last_call = now
            if letter.is_open(now):
                self._delivered.add(handle)
                self._deliveries.append((now, handle))
                self._arrive(replace(reply, handle=handle))
                return "accepted"
            # what it sent is dropped, but that it is idle again is news
            self._arrive(Reply(handle, "lost", reason="it came after the end of its round"))
            return "expired"

    # -- what the federation calls -------------------------------------------------------------------------------------

    def online(self) -> Mapping[str, Peer]:
        """The devices that called in the last ``presence`` seconds, by session."""
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
            now = self._clock()
            self._drop_expired(now)
            names = {session_of(name, box): name for name, box in self._boxes.items()}
            handles: list[Handle | None] = []
            for ask in asks:
                name = names.get(ask.session)
                if name is None:
                    handles.append(None)
                    continue
                handle = ask.key or uuid4().hex
                self._delivered.discard(handle)  # what was delivered to a server that then stopped is asked for again
                self._letters[handle] = Letter(ask, name, now + ask.seconds)
                self._boxes[name].handles.append(handle)
                handles.append(handle)
            return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        """All replies since the last call; sleeps until there is one, at most ``wait`` seconds."""
        with self._changed:
            if wait > 0:
                self._changed.wait_for(lambda: bool(self._replies), timeout=min(wait, threading.TIMEOUT_MAX))
            replies = self._replies
            self._replies = []
            return replies

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Withdraw messages; returned are those that no device has fetched. The others' replies are refused."""
        with self._changed:
            unseen = []
            for handle in handles:
                letter = self._letters.get(handle)
                if letter is None:
                    continue
                if letter.seen:
                    letter.over = True
                else:
                    del self._letters[handle]
                    unseen.append(handle)
            return unseen

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

    def _next_handle(self, box: Box, now: float) -> Handle | None:
        """The first of a device's messages to which a reply is waited for."""
        box.handles = [handle for handle in box.handles if handle in self._letters]
        for handle in box.handles:
            if self._letters[handle].is_open(now):
                return handle
        return None

    def _arrive(self, reply: Reply) -> None:
        self._replies.append(reply)
        self._changed.notify_all()

    def _drop_expired(self, now: float) -> None:
        for handle in [handle for handle, letter in self._letters.items() if letter.expires <= now]:
            del self._letters[handle]

    def _forget_deliveries(self, now: float) -> None:
        while self._deliveries and self._deliveries[0][0] < now - REMEMBERED:
            self._delivered.discard(self._deliveries.popleft()[1])


def session_of(name: str, box: Box) -> str:
    """The session of a device: another one whenever it has started anew."""
    return f"{name}/{box.starts}"
