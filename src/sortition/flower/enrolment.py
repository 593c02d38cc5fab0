"""Who is there this round: nodes that are online, each profiled once, and only for the facts that are declared."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256
from logging import INFO, WARNING

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from sortition.core.arrays import Ids
from sortition.core.errors import InputError
from sortition.core.selector import Needs
from sortition.core.signals import UPDATE
from sortition.flower import wire
from sortition.flower.exchange import exchange
from sortition.flower.roster import Profile, Roster

LONGEST = 3600.0  # seconds between two questions to a node that was silent or refused


class Muster:
    """Keeps the roster up to date; ``changed`` says that somebody joined or came back with other facts."""

    def __init__(self, needs: Needs, owner: str, timeout: float, wait_for: int, patience: float = math.inf) -> None:
        self.roster = Roster(needs.reads)
        self.changed = False
        self._needs, self._owner, self._timeout = needs, owner, timeout
        self._wait_for, self._patience = wait_for, patience
        self._wanted = {s.name for s in needs.asks} | {s.name for s in needs.reports if s != UPDATE}
        self._later: dict[int, tuple[float, float]] = {}  # node → (when to ask again, pause after that)
        self._behind: dict[int, int] = {}  # node → the node that has its name, for as long as that is online

    def call(self, grid: Grid) -> Ids:
        """The clients that are there: nobody, if nobody was for ``patience`` seconds.

        A federation that has not begun, with no client ever met, is waited for without end.
        """
        began, told = time.monotonic(), 0.0
        while True:
            online = set(grid.get_node_ids())
            late = len(self.roster) > 0 and time.monotonic() - began >= self._patience
            if len(online) >= self._wait_for or late:
                self._profile(grid, online)
                self._wait_for = 1
                if (present := self.roster.present(online)).size or late:
                    return present
            if time.monotonic() > told:
                log(INFO, "Waiting for clients: %d nodes online", len(online))
                told = time.monotonic() + 30
            time.sleep(min(0.5, max(self._patience, 0.01)))

    def _profile(self, grid: Grid, online: Collection[int]) -> None:
        """Ask strangers who they are; who is silent or refused is asked again, after longer and longer pauses."""
        now = time.monotonic()
        self._behind = {node: holder for node, holder in self._behind.items() if node in online and holder in online}
        nodes = [
            n for n in self.roster.strangers(online) if n not in self._behind and self._later.get(n, (0, 0))[0] <= now
        ]
        if not nodes:
            return
        task = wire.Task(facts=self._needs.reads)
        content = RecordDict({wire.TASK: task.record()})
        asked = {node: Message(content, node, wire.PROFILE, ttl=self._timeout) for node in nodes}
        replies = exchange(grid, asked, self._timeout)
        profiles = named({node: read(content) for node, content in replies.contents.items()}, grid)
        failed = {node: reason for node, reason in replies.failed.items() if node not in replies.lost}
        refused = {node: f"does not say who it is ({reason.strip()})" for node, reason in failed.items()}
        for node, profile in profiles.items():
            if missing := sorted(name for name in self._wanted if wire.base(name)[0] not in profile.signals):
                refused[node] = f"does not answer {', '.join(missing)}, which {self._owner} needs"
        refused |= self.roster.meet({n: p for n, p in profiles.items() if n not in refused}, online)
        self.changed = self.changed or len(profiles.keys() - refused.keys()) > 0
        self._turn_away(refused, first=not len(self.roster) and len(refused) == len(nodes))
        for node in set(nodes) - (profiles.keys() - refused.keys()):
            holder = self.roster.holder(profiles[node].name) if node in profiles else None
            if holder is not None and holder in online:
                self._behind[node] = holder
            else:
                pause = self._later.get(node, (0.0, self._timeout))[1]
                self._later[node] = (time.monotonic() + pause, min(2 * pause, LONGEST))

    def _turn_away(self, refused: dict[int, str], first: bool) -> None:
        for node, reason in refused.items():
            log(WARNING, "Node %d cannot take part: %s", node, reason)
        if refused and first:
            node, reason = next(iter(refused.items()))
            raise InputError(
                f"No node can take part; node {node}: {reason.rstrip('.')}. "
                "Call sortition.flower.answer(app, …) in the ClientApp, with the signals and facts that are needed."
            )


def named(profiles: dict[int, Profile], grid: Grid) -> dict[int, Profile]:
    """Nodes without a name are known by their key, which authenticated nodes keep; else by the node id."""
    if all(profile.name for profile in profiles.values()):
        return profiles
    keys = {info.node_id: bytes(info.public_key) for info in grid.get_nodes()}
    log(
        WARNING,
        "%d nodes have no stable name; without node authentication they become new clients when they restart. "
        "Start SuperNodes with --node-config 'name=\"…\"' or partition-id=….",
        sum(not profile.name for profile in profiles.values()),
    )
    made = {n: f"key-{sha256(key).hexdigest()[:16]}" if (key := keys.get(n)) else f"node-{n}" for n in profiles}
    return {n: profile if profile.name else replace(profile, name=made[n]) for n, profile in profiles.items()}


def read(content: RecordDict) -> Profile:
    """A profile as it came over the wire."""
    about = content.config_records.get(wire.SELF, ConfigRecord())
    signals = about.get("signals", [])
    return Profile(
        str(about.get("name", "")),
        wire.received(content, wire.FACTS),
        tuple(str(name) for name in signals) if isinstance(signals, list) else (),
    )
