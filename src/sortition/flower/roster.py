"""Who is who: dense ids 0, 1, 2, … for nodes whose own ids are random and change when they restart.

A client is its stable name. The first roster is sorted naturally by name ("2" before "10"), so that ids match those of
a simulation of the same federation; who joins later gets the next free ids. Names never leave the server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any

import numpy as np
from flwr.common.logger import log

from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, bad
from sortition.core.rounds import Population


@dataclass(frozen=True)
class Profile:
    """What a node tells of itself, once: a stable name (or none), the declared facts, the signals that it answers."""

    name: str
    facts: Mapping[str, Array] = field(default_factory=dict)
    signals: tuple[str, ...] = ()


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts "client-2" before "client-10"."""
    parts = re.split(r"([0-9]{1,18})", name)  # other digits, such as ², are letters here
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]


class Roster:
    """Names, facts and present nodes of all clients ever met; ``reads`` are the facts that are kept."""

    def __init__(self, reads: Collection[str] = ()) -> None:
        self.reads = tuple(reads)
        self.owner_of: Callable[[str], Hashable] | None = None
        self.names: list[str] = []
        self.facts: list[dict[str, Array]] = []
        self._id: dict[str, int] = {}
        self._node: dict[int, int] = {}  # client → node
        self._client: dict[int, int] = {}  # node → client

    def __len__(self) -> int:
        return len(self.names)

    def strangers(self, online: Collection[int]) -> list[int]:
        """Nodes that have not told who they are."""
        return sorted(node for node in online if node not in self._client)

    def meet(self, profiles: Mapping[int, Profile]) -> dict[int, str]:
        """Enter nodes, or find again clients that come back under a new node id; who is refused, and why."""
        first, refused = not self.names, {}
        named = {node: profile.name or f"node-{node}" for node, profile in profiles.items()}
        for name, count in Counter(named.values()).items():
            if first and count > 1:
                raise bad("stable names", "different", f"{name!r} of two nodes", "Set name= in their --node-config.")
        for node in sorted(profiles, key=lambda node: (natural(named[node]), node)):
            if reason := self._unsound(profiles[node].facts):
                refused[node] = reason
                continue
            self._enter(node, named[node], {fact: np.asarray(profiles[node].facts[fact]) for fact in self.reads})
        return refused

    def _enter(self, node: int, name: str, facts: dict[str, Array]) -> None:
        if name not in self._id:
            self._id[name] = len(self.names)
            self.names.append(name)
            self.facts.append(facts)
        client = self._id[name]
        self.facts[client] = facts
        before = self._node.get(client)
        self._node[client], self._client[node] = node, client
        if before is not None and before != node:
            log(WARNING, "Client %s came back as node %d (it was %d).", name, node, before)

    def _unsound(self, facts: Mapping[str, Array]) -> str:
        try:
            for fact in self.reads:
                if fact not in facts:
                    return f"its facts lack {fact}"
                row = np.asarray(facts[fact])
                Population(**{fact: row[None]})  # type: ignore[arg-type]
                if self.facts and row.shape != self.facts[0][fact].shape:
                    return f"{fact} of shape {row.shape} in place of {self.facts[0][fact].shape}"
        except InputError as error:
            return str(error)
        return ""

    def present(self, online: Collection[int]) -> Ids:
        """The clients whose latest node is online, sorted."""
        there = set(online)
        return np.array(sorted(client for client, node in self._node.items() if node in there), np.int64)

    def node(self, client: int) -> int:
        """The node that a client has now."""
        return self._node[int(client)]

    def population(self) -> Population:
        """What the server knows of them."""
        facts: dict[str, Any] = {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}
        if self.owner_of is not None and "groups" not in facts:
            owners = [self.owner_of(name) for name in self.names]
            number = {owner: row for row, owner in enumerate(dict.fromkeys(owners))}
            facts["groups"] = np.array([number[owner] for owner in owners], np.int64)
        return Population(**facts, n_clients=len(self.names))

    def export(self) -> tuple[dict[str, Array], list[str]]:
        """Facts and names, for a checkpoint; nodes are not kept: they tell who they are again."""
        return {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}, list(self.names)

    def restore(self, facts: Mapping[str, Array], names: list[str]) -> None:
        """Take over what :meth:`export` gave."""
        self.names = list(names)
        self.facts = [{fact: facts[fact][row] for fact in self.reads} for row in range(len(names))]
        self._id = {name: row for row, name in enumerate(names)}
