"""Who is who: dense ids 0, 1, 2, … for clients that come and go under sessions of their own.

A client is its stable name, and a name belongs to its session for as long as that is online. The first members are
sorted naturally by name ("2" before "10"), so that ids match those of a simulation of the same federation; who joins
later gets the next ids. Names do not leave the server.

Facts that a selector reads are those of enrolment, until a client comes back with others. Facts that only eligibility
reads have an age, and are asked anew when they are too old (:meth:`Members.outdated`).

A member that does not answer is left out: for one selection, then for two, four, eight … It takes part again when it
has answered who it is, and its next silence is short again when it has trained. One that comes back with another
session is asked at once.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, bad
from sortition.core.population import Population, check_row
from sortition.core.signals import ModelSize, parse_sketch_name
from sortition.core.storage.snapshot import StoredTable
from sortition.federation.messages import Peer, Profile

MOST_CHANGE_OF_SIZE = 10.0  # factor by which the examples of a client that comes back may have grown or shrunk
LONGEST_NAME = 255  # characters
LONGEST_SHOWN = 40  # characters of a name that is refused
MOST_WORDS = 100  # tags of a client, and signals that it answers
WHOLE_NUMBER_FACTS = ("sizes", "label_counts", "groups")  # kept in one type, where they are no floats
Refresh = float | Literal["selection"]  # seconds that a fact stays true, or: asked before every selection
Owner = Callable[[str], Hashable]
Shape = tuple[int, ...]


@dataclass
class Member:
    """One client.

    Attributes:
        name: its stable name.
        facts: what it says of itself, by name.
        heard: when each fact was heard, by the server's clock.
        tags: words by which the operator may call it eligible.
        key: of the session that first had this name, where sessions are authenticated.
        unsure: signals of which only a training shows whether it can report them.
        session: under which it was last online; None since a restart of the server.
        misses: how often it was silent since it last trained.
        silent_until: the selection at which it is asked anew; None if it answers.
    """

    name: str
    facts: dict[str, Array] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    key: str = ""
    unsure: tuple[str, ...] = ()
    session: str | None = None
    misses: int = 0
    silent_until: int | None = None


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A session that has said who it is, with facts that can be true."""

    session: str
    profile: Profile
    facts: dict[str, Array]
    peer: Peer


