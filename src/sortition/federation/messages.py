"""What travels between a federation's server and its clients, and who carries it.

A backend is a :class:`Transport`, which moves messages and nothing else: the driver decides who is asked what, how long
it waits, and what becomes of the replies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sortition.clients.named_arrays import Model
from sortition.core.arrays import Array
from sortition.core.errors import printable

Handle = str  # by which a reply is recognised: unique for every message
Kind = Literal["profile", "query", "rehearse", "train"]
LONGEST_WORDS = 2_000  # characters of what a client says went wrong
UNKNOWN_CLIENT = -1  # the id of a client that has not said who it is


@dataclass(frozen=True)
class Peer:
    """What the transport itself knows of somebody who is online.

    Attributes:
        name: a name that is proven, as by a certificate; empty where clients only claim one.
        key: a digest of the key that proved it, where there is one.
    """

    name: str = ""
    key: str = ""


@dataclass(frozen=True, eq=False)
class Ask:
    """What one client is to do.

    Attributes:
        kind: ``profile``: say who you are; ``query``: answer ``signals``; ``rehearse``: train, and forget it; or
            ``train``.
        session: whom: a key of :meth:`Transport.online`; empty where that does not matter yet.
        client: its id, with which everything random at the client is keyed; −1 before it is known.
        round: the round, from 0.
        seconds: after which nobody wants the reply any more.
        model: the arrays to work on, by name.
        signals: what to answer, or to report beside the trained model.
        purpose: ``train``, or ``rehearsal`` for work under a model that is thrown away.
        trains: whether a query needs a local training.
        payload: arrays that belong to the question.
        facts: the facts that a profile must have.
        optional: facts that it may leave out.
        key: under which the reply is to come, where the transport can choose the handle.
    """

    kind: Kind
    session: str = ""
    client: int = UNKNOWN_CLIENT
    round: int = 0
    seconds: float = 60.0
    model: Model = field(default_factory=dict)
    signals: tuple[str, ...] = ()
    purpose: Literal["train", "rehearsal"] = "train"
    trains: bool = False
    payload: Mapping[str, Array] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Profile:
    """What a client says of itself.

    Attributes:
        name: a stable name, or none.
        facts: those that were asked for.
        signals: what it answers.
        tags: words by which the operator may call it eligible.
        unsure: those of its signals of which only a training shows whether it can report them.
    """

    name: str = ""
    facts: Mapping[str, Array] = field(default_factory=dict)
    signals: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, object], facts: Mapping[str, Array], name: str = "") -> Profile:
        """Read what a client sent of itself; what is no list of words is not there."""
        return cls(
            name=name,
            facts=facts,
            signals=_words(table.get("signals")),
            tags=_words(table.get("tags")),
            unsure=_words(table.get("unsure")),
        )


def _words(value: object) -> tuple[str, ...]:
    """Return words as they came over the wire."""
    if not isinstance(value, list | tuple | set):
        return ()
    return tuple(str(word) for word in value)


@dataclass(frozen=True, eq=False)
class Reply:
    """What came back for one message.

    Attributes:
        handle: of the message that is answered.
        outcome: ``ok``; ``failed``: the client's program raised; ``lost``: the way broke, which says nothing of it.
        reason: why it is not ok.
        profile: of a client that was asked who it is.
        rows: what was asked or reported, by signal.
        model: the trained arrays by name; None where there are none.
        fault: what is wrong with an answer that came, where the transport sees it.
        unreported: why a client that trained could not report.
        native: the transport's own message, for a backend that needs more of it.
    """

    handle: Handle
    outcome: Literal["ok", "failed", "lost"] = "ok"
    reason: str = ""
    profile: Profile = field(default_factory=Profile)
    rows: Mapping[str, Any] = field(default_factory=dict)  # as they came: the guards screen them
    model: Model | None = None
    fault: str = ""
    unreported: str = ""
    native: Any = None

    def __post_init__(self) -> None:
        """Make one line of what the client wrote: it goes into logs and messages."""
        for name in ("reason", "fault", "unreported"):
            object.__setattr__(self, name, printable(getattr(self, name).strip(), LONGEST_WORDS))


class Transport(Protocol):
    """Moves messages. Nothing here waits, but for ``poll``, and nothing decides."""

    def online(self) -> Mapping[str, Peer]:
        """Return who can be reached now, by session; a client that restarts comes with another session."""
        ...

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle | None]:
        """Send these, and return at once with a handle for each; None for one that could not be sent."""
        ...

    def poll(self, wait: float) -> Sequence[Reply]:
        """Return all that has come since the last call, late replies too; wait at most so many seconds for the first.

        A message without a deadline (``Ask.seconds`` is infinite) whose reply can no longer come is reported as
        ``lost``: nobody else can know that.
        """
        ...

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Withdraw these where possible; return those that nobody will see any more."""
        ...
