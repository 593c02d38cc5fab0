"""One question to many nodes, with a time limit of its own: who is silent is absent, who answers twice counts once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

FIRST, LONGEST = 0.02, 0.5  # seconds between looks for replies: short at first, then longer


@dataclass
class Replies:
    """What came back, by client: contents, the reasons of those who failed, and how many messages did not fit."""

    contents: dict[int, RecordDict] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    duplicate: int = 0
    stray: int = 0

    def add(self, client: int | None, message: Message) -> None:
        """Sort one reply in; ``client`` is None for a reply to a message that nobody sent."""
        if client is None:
            self.stray += 1
        elif client in self.contents or client in self.failed:
            self.duplicate += 1
        elif message.has_error():
            self.failed[client] = message.error.reason
        else:
            self.contents[client] = message.content


def match(sent: Mapping[int, Message], replies: list[Message]) -> Replies:
    """Replies by the message that they answer: an error may carry the SuperLink's id in place of the node's."""
    asked = {message.metadata.message_id: client for client, message in sent.items()}
    out = Replies()
    for message in replies:
        out.add(asked.get(message.metadata.reply_to_message_id), message)
    return out


def exchange(grid: Grid, sent: Mapping[int, Message], timeout: float) -> Replies:
    """Send one message a client and collect what comes back in ``timeout`` seconds."""
    if not sent:
        return Replies()
    waiting = {found for found in grid.push_messages(list(sent.values())) if found}
    deadline, pause = time.monotonic() + timeout, FIRST
    arrived: list[Message] = []
    while waiting:
        new = list(grid.pull_messages(waiting))
        arrived += new
        waiting -= {message.metadata.reply_to_message_id for message in new}
        left = deadline - time.monotonic()
        if not waiting or left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST)
    return match(sent, arrived)