class Members:
    """All clients ever met.

    Args:
        reads: facts that the selector reads, without which nobody takes part.
        optional: facts that count where everybody gives them when the first round begins (:meth:`settle`).
        watched: facts for eligibility, with how long each stays true; those that the selector reads are not refreshed.
        signals: what the selector asks for, which every client must be able to answer.
        owner_of: from a name to its owner, for quotas.
        bind_keys: a name belongs to the key that first had it.
        logger: where it is said who came back as whom.
    """

    def __init__(
        self,
        reads: Collection[str] = (),
        optional: Collection[str] = (),
        *,
        watched: Mapping[str, Refresh] | None = None,
        signals: Mapping[str, str] | None = None,
        owner_of: Owner | None = None,
        bind_keys: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        self.reads = tuple(reads)
        self.optional = tuple(fact for fact in optional if fact not in self.reads)
        self.watched = {fact: age for fact, age in (watched or {}).items() if fact not in self.reads}
        self.signals = dict(signals or {})
        self.owner_of = owner_of
        self.bind_keys = bind_keys
        self.logger = logger or logging.getLogger(__name__)
        self.members: list[Member] = []
        self.selections = 0
        self.changed = False
        self._id_of_name: dict[str, int] = {}
        self._id_of_session: dict[str, int] = {}
        self._signals_of_session: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, client: int) -> Member:
        return self.members[client]

    @property
    def names(self) -> list[str]:
        """The stable names, by id."""
        return [member.name for member in self.members]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The facts without which nobody takes part."""
        return (*self.reads, *self.watched)

    def client_of(self, session: str) -> int | None:
        """Return the client behind a session; None if it has not said who it is."""
        return self._id_of_session.get(session)

    def session_of(self, client: int) -> str:
        """Return the session of a client that is present."""
        session = self.members[client].session
        if session is None:
            raise bad("client", "one that is online", self.members[client].name)
        return session

    def holder(self, name: str) -> str | None:
        """Return the session that has this name, if one had it since the server started."""
        client = self._id_of_name.get(name)
        if client is None:
            return None
        return self.members[client].session

    def find_strangers(self, online: Collection[str]) -> list[str]:
        """Return the sessions that have not said who they are."""
        strangers = [session for session in online if session not in self._id_of_session]
        return sorted(strangers, key=natural_order)

    def find_present(self, online: Collection[str]) -> Ids:
        """Return the clients whose latest session is online, sorted, the silent ones too."""
        sessions = set(online)
        clients = [client for client, member in enumerate(self.members) if member.session in sessions]
        return np.array(clients, np.int64)

    def keep_answering(self, clients: Ids) -> Ids:
        """Return those of these clients that did not fall silent."""
        return clients[[self.members[client].silent_until is None for client in clients.tolist()]]

    def keep_able(self, clients: Ids, signal: str) -> Ids:
        """Return those of these clients whose program has said that it answers a signal."""
        sessions = [self.members[client].session for client in clients.tolist()]
        return clients[[signal in self._signals_of_session.get(session, ()) for session in sessions]]

    # -- who comes -----------------------------------------------------------------------------------------------------

    def meet(
        self,
        profiles: Mapping[str, Profile],
        peers: Mapping[str, Peer] | None = None,
        online: Collection[str] = (),
        now: float = 0.0,
    ) -> dict[str, str]:
        """Enter sessions, or recognise clients that come back under a new one; return who is refused, and why."""
        candidates: list[_Candidate] = []
        refused: dict[str, str] = {}
        for session, profile in profiles.items():
            peer = (peers or {}).get(session, Peer())
            named_profile = _named(session, profile, peer)
            try:
                facts = self._checked_facts(named_profile)
            except InputError as error:
                refused[session] = str(error)
                continue
            candidates.append(_Candidate(session, named_profile, facts, peer))
        candidates.sort(key=lambda candidate: (natural_order(candidate.profile.name), natural_order(candidate.session)))
        usual_shapes = self._usual_shapes([candidate.facts for candidate in candidates])
        claimants = {*profiles, *online}
        for candidate in candidates:
            reason = _misshapen(candidate.facts, usual_shapes) or self._objection(candidate, claimants)
            if reason:
                refused[candidate.session] = reason
            else:
                self._enter(candidate, now)
                self._signals_of_session[candidate.session] = frozenset(candidate.profile.signals)
        return refused

    def _checked_facts(self, profile: Profile) -> dict[str, Array]:
        """Return the facts as they are kept; refuse a client that lacks one, lies, or cannot answer."""
        if not profile.name.isprintable() or len(profile.name) > LONGEST_NAME:
            rule = f"one line of at most {LONGEST_NAME} characters that can be printed"
            raise bad("name", rule, repr(profile.name[:LONGEST_SHOWN]))
        for kind in ("tags", "signals", "unsure"):
            _check_words(kind, getattr(profile, kind))
        lacking = [name for name in self.signals if parse_sketch_name(name)[0] not in profile.signals]
        if lacking:
            raise InputError(f"does not answer {', '.join(sorted(lacking))}, which {self.signals[lacking[0]]} needs")
        self._owner(profile.name)
        offered = [fact for fact in self.optional if fact in profile.facts]
        return {fact: self._row(fact, profile.facts) for fact in (*self.wanted, *offered)}

    def _row(self, fact: str, facts: Mapping[str, Array]) -> Array:
        """Return one client's row of a fact, as it is kept: in types that stack with those of all others."""
        if fact not in facts:
            raise InputError(f"its facts lack {fact}")
        row = np.asarray(facts[fact])
        if row.dtype.kind == "b":  # such as whether a device is charging
            row = row.astype(np.int64)
        check_row(fact, row, "profile")
        if row.dtype.kind == "f" and row.dtype.itemsize > 8:
            return row.astype(np.float64)
        if row.dtype.kind == "f":
            return row
        if fact == "groups" and int(row) > np.iinfo(np.int64).max:
            raise bad("profile.groups", "below 2**63", int(row))
        if fact in WHOLE_NUMBER_FACTS:
            return row.astype(np.int64)
        return row

    def _usual_shapes(self, rows: list[dict[str, Array]]) -> dict[str, Shape]:
        """Return the shape of every fact: that of the members, at first that of most rows."""
        usual_shapes: dict[str, Shape] = {}
        for fact in (*self.wanted, *self.optional):
            shapes = [member.facts[fact].shape for member in self.members if fact in member.facts][:1]
            if not shapes:
                shapes = [row[fact].shape for row in rows if fact in row]
            if shapes:
                usual_shapes[fact] = Counter(shapes).most_common(1)[0][0]
        return usual_shapes

    def _objection(self, candidate: _Candidate, claimants: Collection[str]) -> str:
        """Say why a session cannot be the client that it says it is; empty if it can."""
        name = candidate.profile.name
        holder = self.holder(name)
        if holder not in (None, candidate.session) and holder in claimants and not candidate.peer.name:
            return f"claims the name {name[:99]!r} of node {holder}, which is online"
        client = self._id_of_name.get(name)
        if client is None:
            return ""
        member = self.members[client]
        if self.bind_keys and member.key and candidate.peer.key != member.key:
            return f"claims the name {name[:99]!r}, which belongs to a node with another key"
        for fact in ("sizes", "label_counts"):
            if fact in candidate.facts and fact in member.facts:
                earlier_examples = float(np.sum(member.facts[fact]))
                examples = float(np.sum(candidate.facts[fact]))
                fewest = earlier_examples / MOST_CHANGE_OF_SIZE
                most = max(earlier_examples, 1.0) * MOST_CHANGE_OF_SIZE
                if not fewest <= examples <= most:
                    return f"comes back as {name[:99]!r} with {examples:g} examples; it had {earlier_examples:g}"
        return ""

    def _enter(self, candidate: _Candidate, now: float) -> None:
        """Make a session the current one of its client, who may be new."""
        session = candidate.session
        client = self._id_of_name.get(candidate.profile.name)
        earlier_client = self._id_of_session.get(session)
        if earlier_client is not None and earlier_client != client:
            self.members[earlier_client].session = None  # the device has taken another name: nobody answers for two
        if client is None:
            client = len(self.members)
            self._id_of_name[candidate.profile.name] = client
            self.members.append(Member(candidate.profile.name))
            self.changed = True
        member = self.members[client]
        for fact, row in candidate.facts.items():
            is_read = fact not in self.watched
            if is_read and (fact not in member.facts or not np.array_equal(row, member.facts[fact])):
                self.changed = True
        member.facts = candidate.facts
        member.heard = dict.fromkeys(candidate.facts, now)
        member.tags = candidate.profile.tags
        member.unsure = candidate.profile.unsure
        member.key = member.key or candidate.peer.key
        if member.session is not None and member.session != session:
            self._signals_of_session.pop(member.session, None)
            self._id_of_session.pop(member.session, None)  # should it come back, it is asked who it is
            self.logger.warning("Client %s came back as node %s (it was %s).", member.name, session, member.session)
        member.session = session
        member.silent_until = None
        self._id_of_session[session] = client

    # -- who is silent -------------------------------------------------------------------------------------------------

    def note_silence(self, client: int) -> None:
        """Leave a client out, each time for twice as many selections."""
        member = self.members[client]
        member.misses += 1
        member.silent_until = self.selections + 1 + 2 ** (member.misses - 1)

    def note_training(self, client: int) -> None:
        """Note that a client trained in time: it takes part, and its next silence is short."""
        member = self.members[client]
        member.misses = 0
        member.silent_until = None

    def to_ask_again(self, online: Collection[str]) -> list[int]:
        """Return the silent clients that are online and whose pause is over."""
        return [
            client
            for client, member in enumerate(self.members)
            if member.silent_until is not None and member.silent_until <= self.selections and member.session in online
        ]

    # -- facts ---------------------------------------------------------------------------------------------------------

    def outdated(self, clients: Ids, now: float) -> list[int]:
        """Return those of these clients of whom a fact for eligibility is too old."""
        if not self.watched:
            return []
        return [client for client in clients.tolist() if self._is_outdated(self.members[client], now)]

    def _is_outdated(self, member: Member, now: float) -> bool:
        """Tell whether any fact for eligibility is older than it may be."""
        for fact, longest_age in self.watched.items():
            age = now - member.heard.get(fact, -np.inf)
            if longest_age == "selection":
                longest_age = 0.0
            if age > longest_age:
                return True
        return False

    def refresh(self, client: int, facts: Mapping[str, Array], now: float) -> str:
        """Take fresh facts for eligibility; return what is wrong with them, or nothing."""
        member = self.members[client]
        try:
            fresh = {fact: self._row(fact, facts) for fact in self.watched}
        except InputError as error:
            return str(error)
        fault = _misshapen(fresh, self._usual_shapes([fresh]))
        if fault:
            return fault
        member.facts = {**member.facts, **fresh}
        member.heard = {**member.heard, **dict.fromkeys(fresh, now)}
        return ""

    def settle(self) -> None:
        """Read the optional facts that all clients gave from now on, and no others."""
        agreed = [fact for fact in self.optional if all(fact in member.facts for member in self.members)]
        self.reads += tuple(agreed)
        self.optional = ()
        for member in self.members:
            member.facts = {fact: member.facts[fact] for fact in self.wanted}

    def _owner(self, name: str) -> Hashable:
        """Return the owner of a client; None where nobody says who owns whom."""
        if self.owner_of is None:
            return None
        try:
            owner = self.owner_of(name)
            hash(owner)
        except Exception as error:  # the operator's function, on a name that a client made up
            raise bad("name", "one that owner_of knows", name, f"{type(error).__name__}: {error}.") from None
        return owner

    def population(self) -> Population:
        """Return what the server knows of them."""
        facts = self.facts()
        groups = facts.pop("groups", None)
        if self.owner_of is not None and groups is None:
            owners = [self._owner(member.name) for member in self.members]
            numbers = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
            groups = np.array([numbers[owner] for owner in owners], np.int64)
        return Population(groups=groups, n_clients=len(self.members), **facts)

    def owner_names(self) -> list[str]:
        """Return the owners by their number in the population; nobody where no function says who owns whom."""
        if self.owner_of is None:
            return []
        return [str(owner) for owner in dict.fromkeys(self._owner(member.name) for member in self.members)]

    def facts(self) -> dict[str, Array]:
        """Return (N, …) the facts that the selector reads, by name."""
        return {fact: np.stack([member.facts[fact] for member in self.members]) for fact in self.reads}

    # -- a checkpoint --------------------------------------------------------------------------------------------------

    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return facts, and names with their keys; sessions are not kept: clients are asked who they are."""
        keys = {member.name: member.key for member in self.members if member.key}
        return self.facts(), {"names": self.names, "keys": keys}

    def restore(self, facts: Mapping[str, Array], header: StoredTable) -> None:
        """Take over what :meth:`export` gave; of sessions nothing is known."""
        names = header["names"]
        keys = header.get("keys") or {}
        if not _are_texts(names):
            raise ValueError("names are not a list of texts")
        if len(set(names)) < len(names):
            raise ValueError("a name stands there twice")
        if not isinstance(keys, dict) or not _are_texts(list(keys.values())) or not keys.keys() <= set(names):
            raise ValueError("keys do not belong to names")
        self.reads += tuple(fact for fact in self.optional if fact in facts)
        self.optional = ()
        Population(n_clients=len(names), **{fact: facts[fact] for fact in self.reads})  # refuses what cannot be true
        self.members = [
            Member(name, {fact: facts[fact][row] for fact in self.reads}, key=keys.get(name, ""))
            for row, name in enumerate(names)
        ]
        self._id_of_name = {name: row for row, name in enumerate(names)}
        self._id_of_session = {}


class MemberDirectory:
    """What a policy must know of the members of a federation: names, owners and tags, by the clock on the wall.

    Args:
        members: the members.
        model_size: returns how long the vectors are that belong to the model.
    """

    def __init__(self, members: Members, model_size: Callable[[], ModelSize]) -> None:
        self.model_size = model_size
        self._members = members

    def name(self, client: int) -> str:
        """Return the client's stable name."""
        return self._members[client].name

    def owner(self, client: int) -> str:
        """Return its owner, as text; empty where the operator names none."""
        owner_of = self._members.owner_of
        if owner_of is None:
            return ""
        return str(owner_of(self.name(client)))

    def tags(self, client: int) -> tuple[str, ...]:
        """Return its tags."""
        return self._members[client].tags

    def now(self) -> float:
        """Return seconds since 1970: other jobs, and this one after a restart, read the same clock."""
        return time.time()

    def hour(self, utc: bool) -> float:
        """Return the hour of the day, of UTC or of the server's own time zone."""
        clock = time.localtime()
        if utc:
            clock = time.gmtime()
        return clock.tm_hour + clock.tm_min / 60


