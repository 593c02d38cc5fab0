"""Who is who: dense ids 0, 1, 2, … for nodes whose own ids are random and change when they restart.

A client is its stable name, and a name belongs to its node for as long as that is online. The first roster is sorted
naturally by name ("2" before "10"), so that ids match those of a simulation of the same federation; who joins later
gets the next free ids. Names do not leave the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from logging import WARNING
from typing import Any

import numpy as np
from flwr.common.logger import log

from sortition.core.arrays import Array, Ids
from sortition.core.client_names import natural_order
from sortition.core.errors import InputError, bad
from sortition.core.facts import check_row
from sortition.core.rounds import Population

CHANGE = 10.0  # a client that comes back may have so many times as many examples as before, or so many times fewer
WHOLE = ("sizes", "label_counts", "groups")  # kept in one type, where they are no floats


@dataclass(frozen=True)
class NodeProfile:
    """What a node says of itself, once: a stable name (or none), the declared facts, what it answers, and tags.

    ``key`` is the digest of its public key where nodes are authenticated: the server's knowledge, not the node's word.
    """

    name: str
    facts: Mapping[str, Array] = field(default_factory=dict)
    signals: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    key: str = ""


class Roster:
    """Names, facts and present nodes of all clients ever met.

    ``reads`` are the facts that are kept, without which nobody takes part. ``optional`` ones count where everybody
    gives them when the first round begins (:meth:`settle`): from then on they are read, or never.
    """

    def __init__(self, reads: Collection[str] = (), optional: Collection[str] = ()) -> None:
        self.reads = tuple(reads)
        self.optional = tuple(fact for fact in optional if fact not in self.reads)
        self.owner_of: Callable[[str], Hashable] | None = None
        self.names: list[str] = []
        self.facts: list[dict[str, Array]] = []
        self.tags: list[tuple[str, ...]] = []
        self.keys: dict[str, str] = {}  # name → key of the node that first had it
        self.bind_keys = False  # nodes without authentication make a new key at every start
        self._id: dict[str, int] = {}
        self._node: dict[int, int] = {}  # client → node
        self._client: dict[int, int] = {}  # node → client

    def __len__(self) -> int:
        return len(self.names)

    def unknown(self, online: Collection[int]) -> list[int]:
        """Nodes that have not said who they are."""
        return sorted(node for node in online if node not in self._client)

    def meet(self, profiles: Mapping[int, NodeProfile], online: Collection[int] = ()) -> dict[int, str]:
        """Enter nodes, or recognise clients that come back under a new node id; who is refused, and why."""
        named = {node: replace(profile, name=profile.name or f"node-{node}") for node, profile in profiles.items()}
        rows, refused = self._rows(named)
        order = sorted(rows, key=lambda node: (natural_order(named[node].name), node))
        usual = self._shapes([rows[node] for node in order])
        for node in order:
            holder = self.holder(named[node].name)
            odd = [fact for fact, row in rows[node].items() if row.shape != usual[fact]]
            if odd:
                refused[node] = f"sends {odd[0]} of shape {rows[node][odd[0]].shape} in place of {usual[odd[0]]}"
            elif holder not in (None, node) and (holder in profiles or holder in online):
                refused[node] = f"claims the name {named[node].name[:99]!r} of node {holder}, which is online"
            elif reason := self._impostor(named[node], rows[node]):
                refused[node] = reason
            else:
                self._enter(node, named[node], rows[node])
        return refused

    def _impostor(self, profile: NodeProfile, facts: Mapping[str, Array]) -> str:
        """Why a node cannot be the client whose name it claims: another key, or far too different an amount of data."""
        name, key = profile.name, self.keys.get(profile.name, "")
        if self.bind_keys and key and profile.key != key:
            return f"claims the name {name[:99]!r}, which belongs to a node with another key"
        known = self.facts[self._id[name]] if name in self._id else {}
        for fact in ("sizes", "label_counts"):
            if fact in facts and fact in known:
                before, now = (float(np.sum(row[fact])) for row in (known, facts))
                if not before / CHANGE <= now <= max(before, 1.0) * CHANGE:
                    return f"comes back as {name[:99]!r} with {now:g} examples; it had {before:g}"
        return ""

    def _rows(self, profiles: Mapping[int, NodeProfile]) -> tuple[dict[int, dict[str, Array]], dict[int, str]]:
        """The facts of each node as they are kept, and what is wrong with the others'."""
        rows, refused = dict[int, dict[str, Array]](), dict[int, str]()
        for node, profile in profiles.items():
            try:
                self._owner(profile.name)
                given = [fact for fact in self.optional if fact in profile.facts]
                rows[node] = {fact: self._row(fact, profile.facts) for fact in (*self.reads, *given)}
            except InputError as error:
                refused[node] = str(error)
        return rows, refused

    def holder(self, name: str) -> int | None:
        """The node that has this name now, if one had it since the server started."""
        return self._node.get(self._id.get(name, -1))

    def _enter(self, node: int, profile: NodeProfile, facts: dict[str, Array]) -> None:
        name = profile.name
        if name not in self._id:
            self._id[name] = len(self.names)
            self.names.append(name)
            self.facts.append(facts)
            self.tags.append(profile.tags)
        if profile.key:
            self.keys.setdefault(name, profile.key)
        client = self._id[name]
        self.facts[client], self.tags[client] = facts, profile.tags
        before = self._node.get(client)
        self._node[client], self._client[node] = node, client
        if before is not None and before != node:
            self._client.pop(before, None)  # should it come back, it is asked who it is
            log(WARNING, "Client %s came back as node %d (it was %d).", name, node, before)

    def _row(self, fact: str, facts: Mapping[str, Array]) -> Array:
        """One client's row of a fact, as it is kept: in types that stack with those of all others."""
        if fact not in facts:
            raise InputError(f"its facts lack {fact}")
        check_row(fact, facts[fact], "profile")
        row = np.asarray(facts[fact])
        if row.dtype.kind == "f":
            return row.astype(np.float64) if row.dtype.itemsize > 8 else row
        if fact == "groups" and int(row) > np.iinfo(np.int64).max:
            raise bad("profile.groups", "below 2**63", int(row))
        return row.astype(np.int64) if fact in WHOLE else row

    def _shapes(self, rows: list[dict[str, Array]]) -> dict[str, tuple[int, ...]]:
        """The shape of every fact: that of those who are known, at first that of most."""
        found: dict[str, tuple[int, ...]] = {}
        for fact in (*self.reads, *self.optional):
            known = [row[fact].shape for row in self.facts if fact in row][:1]
            shapes = known or [row[fact].shape for row in rows if fact in row]
            found |= {fact: Counter(shapes).most_common(1)[0][0]} if shapes else {}
        return found

    def _owner(self, name: str) -> Hashable:
        if self.owner_of is None:
            return None
        try:
            owner = self.owner_of(name)
            hash(owner)
        except Exception as error:  # the operator's function, on a name that a client made up
            raise bad("name", "one that owner_of knows", name, f"{type(error).__name__}: {error}.") from None
        return owner

    def present(self, online: Collection[int]) -> Ids:
        """The clients whose latest node is online, sorted."""
        there = set(online)
        return np.array(sorted(client for client, node in self._node.items() if node in there), np.int64)

    def node(self, client: int) -> int:
        """The node that a client has now."""
        return self._node[int(client)]

    def settle(self) -> None:
        """Read the optional facts that all clients gave from now on, and no others."""
        self.reads += tuple(fact for fact in self.optional if all(fact in row for row in self.facts))
        self.optional = ()
        self.facts = [{fact: row[fact] for fact in self.reads} for row in self.facts]

    def population(self) -> Population:
        """What the server knows of them."""
        facts: dict[str, Any] = {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}
        if self.owner_of is not None and "groups" not in facts:
            owners = [self._owner(name) for name in self.names]
            number = {owner: row for row, owner in enumerate(dict.fromkeys(owners))}
            facts["groups"] = np.array([number[owner] for owner in owners], np.int64)
        return Population(**facts, n_clients=len(self.names))

    def export(self) -> tuple[dict[str, Array], list[str]]:
        """Facts and names, for a checkpoint; nodes are not kept: they are asked who they are."""
        return {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}, list(self.names)

    def restore(self, facts: Mapping[str, Array], names: list[str], keys: Mapping[str, str] | None = None) -> None:
        """Take over what :meth:`export` gave, and whose key each name is; of nodes nothing is known."""
        if not _are_texts(names):
            raise ValueError("names are not a list of texts")
        if len(set(names)) < len(names):
            raise ValueError("a name stands there twice")
        keys = {} if keys is None else keys
        if not isinstance(keys, dict) or not _are_texts(list(keys.values())) or not keys.keys() <= set(names):
            raise ValueError("keys do not belong to names")
        self.reads += tuple(fact for fact in self.optional if fact in facts)
        self.optional = ()
        Population(**{fact: facts[fact] for fact in self.reads}, n_clients=len(names))
        self.names, self.keys = list(names), dict(keys)
        self.tags = [()] * len(names)
        self.facts = [{fact: facts[fact][row] for fact in self.reads} for row in range(len(names))]
        self._id = {name: row for row, name in enumerate(names)}
        self._node, self._client = {}, {}


def _are_texts(words: object) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)
