"""Who is there this round: nodes that are online, each asked once for name, tags and the facts that are declared.

Before the first round everybody who is online is waited for, so that ids are the same on every run. Later, a new node
is asked beside training and takes part from the round after its answer: one that hangs holds nobody up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from logging import INFO, WARNING

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from sortition.core.arrays import Ids
from sortition.core.errors import InputError
from sortition.core.selector import Needs
from sortition.core.signals import UPDATE, sketched
from sortition.flower import wire
from sortition.flower.exchange import FIRST, LONGEST, Replies, match
from sortition.flower.roster import NodeProfile, Roster

LONGEST_PAUSE = 3600.0  # seconds between two questions to a node that was silent or refused


@dataclass
class Waiting:
    """How long to wait: for profiles, for nodes before the first round, for nodes before each round."""

    profile: float = 60.0
    first_nodes: int = 1
    nodes: int = 1
    patience: float = math.inf


class Enrolment:
    """Keeps the roster up to date; ``changed`` says that somebody joined or came back with other facts.

    ``begun`` says that the first round of a run was there, for which everybody who is online is waited for.
    """

    def __init__(self, needs: Needs, owner: str, waiting: Waiting, facts: Sequence[str] = ()) -> None:
        self.roster = Roster((*needs.reads, *(fact for fact in facts if fact not in needs.reads)), needs.optional)
        self.changed = False
        self._owner, self._waiting, self.begun = owner, waiting, False
        self._wanted = {s.name for s in needs.asks} | {s.name for s in needs.reports if s != UPDATE}
        self._asked: dict[int, tuple[Message, float]] = {}  # node → the open question, and when it lapses
        self._profiles: dict[int, NodeProfile] = {}  # answers that are not entered yet
        self._later: dict[int, tuple[float, float]] = {}  # node → (when to ask it next, pause after that)
        self._behind: dict[int, int] = {}  # node → the node that has its name, for as long as that is online

    def present(self, grid: Grid) -> Ids:
        """The clients that are there: nobody, if too few were for ``patience`` seconds.

        A federation that has not begun, with no client ever met, is waited for without end.
        """
        began, said, pause = time.monotonic(), 0.0, FIRST
        while True:
            online = set(grid.get_node_ids())
            self._collect(grid, online)
            self._ask(grid, online)
            late = len(self.roster) > 0 and time.monotonic() - began >= self._waiting.patience
            least = self._waiting.nodes if self.begun else max(self._waiting.first_nodes, self._waiting.nodes)
            ready = len(online) >= least and (self.begun or not self._asked)
            if ready or late:
                self._enter(grid, online)
                there = self.roster.present(online) if ready else self.roster.present([])
                if there.size or late:
                    self.begun = True
                    return there
            if time.monotonic() > said:
                log(INFO, "Waiting for clients: %d nodes online (at least %d wanted)", len(online), least)
                said = time.monotonic() + 30
            time.sleep(min(pause, max(self._waiting.patience, 0.01)))
            pause = min(pause * 1.5, LONGEST)

    # -- questions -----------------------------------------------------------------------------------------------------

    def _ask(self, grid: Grid, online: Collection[int]) -> None:
        """Ask nodes that are new, or whose pause is over, who they are; the answers are collected later."""
        now, timeout = time.monotonic(), self._waiting.profile
        self._behind = {node: holder for node, holder in self._behind.items() if node in online and holder in online}
        known = self._asked.keys() | self._profiles.keys() | self._behind.keys()
        nodes = [n for n in self.roster.unknown(online) if n not in known and self._later.get(n, (0, 0))[0] <= now]
        if not nodes:
            return
        content = RecordDict(
            {wire.ASSIGNMENT: wire.Assignment(facts=self.roster.reads, optional=self.roster.optional).record()}
        )
        messages = [Message(content, node, wire.PROFILE, ttl=timeout) for node in nodes]
        sent = grid.push_messages(messages)
        for node, message, found in zip(nodes, messages, sent, strict=True):
            if found:
                self._asked[node] = (message, now + timeout)
        self._collect(grid, online)

    def _collect(self, grid: Grid, online: Collection[int]) -> None:
        """Take the answers that have come, and give up on questions that lapsed."""
        if not self._asked:
            return
        sent = {node: message for node, (message, _) in self._asked.items()}
        replies = match(sent, list(grid.pull_messages([m.metadata.message_id for m in sent.values()])))
        now = time.monotonic()
        lapsed = [node for node, (_, until) in self._asked.items() if until <= now and node not in replies.messages]
        for node in {*replies.messages, *replies.failed, *lapsed, *(sent.keys() - set(online))}:
            del self._asked[node]
        for node in lapsed:
            log(WARNING, "Node %d did not say who it is in %g s; it is asked later.", node, self._waiting.profile)
        for node in {*lapsed, *replies.lost}:
            self._postpone(node)
        self._profiles |= {node: read_profile(content) for node, content in replies.contents.items()}
        self._refuse(self._failures(replies), grid, online)

    def _failures(self, replies: Replies) -> dict[int, str]:
        failed = {node: reason for node, reason in replies.failed.items() if node not in replies.lost}
        return {node: f"does not say who it is ({reason.strip()})" for node, reason in failed.items()}

    # -- answers -------------------------------------------------------------------------------------------------------

    def _enter(self, grid: Grid, online: Collection[int]) -> None:
        """Enter those who have said who they are, if they can take part."""
        profiles, self._profiles = named(self._profiles, grid), {}
        refused = {node: reason for node, profile in profiles.items() if (reason := self._lacks(profile))}
        refused |= self.roster.meet({n: p for n, p in profiles.items() if n not in refused}, online)
        self.changed = self.changed or len(profiles) > len(refused)
        for node in refused:
            holder = self.roster.holder(profiles[node].name)
            if holder is not None and holder in online:
                self._behind[node] = holder
        self._refuse(refused, grid, online)

    def _lacks(self, profile: NodeProfile) -> str:
        missing = sorted(name for name in self._wanted if sketched(name)[0] not in profile.signals)
        return f"does not answer {', '.join(missing)}, which {self._owner} needs" if missing else ""

    def _refuse(self, refused: dict[int, str], grid: Grid, online: Collection[int]) -> None:
        """Log who cannot take part; that nobody can is a mistake of the app, said at once."""
        for node, reason in refused.items():
            log(WARNING, "Node %d cannot take part: %s", node, reason)
            if node not in self._behind:
                self._postpone(node)
        if refused and not (len(self.roster) or self._asked or self._profiles) and set(online) <= self._later.keys():
            node, reason = next(iter(refused.items()))
            raise InputError(
                f"No node can take part; node {node}: {reason.rstrip('.')}. "
                "Call sortition.flower.answer(app, …) in the ClientApp, with the signals and facts that are needed."
            )

    def _postpone(self, node: int) -> None:
        """Ask it after a pause, which doubles every time."""
        pause = self._later.get(node, (0.0, self._waiting.profile))[1]
        self._later[node] = (time.monotonic() + pause, min(2 * pause, LONGEST_PAUSE))


def named(profiles: dict[int, NodeProfile], grid: Grid) -> dict[int, NodeProfile]:
    """Nodes without a name are known by their key, which authenticated nodes keep; else by the node id."""
    keys = {info.node_id: bytes(info.public_key) for info in grid.get_nodes()} if profiles else {}
    digests = {node: sha256(key).hexdigest() for node, key in keys.items() if key}
    profiles = {node: replace(profile, key=digests.get(node, "")) for node, profile in profiles.items()}
    if all(profile.name for profile in profiles.values()):
        return profiles
    log(
        WARNING,
        "%d nodes have no stable name; without node authentication they become new clients when they restart. "
        "Start SuperNodes with --node-config 'name=\"…\"' or partition-id=….",
        sum(not profile.name for profile in profiles.values()),
    )
    made = {n: f"key-{digests[n][:16]}" if n in digests else f"node-{n}" for n in profiles}
    return {n: profile if profile.name else replace(profile, name=made[n]) for n, profile in profiles.items()}


def read_profile(content: RecordDict) -> NodeProfile:
    """A profile as it came over the wire."""
    about = content.config_records.get(wire.SELF, ConfigRecord())
    return NodeProfile(
        str(about.get("name", "")),
        wire.received_arrays(content, wire.FACTS),
        _words(about.get("signals")),
        _words(about.get("tags")),
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(word) for word in value) if isinstance(value, list) else ()