def _named(session: str, profile: Profile, peer: Peer) -> Profile:
    """Return the profile under its stable name: one that is proven, else claimed, else of its key or its session."""
    if peer.name:
        return replace(profile, name=peer.name)
    if profile.name:
        return profile
    if peer.key:
        return replace(profile, name=f"key-{peer.key[:16]}")
    return replace(profile, name=f"node-{session}")


def _check_words(kind: str, words: Sequence[str]) -> None:
    """Refuse more words, or longer ones, than a client may have the server remember, and what no file can hold."""
    if len(words) > MOST_WORDS or any(len(word) > LONGEST_NAME for word in words):
        longest = max(map(len, words))
        rule = f"at most {MOST_WORDS} words of at most {LONGEST_NAME} characters"
        raise bad(f"profile.{kind}", rule, f"{len(words)} words of up to {longest} characters")
    for word in words:
        if not word.isprintable():  # half of a pair of surrogates, which cannot be written; line breaks
            raise bad(f"profile.{kind}", "words that can be printed", word[:LONGEST_SHOWN])


def _misshapen(facts: Mapping[str, Array], usual_shapes: Mapping[str, Shape]) -> str:
    """Name the first fact of another shape than usual; empty if there is none."""
    for fact, row in facts.items():
        if row.shape != usual_shapes[fact]:
            return f"sends {fact} of shape {row.shape} in place of {usual_shapes[fact]}"
    return ""


def _are_texts(words: object) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Return a sorting key that puts "client-2" before "client-10"; any text has one."""
    key = []
    for part in re.split(r"([0-9]{1,18})", name):  # other digits, such as ², are letters here
        if part.isascii() and part.isdigit():
            key.append((0, int(part), ""))
        elif part:
            key.append((1, 0, part))
    return key
