"""Flower's grid as a transport: asks become messages, and replies are read whatever they hold.

Every message of ours carries the records of an ordinary train message (model, config) and an assignment. The user's
strategy writes the train messages; where a question needs a training, its client gets the config of one.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from flwr.app import DEFAULT_TTL, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from sortition.clients.named_arrays import Model
from sortition.federation.messages import Ask, Handle, Peer, Profile, Reply
from sortition.federation.messenger import LONGEST_LOOK, growing_pauses
from sortition.flower import codec
from sortition.flower.base_strategy import BaseStrategy

# errors of the way, not of the app: the node is silent
LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)


@dataclass
class FlowerRound:
    """What Flower's loop gives to the configuration of a round."""

    number: int
    arrays: ArrayRecord
    config: ConfigRecord
    model: Model
    configured: dict[str, Message] = field(default_factory=dict)  # the strategy's messages, by session


class FlowerTransport:
    """Moves messages over a grid.

    Args:
        user_strategy: the user's strategy, which writes train messages.
        candidates: the sessions of those who can be chosen, for a question that needs trainings.
    """

    def __init__(self, user_strategy: BaseStrategy, candidates: Callable[[], list[str]]) -> None:
        self.user_strategy = user_strategy
        self.grid: Grid = None  # given by start()
        self.round: FlowerRound = None  # type: ignore[assignment]  # given by configure_train()
        self.written: dict[int, Message] = {}  # train messages, by client
        self._candidates = candidates
        self._expiry_by_handle: dict[Handle, float] = {}  # of unanswered messages, by the monotonic clock
        self._keys: dict[int, str] = {}  # digests of nodes' public keys
        self._records: tuple[Model, ArrayRecord] | None = None  # of the last model that is not the round's own

    def online(self) -> Mapping[str, Peer]:
        """Return the nodes that are online; an authenticated one has a key."""
        nodes = list(self.grid.get_node_ids())
        if any(node not in self._keys for node in nodes):
            for info in self.grid.get_nodes():
                key = bytes(info.public_key)
                self._keys[info.node_id] = ""
                if key:
                    self._keys[info.node_id] = sha256(key).hexdigest()
        return {str(node): Peer(key=self._keys.get(node, "")) for node in nodes}

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle | None]:
        """Push one message a client."""
        if not asks:
            return []
        messages = [self._message(ask) for ask in asks]
        pushed = set(self.grid.push_messages(messages))
        clock = time.monotonic()
        handles: list[Handle | None] = []
        for ask, message in zip(asks, messages, strict=True):
            handle = message.metadata.message_id
            if handle not in pushed:
                handles.append(None)
                continue
            self._expiry_by_handle[handle] = clock + ask.seconds
            handles.append(handle)
        return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        """Pull the replies that have come; a message that has lapsed is looked for no more."""
        if wait > 0:
            time.sleep(wait)
        if not self._expiry_by_handle:
            return []
        replies = [self.read(message) for message in self.grid.pull_messages(list(self._expiry_by_handle))]
        for reply in replies:
            self._expiry_by_handle.pop(reply.handle, None)
        clock = time.monotonic()
        self._expiry_by_handle = {handle: expiry for handle, expiry in self._expiry_by_handle.items() if expiry > clock}
        return replies

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Withdraw nothing: Flower's messages lapse by themselves."""
        return ()

    # -- writing -------------------------------------------------------------------------------------------------------

    def write_training(self, asks: Mapping[int, Ask]) -> list[Message]:
        """Write the strategy's own train messages to these clients, with an assignment beside their records."""
        self._configure([ask.session for ask in asks.values()])
        self.written = {}
        for client, ask in asks.items():
            message = self.round.configured[ask.session]
            message.content = RecordDict({**message.content, codec.ASSIGNMENT: self._assignment(ask)})
            message.metadata.ttl = _time_to_live(message.metadata.ttl, ask.seconds)
            self.written[client] = message
        return list(self.written.values())

    def _message(self, ask: Ask) -> Message:
        """Return the message that asks this: the strategy's own for training, else one of ours."""
        if ask.kind == "train":
            return self.written[ask.client]
        node = int(ask.session)
        if ask.kind == "profile":
            assignment = codec.Assignment(facts=ask.facts, optional=ask.optional)
            return Message(RecordDict({codec.ASSIGNMENT: assignment.record()}), node, codec.PROFILE, ttl=ask.seconds)
        content: dict[str, ArrayRecord | ConfigRecord | MetricRecord] = {}
        kind = "train"
        if ask.trains:
            self._configure(self._candidates())
            configured = self.round.configured[ask.session]
            kind = configured.metadata.message_type
            content |= configured.content
        else:
            content[self.user_strategy.config] = ConfigRecord({**self.round.config, "server-round": self.round.number})
        content[self.user_strategy.model] = self._record_of(ask.model)
        content[codec.ASSIGNMENT] = self._assignment(ask, kind)
        if ask.payload:
            content[codec.PAYLOAD] = codec.to_record(ask.payload)
        message_type = codec.REHEARSE
        if ask.kind == "query":
            message_type = codec.query(ask.signals[0])
        return Message(RecordDict(content), node, message_type, ttl=ask.seconds)

    def _assignment(self, ask: Ask, kind: str = "train") -> ConfigRecord:
        """Write what a client is to do; ``kind`` is the type of the strategy's train messages."""
        assignment = codec.Assignment(
            t=ask.round,
            client=ask.client,
            purpose=ask.purpose,
            signals=ask.signals,
            model=self.user_strategy.model,
            config=self.user_strategy.config,
            kind=kind,
        )
        return assignment.record()

    def _configure(self, sessions: Sequence[str]) -> None:
        """Let the strategy write messages to these nodes, once a round; a session is the node's id as text.

        Later calls in the round reuse the messages of the first, whose nodes must include theirs.
        """
        if self.round.configured:
            return
        nodes = [int(session) for session in sessions]
        configured = self.user_strategy.configure(
            self.round.number, self.round.arrays, self.round.config, self.grid, nodes
        )
        self.round.configured = {str(node): message for node, message in configured.items()}

    def _record_of(self, model: Model) -> ArrayRecord:
        if model is self.round.model:
            return self.round.arrays
        if self._records is None or self._records[0] is not model:
            self._records = (model, codec.to_record(model))
        return self._records[1]

    # -- reading -------------------------------------------------------------------------------------------------------

    def replies_to_training(self, messages: Iterable[Message]) -> list[tuple[int | None, Reply]]:
        """Return replies to train messages with the client of each; None for a reply to a message that nobody sent.

        Clients are known by the message that they answer: an error may carry the SuperLink's id in place of the node's.
        """
        clients = {message.metadata.message_id: client for client, message in self.written.items()}
        replies = [self.read(message) for message in messages]
        return [(clients.get(reply.handle), reply) for reply in replies]

    def read(self, message: Message) -> Reply:
        """Read a message as it came over the wire; what cannot be read is not there."""
        handle = message.metadata.reply_to_message_id
        if message.has_error():
            reason = plain_reason(message.error.reason)
            if message.error.code in LOST:
                return Reply(handle, "lost", reason, native=message)
            return Reply(handle, "failed", reason, native=message)
        content = message.content
        if codec.SELF in content:
            return Reply(handle, profile=read_profile(content), native=message)
        model, fault = model_of(content, self.user_strategy.model, several=self.user_strategy.traits.is_custom)
        rows = codec.received_arrays(content, codec.ROWS)
        return Reply(handle, rows=rows, model=model, fault=fault, native=message)


