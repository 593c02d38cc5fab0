"""The contract of a transport, as checks that the author of a backend can run: ``check_transport(make)``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sortition.federation.device_mailbox import Work
from sortition.federation.messages import Ask, Handle, Reply, Transport
from sortition.testing.violation import ContractError

Clients = Mapping[str, Callable[[Work], Reply]]  # by name: what each does with its work
NAMES = ("one", "two", "three")
SHORT_WAIT = 0.2  # seconds for which a poll is watched while nobody answers


def check_transport(make: Callable[[Clients], Transport], *, seconds: float = 30.0) -> None:
    """Raise :class:`ContractError` with a sentence at the first point of the contract that a transport breaks.

    Args:
        make: from three clients to a transport at which they are online, or soon will be.
        seconds: after which something that has not come is missing.
    """
    bench = _TestBench(seconds)
    bench.transport = make({name: bench.client(name) for name in NAMES})
    try:
        _comes_online(bench)
        _posts_without_waiting(bench)
        _waits_in_poll(bench)
        _brings_every_reply_once(bench)
        _wakes_for_a_reply(bench)
        _refuses_strangers(bench)
        _cancels(bench)
    finally:
        bench.may_answer.set()


@dataclass(eq=False)
class _TestBench:
    """A transport under test, and clients that answer when they may."""

    seconds: float
    transport: Transport = None  # type: ignore[assignment]  # made from the clients below

    def __post_init__(self) -> None:
        self.may_answer = threading.Event()
        self.sessions: dict[str, str] = {}  # by a client's name
        self.reason_by_handle: dict[Handle | None, str] = {}  # what each client will say, by handle

    def client(self, name: str) -> Callable[[Work], Reply]:
        """Make a client that answers with its name and the round that it was asked in."""

        def handle(work: Work) -> Reply:
            self.may_answer.wait()
            return Reply(work.handle, reason=f"{name} in round {work.ask.round}")

        return handle

    def ask(self, name: str, round_index: int) -> Ask:
        """Make a question to a client."""
        return Ask("query", self.sessions[name], client=NAMES.index(name), round=round_index, seconds=self.seconds)

    def collect(self, count: int) -> list[Reply]:
        """Return the replies under so many handles, or those that came in time."""
        replies: list[Reply] = []
        ends = time.monotonic() + self.seconds
        while len({reply.handle for reply in replies}) < count and time.monotonic() < ends:
            replies += self.transport.poll(0.1)
        return replies


def _require(holds: bool, sentence: str) -> None:
    """Raise :class:`ContractError` with the sentence unless it holds."""
    if not holds:
        raise ContractError(f"The transport {sentence}")


def _comes_online(bench: _TestBench) -> None:
    """All clients are shown as online under their names."""
    ends = time.monotonic() + bench.seconds
    online = bench.transport.online()
    while len(online) < len(NAMES) and time.monotonic() < ends:
        time.sleep(0.01)
        online = bench.transport.online()
    _require(len(online) == len(NAMES), f"must show {len(NAMES)} clients in online(); got {len(online)}.")
    session_by_name = {peer.name or session: session for session, peer in online.items()}
    shows_names = session_by_name.keys() == set(NAMES)
    _require(shows_names, f"must show the clients {list(NAMES)}; got {sorted(session_by_name)}.")
    bench.sessions = session_by_name


def _posts_without_waiting(bench: _TestBench) -> None:
    """Nobody answers yet, so a post that waits for answers never returns."""
    handles: list[Handle | None] = []
    names_and_rounds = [(name, round_index) for round_index in (0, 1) for name in NAMES]
    asks = [bench.ask(name, round_index) for name, round_index in names_and_rounds]
    posting = threading.Thread(target=lambda: handles.extend(bench.transport.post(asks)), daemon=True)
    posting.start()
    posting.join(bench.seconds)
    _require(not posting.is_alive(), "must return from post() at once; it waits for answers.")
    _require(len(handles) == len(asks), f"must give a handle for each of {len(asks)} asks; got {len(handles)}.")
    _require(None not in handles, "must give a handle for an ask to a client that is online; got None.")
    _require(len(set(handles)) == len(handles), "must give every ask a handle of its own; got one twice.")
    _require(list(bench.transport.post([])) == [], "must take an empty list of asks.")
    early_replies = list(bench.transport.poll(0))
    _require(not early_replies, "must give nothing in poll() before anybody has answered.")
    reasons = [f"{name} in round {round_index}" for name, round_index in names_and_rounds]
    bench.reason_by_handle = dict(zip(handles, reasons, strict=True))


def _brings_every_reply_once(bench: _TestBench) -> None:
    """Each reply comes once, under the handle of its ask."""
    expected = bench.reason_by_handle
    bench.may_answer.set()
    replies = bench.collect(len(expected))
    reason_of_reply = {reply.handle: reply.reason for reply in replies}
    missing_handles = expected.keys() - reason_of_reply.keys()
    _require(not missing_handles, f"must bring {len(expected)} replies; {len(missing_handles)} of them did not come.")
    unknown = reason_of_reply.keys() - expected.keys()
    _require(not unknown, f"must bring replies under the handles of their asks; got {sorted(unknown)[:3]}.")
    _require(
        reason_of_reply == expected,
        "must bring each ask to its own client, and each reply under the handle of its ask.",
    )
    everything = [*replies, *bench.transport.poll(0.1)]
    repeated = len(everything) - len(expected)
    _require(repeated == 0, f"must give each reply once; {repeated} of {len(expected)} came again.")


def _waits_in_poll(bench: _TestBench) -> None:
    """While nobody answers, a poll sleeps: one that returns at once would keep a processor busy for a whole round."""
    began = time.monotonic()
    bench.transport.poll(SHORT_WAIT)
    waited = time.monotonic() - began
    _require(
        waited >= SHORT_WAIT / 2,
        f"must wait in poll({SHORT_WAIT:g}) until a reply comes or the time is over; it returned after {waited:.3f} s.",
    )


def _wakes_for_a_reply(bench: _TestBench) -> None:
    """A poll ends with the first reply, not with its time."""
    bench.transport.post([bench.ask("two", 4)])
    began = time.monotonic()
    replies = bench.transport.poll(bench.seconds)
    waited = time.monotonic() - began
    in_time = len(replies) == 1 and waited < bench.seconds / 2
    _require(in_time, f"must return from poll() with the first reply; poll({bench.seconds:g}) took {waited:.1f} s.")


def _refuses_strangers(bench: _TestBench) -> None:
    """An ask to a session that is not there has no handle."""
    handles = list(bench.transport.post([Ask("query", "a session that never was", seconds=bench.seconds)]))
    _require(handles == [None], f"must give None for a session that is not there; got {handles}.")


def _cancels(bench: _TestBench) -> None:
    """What cancel() returns is never answered; unknown handles are no mistake."""
    bench.may_answer.clear()
    handles = {handle for handle in bench.transport.post([bench.ask("one", 2), bench.ask("one", 3)]) if handle}
    withdrawn = set(bench.transport.cancel([*handles, "a handle that never was"]))
    _require(withdrawn <= handles, "must return from cancel() only handles that it was given and had posted.")
    bench.may_answer.set()
    answered_handles = {reply.handle for reply in bench.transport.poll(0.3)}
    _require(not answered_handles & withdrawn, "must not bring a reply to a message that cancel() said is withdrawn.")
