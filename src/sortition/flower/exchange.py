"""One question to many nodes, with a time limit of its own: who is silent is absent, who answers twice counts once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

# errors of the way, not of the app: the node is silent
LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
FIRST, LONGEST = 0.02, 0.5  # seconds between looks for replies: short at first, then longer


@dataclass
class Replies:
    """What came back, by client: replies, the reasons of those who failed, and how many messages did not fit.

    ``errors`` are the messages of the failed as they came.
    ``lost`` are those of the failed whom the message, or whose answer, did not reach.
    """

    messages: dict[int, Message] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    errors: list[Message] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    duplicate: int = 0
    stray: int = 0

    @property
    def contents(self) -> dict[int, RecordDict]:
        """The replies' records, by client."""
        return {client: message.content for client, message in self.messages.items()}

    def add(self, client: int | None, message: Message) -> None:
        """Sort one reply in; ``client`` is None for a reply to a message that nobody sent."""
        if client is None:
            self.stray += 1
        elif client in self.messages or client in self.failed:
            self.duplicate += 1
        elif message.has_error():
            self.failed[client] = plain_reason(message.error.reason)
            self.errors.append(message)
            self.lost |= {client} if message.error.code in LOST else set()
        else:
            self.messages[client] = message


def plain_reason(reason: str) -> str:
    """An error of a client's app as one line, type and message; Ray's errors hold whole tracebacks."""
    before, cause, _ = reason.rpartition("The above exception was the direct cause")
    last = before.strip().rpartition("\n")[2]
    if cause and re.match(r"[\w.]+(: |$)", last):
        name, colon, message = last.partition(": ")
        return f"{name.rpartition('.')[2]}{colon}{message}"
    if found := re.fullmatch(r"<class '([\w.]+)'>:<'(.*)'>", reason.strip(), re.DOTALL):
        return f"{found[1].rpartition('.')[2]}: {' '.join(found[2].split())}"
    return " ".join(reason.split())


def match(sent: Mapping[int, Message], replies: list[Message]) -> Replies:
    """Replies by the message that they answer: an error may carry the SuperLink's id in place of the node's."""
    asked = {message.metadata.message_id: client for client, message in sent.items()}
    out = Replies()
    for message in replies:
        out.add(asked.get(message.metadata.reply_to_message_id), message)
    return out


def exchange(grid: Grid, sent: Mapping[int, Message], timeout: float) -> Replies:
    """Send one message a client and collect what comes back in ``timeout`` seconds."""
    return match(sent, collect(grid, sent.values(), timeout))


def collect(grid: Grid, messages: Iterable[Message], timeout: float, target: int = 0) -> list[Message]:
    """Send messages and wait for their replies, ``timeout`` seconds at most, or until ``target`` are no errors."""
    sent, arrived = list(messages), list[Message]()
    waiting = {found for found in grid.push_messages(sent) if found} if sent else set()
    deadline, pause = time.monotonic() + timeout, FIRST
    while waiting:
        new = list(grid.pull_messages(waiting))
        arrived += new
        waiting -= {message.metadata.reply_to_message_id for message in new}
        left = deadline - time.monotonic()
        if left <= 0 or not waiting or 0 < target <= sum(not message.has_error() for message in arrived):
            break
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST)
    return arrived