def read_profile(content: RecordDict) -> Profile:
    """Read what a node says of itself, as it came over the wire."""
    profile = content.config_records.get(codec.SELF, ConfigRecord())
    return Profile.read(profile, codec.received_arrays(content, codec.FACTS), name=str(profile.get("name", "")))


def model_of(content: RecordDict, key: str, *, several: bool = False) -> tuple[Model | None, str]:
    """Return the model in a reply, and what is wrong with it.

    ``several``: further ArrayRecords may stand beside the one that is named ``key``, for rules of one's own.
    """
    names = [name for name, record in content.items() if isinstance(record, ArrayRecord) and name != codec.ROWS]
    if not names:
        return None, ""
    if several and key in names:
        return codec.received_arrays(content, key), ""
    if len(names) > 1:
        return None, f"{len(names)} ArrayRecords in place of one"
    return codec.received_arrays(content, names[0]), ""


def plain_reason(reason: str) -> str:
    """Return an error of a client's app as one line, type and message; Ray's errors hold whole tracebacks."""
    first_traceback, cause, _ = reason.rpartition("The above exception was the direct cause")
    last_line = first_traceback.strip().rpartition("\n")[2]
    if cause and re.match(r"[\w.]+(: |$)", last_line):
        name, colon, message = last_line.partition(": ")
        return f"{name.rpartition('.')[2]}{colon}{message}"
    if quoted := re.fullmatch(r"<class '([\w.]+)'>:<'(.*)'>", reason.strip(), re.DOTALL):
        return f"{quoted[1].rpartition('.')[2]}: {' '.join(quoted[2].split())}"
    return " ".join(reason.split())


def _time_to_live(strategys_choice: float, seconds: float) -> float:
    """Return the seconds after which a train message lapses: with its round, or sooner if the strategy says so."""
    if math.isinf(seconds):
        return strategys_choice
    if strategys_choice >= DEFAULT_TTL:
        return seconds
    return min(strategys_choice, seconds)


def collect(grid: Grid, messages: Iterable[Message], seconds: float) -> list[Message]:
    """Send messages and wait for their replies, so many seconds at most."""
    messages = list(messages)
    if not messages:
        return []
    waiting = {handle for handle in grid.push_messages(messages) if handle}
    arrived: list[Message] = []
    ends = time.monotonic() + seconds
    pauses = growing_pauses(LONGEST_LOOK)
    while waiting:
        replies = list(grid.pull_messages(waiting))
        arrived += replies
        waiting -= {reply.metadata.reply_to_message_id for reply in replies}
        seconds_left = ends - time.monotonic()
        if seconds_left <= 0 or not waiting:
            break
        time.sleep(min(next(pauses), seconds_left))
    return arrived
