"""Policies at work, the same for every backend: who is eligible, and what counts as used.

A backend asks :meth:`PolicyKeeper.admit` whom the selector may see; the driver claims whoever it is about to use
(:meth:`PolicyKeeper.claim_question`, and :meth:`PolicyKeeper.claim` for the cohort) before anything is sent. The
keeper counts in memory; with a :class:`~sortition.federation.ledger.Ledger` it reads what other jobs claimed, and
writes its own claims there first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER
from sortition.core.errors import StorageError
from sortition.core.policy import (
    COUNTED,
    FACT_OF,
    UTC_OFFSET,
    Per,
    Policy,
    Rule,
    Span,
    explain_exclusion,
    read_hours,
)
from sortition.core.questions import Measure
from sortition.core.signals import ModelSize
from sortition.core.streams import stream
from sortition.federation.ledger import Claim, Ledger, Lookback, News, PrunedUses

Excluded = Mapping[str, Ids]  # rule → whom it left out
Facts = Mapping[str, Array]
SavedCounts = dict[str, Any]  # what a keeper counted, as JSON knows it


@dataclass(frozen=True)
class Eligible:
    """Clients that a backend would let take part, and what is known of them.

    Attributes:
        ids: the clients (k,).
        facts: their facts, (k,) each, by name.
    """

    ids: Ids
    facts: Facts


class Directory(Protocol):
    """What a keeper must know of clients, time and the model."""

    def name(self, client: int) -> str:
        """Return the client's stable name."""
        ...

    def owner(self, client: int) -> str:
        """Return its owner; empty where owners are not known."""
        ...

    def tags(self, client: int) -> tuple[str, ...]:
        """Return its tags."""
        ...

    def now(self) -> float:
        """Return the seconds of the clock that windows are measured by."""
        ...

    def hour(self, utc: bool) -> float:
        """Return the hour of the day, in [0, 24): the server's own, or that of UTC."""
        ...

    def model_size(self) -> ModelSize:
        """Return how long the vectors are that belong to the model."""
        ...


@dataclass(frozen=True)
class Moment:
    """When something happens: a round of this job, and seconds of the clock."""

    round: int
    seconds: float

    def by(self, span: Span) -> float:
        """Return the moment in the unit of a span."""
        if span.in_rounds:
            return float(self.round)
        return self.seconds


class Tally:
    """What the subjects of one policy have used: each subject is a client, an owner or a tag.

    Attributes:
        policy: whose limits are watched.
        rules: its rules on what was done before, by name.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rules = {rule.name: rule for rule in policy.rules if rule.name in COUNTED}
        self._separation = _span("separation", policy.separation)
        self._window = _span("window", policy.window)
        self._most_bytes = int(policy.megabytes * BYTES_PER_MEGABYTE)
        self._codes: dict[Hashable, int] = {}
        self._last: list[float] = []  # when each subject was last used, in the unit of the separation
        self._uses: list[int] = []  # within the window
        self._bytes: list[int] = []  # within the window
        self._lifetime: list[int] = []
        self._in_window: list[tuple[float, int, int, int]] = []  # a heap of (when, subject, uses, bytes)

    def code(self, subject: Hashable) -> int:
        """Return the number of a subject; a new one gets the next."""
        if subject not in self._codes:
            self._codes[subject] = len(self._last)
            self._last.append(-np.inf)
            self._uses.append(0)
            self._bytes.append(0)
            self._lifetime.append(0)
        return self._codes[subject]

    def add(self, subject: Hashable, moment: Moment, *, uses: int, n_bytes: int, of_this_job: bool) -> None:
        """Count a claim. Rounds are those of one job: what other jobs did counts in seconds and in lifetimes only."""
        code = self.code(subject)
        self._lifetime[code] += uses
        if self._separation is not None and uses and (of_this_job or not self._separation.in_rounds):
            self._last[code] = max(self._last[code], moment.by(self._separation))
        if self._window is not None and (of_this_job or not self._window.in_rounds):
            heapq.heappush(self._in_window, (moment.by(self._window), code, uses, n_bytes))
            self._uses[code] += uses
            self._bytes[code] += n_bytes

    def add_lifetime(self, subject: Hashable, uses: int) -> None:
        """Count participations that are too long ago for everything but the lifetime."""
        self._lifetime[self.code(subject)] += uses

    def advance(self, moment: Moment) -> None:
        """Forget what is no longer within the window."""
        if self._window is None:
            return
        begin = moment.by(self._window) - self._window.amount
        while self._in_window and self._in_window[0][0] <= begin:
            _, code, uses, n_bytes = heapq.heappop(self._in_window)
            self._uses[code] -= uses
            self._bytes[code] -= n_bytes

    def broken(self, subject: Hashable, moment: Moment, *, uses: int, n_bytes: int) -> Rule | None:
        """Return the first rule that one more use of a subject, with so many bytes, would break."""
        code = self.code(subject)
        if uses and self._is_too_soon(code, moment):
            return self.rules["separation"]
        limits = self.policy
        if uses and limits.participations and self._uses[code] + uses > limits.participations:
            return self.rules["participations"]
        if limits.megabytes and self._bytes[code] + n_bytes > self._most_bytes:
            return self.rules["megabytes"]
        if uses and limits.lifetime and self._lifetime[code] + uses > limits.lifetime:
            return self.rules["lifetime"]
        return None

    def _is_too_soon(self, code: int, moment: Moment) -> bool:
        span = self._separation
        return span is not None and moment.by(span) - self._last[code] < span.amount

    def room(self, subject: Hashable, n_bytes: int) -> tuple[float, Rule]:
        """Return how many more clients of a subject that breaks no rule may train now, and the rule that says so."""
        code = self.code(subject)
        limits = self.policy
        rooms: dict[str, float] = {}
        if self._separation is not None:
            rooms["separation"] = 1
        if limits.participations:
            rooms["participations"] = limits.participations - self._uses[code]
        if limits.megabytes and n_bytes:
            rooms["megabytes"] = (self._most_bytes - self._bytes[code]) // n_bytes
        if limits.lifetime:
            rooms["lifetime"] = limits.lifetime - self._lifetime[code]
        if not rooms:
            return np.inf, next(iter(self.rules.values()))
        name = min(rooms, key=lambda rule: rooms[rule])
        return rooms[name], self.rules[name]

    def export(self) -> dict[str, Any]:
        """Return everything that it counted, for a checkpoint."""
        return {
            "subjects": list(self._codes),
            "last": [None if value == -np.inf else value for value in self._last],
            "lifetime": list(self._lifetime),
            "window": [list(item) for item in self._in_window],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what :meth:`export` gave."""
        fresh = Tally(self.policy)
        for subject in saved["subjects"]:
            fresh.code(str(subject))
        n_subjects = len(fresh._codes)
        if not len(saved["last"]) == len(saved["lifetime"]) == n_subjects:
            raise ValueError("a policy's counts are not one a subject")
        fresh._last = [-np.inf if value is None else float(value) for value in saved["last"]]
        fresh._lifetime = [int(count) for count in saved["lifetime"]]
        for moment, code, uses, n_bytes in saved["window"]:
            if not 0 <= code < n_subjects:
                raise ValueError("a policy's window holds an unknown subject")
            heapq.heappush(fresh._in_window, (float(moment), int(code), int(uses), int(n_bytes)))
            fresh._uses[code] += int(uses)
            fresh._bytes[code] += int(n_bytes)
        self.__dict__.update(fresh.__dict__)


class PolicyKeeper:
    """Keeps the policies of one federation.

    Args:
        policies: what is promised; all of them hold together.
        directory: what is known of clients, time and the model.
        seed: of the draws among clients that share a limit.

    Attributes:
        job: this federation, by which its rounds are told from those of other jobs.
        round: the round that is about to begin.
        excluded: whom each rule left out when this round began.
        ledger: where claims are shared with other jobs (:meth:`share`); None: they are counted here alone.
    """

    def __init__(self, policies: Sequence[Policy], directory: Directory, *, seed: int = 0) -> None:
        self.policies = tuple(policies)
        self.directory = directory
        self.seed = seed
        self.job = ""
        self.round = 0
        self.excluded: Excluded = {}
        self.ledger: Ledger | None = None
        self._tallies = [Tally(policy) for policy in self.policies if _counts(policy)]
        self._used: set[int] = set()  # clients that take part in this round already
        self._latest = -np.inf  # the clock is never read backwards

    def share(self, ledger: Ledger, job: str) -> None:
        """Count in a ledger from now on, as this job; the ledger keeps whatever the rules look back at."""
        self.job = job
        self.ledger = ledger
        ledger.register(job, lookback(self.policies))

    # -- who is eligible -----------------------------------------------------------------------------------------------

    def admit(self, ids: Ids, look: Callable[[Ids], Eligible]) -> Ids:
        """Return those of these clients that the selector may see; note in :attr:`excluded` which rule left others out.

        ``look`` is called for those that no rule on the past leaves out: it brings their facts up to date, and may
        leave out more, who are then neither eligible nor excluded.
        """
        self._used = set()
        self.excluded = {}
        if not self.policies:
            return look(ids).ids
        self._catch_up()
        broken = self._broken_before(ids)
        eligible = look(ids[[client not in broken for client in ids.tolist()]])
        broken |= self._broken_by_facts(eligible)
        admitted = eligible.ids[[client not in broken for client in eligible.ids.tolist()]]
        broken |= self._without_room(admitted)
        names: dict[str, list[int]] = {}
        for client in sorted(broken):
            names.setdefault(broken[client].key, []).append(client)
        self.excluded = {key: np.array(clients, np.int64) for key, clients in sorted(names.items())}
        return admitted[[client not in broken for client in admitted.tolist()]]

    def with_excluded(self, admitted: Ids) -> Ids:
        """Return everybody who would be available without the policy, sorted."""
        if not self.excluded:
            return admitted
        return np.sort(np.concatenate([admitted, *self.excluded.values()]))

    def disregard(self, clients: Collection[int]) -> None:
        """Leave clients out of :attr:`excluded` that could not be chosen anyway."""
        if self.excluded:
            choosable = {
                rule: ids[[client not in clients for client in ids.tolist()]] for rule, ids in self.excluded.items()
            }
            self.excluded = {rule: ids for rule, ids in choosable.items() if ids.size}

    def said(self) -> str:
        """Say whom the rules left out; the rules that leave out most come first."""
        counts = Counter({key: int(ids.size) for key, ids in self.excluded.items()}).most_common()
        return ", ".join(f"{count} ({explain_exclusion(key)})" for key, count in counts)

    def _broken_before(self, ids: Ids) -> dict[int, Rule]:
        """Return the first rule that each client breaks by the hour, or by what was done before."""
        broken: dict[int, Rule] = {}
        for policy in self.policies:
            rule = _rule(policy, "hours")
            if rule is None or policy.local_hours or _within(policy.hours, self.directory.hour(utc=False)):
                continue
            broken |= {
                client: rule for client in ids.tolist() if client not in broken and self._applies(policy, client)
            }
        n_bytes = self._training_bytes()
        moment = self._moment()
        for client in ids.tolist():
            if client not in broken:
                rule = self._first_broken(client, moment, uses=1, n_bytes=n_bytes)
                if rule is not None:
                    broken[client] = rule
        return broken

    def _first_broken(self, client: int, moment: Moment, *, uses: int, n_bytes: int) -> Rule | None:
        """Return the first rule on the past that one more use of a client would break."""
        for tally in self._tallies:
            if self._applies(tally.policy, client):
                for subject in self._subjects(tally.policy.per, client):
                    rule = tally.broken(subject, moment, uses=uses, n_bytes=n_bytes)
                    if rule is not None:
                        return rule
        return None

    def _broken_by_facts(self, eligible: Eligible) -> dict[int, Rule]:
        """Return the first rule on facts that each client breaks; a fact that is not known breaks its rule."""
        broken: dict[int, Rule] = {}
        for policy in self.policies:
            for rule in policy.rules:
                if rule.name in FACT_OF or (rule.name == "hours" and policy.local_hours):
                    fails = self._fails(policy, rule, eligible)
                    for client in eligible.ids[fails].tolist():
                        if client not in broken and self._applies(policy, client):
                            broken[client] = rule
        return broken

    def _fails(self, policy: Policy, rule: Rule, eligible: Eligible) -> Array:
        """Return a mask (k,) of the clients that break a rule on facts."""
        fact = FACT_OF.get(rule.name, UTC_OFFSET)
        values = np.asarray(eligible.facts.get(fact, np.full(eligible.ids.size, np.nan)), np.float64)
        if rule.name == "hours":
            hour = (self.directory.hour(utc=True) + values) % 24
            return np.array([not _within(policy.hours, value) for value in hour.tolist()], bool)
        if rule.name in ("charging", "idle"):
            limit = float(np.finfo(np.float64).tiny)
        else:
            limit = float(getattr(policy, rule.name))
        return np.array(~(values >= limit), bool)

    def _without_room(self, candidates: Ids) -> dict[int, Rule]:
        """Return whom a draw leaves out, where an owner or a tag has more clients there than places left.

        Whoever the selector then chooses, a shared limit is kept.
        """
        shared = [tally for tally in self._tallies if tally.policy.per != "client"]
        if not shared:
            return {}
        n_bytes = self._training_bytes()
        rooms: dict[tuple[int, Hashable], tuple[float, Rule]] = {}
        left_out: dict[int, Rule] = {}
        rng = stream(self.seed, "policy", self.round)
        for client in candidates[rng.permutation(candidates.size)].tolist():
            places = [
                (number, subject)
                for number, tally in enumerate(shared)
                if self._applies(tally.policy, client)
                for subject in self._subjects(tally.policy.per, client)
            ]
            for number, subject in places:
                if (number, subject) not in rooms:
                    rooms[number, subject] = shared[number].room(subject, n_bytes)
            exhausted_rule = next((rooms[place][1] for place in places if rooms[place][0] < 1), None)
            if exhausted_rule is not None:
                left_out[client] = exhausted_rule
                continue
            for place in places:
                rooms[place] = (rooms[place][0] - 1, rooms[place][1])
        return left_out

    # -- what counts as used -------------------------------------------------------------------------------------------

    def claim(self, cohort: Ids) -> Ids:
        """Count a training of each member; return those whose limit another job has used up meanwhile."""
        if not self._tallies:
            return cohort[:0]
        return self._claim(cohort, uses=1, n_bytes=self._training_bytes(), reserve=0)

    def claim_question(self, question: Measure) -> Measure | None:
        """Count a question, and return it put to those who may answer it; None where that is nobody."""
        signal = question.signal
        if not self._tallies or signal.of in ("device", "pairs", "server"):
            return question
        trains = signal.of == "training"
        counts_bytes = any(tally.policy.megabytes for tally in self._tallies)
        if question.after is not None:
            rehearsed = self._claim(question.after.ids, uses=1, n_bytes=self._training_bytes(), reserve=0)
            if rehearsed.size:
                return None
        if not trains and not counts_bytes:
            return question
        size = self.directory.model_size()
        row_dimension = 1 if signal.scalar else signal.dimension(size) or 0
        numbers = (size.parameters or 0) + signal.floats_down + row_dimension
        reserve = 0 if trains else self._training_bytes()
        refused = self._claim(question.ids, uses=int(trains), n_bytes=BYTES_PER_NUMBER * numbers, reserve=reserve)
        if not refused.size:
            return question
        permitted_ids = question.ids[~np.isin(question.ids, refused)]
        if not permitted_ids.size:
            return None
        return replace(question, ids=permitted_ids)

    def _claim(self, ids: Ids, *, uses: int, n_bytes: int, reserve: int) -> Ids:
        """Check and count in one step, which no other job can come between; return whoever breaks a rule.

        Twice in one round is one participation. ``reserve`` bytes must be left beside those that are counted.
        """
        if self.ledger is None:
            return self._checked(ids, uses=uses, n_bytes=n_bytes, reserve=reserve)[1]
        with self.ledger.exclusively():
            self._catch_up()
            self.ledger.prune(self._moment().seconds)
            claims, refused = self._checked(ids, uses=uses, n_bytes=n_bytes, reserve=reserve)
            self.ledger.append(claims)
            self.ledger.unread()  # they are counted already
        return refused

    def _checked(self, ids: Ids, *, uses: int, n_bytes: int, reserve: int) -> tuple[list[Claim], Ids]:
        moment = self._moment()
        claims: list[Claim] = []
        refused: list[int] = []
        for client in ids.tolist():
            new_uses = 0 if client in self._used else uses
            if self._first_broken(client, moment, uses=new_uses, n_bytes=n_bytes + reserve) is None:
                claim = self._claim_of(client, moment, uses=new_uses, n_bytes=n_bytes)
                self._count(claim, of_this_job=True)
                claims.append(claim)
                if uses:
                    self._used.add(client)
            else:
                refused.append(client)
        return claims, np.array(refused, np.int64)

    def _claim_of(self, client: int, moment: Moment, *, uses: int, n_bytes: int) -> Claim:
        directory = self.directory
        return Claim(
            job=self.job,
            round=moment.round,
            client=directory.name(client),
            owner=directory.owner(client),
            tags=directory.tags(client),
            at=moment.seconds,
            uses=uses,
            bytes=n_bytes,
        )

    def _count(self, claim: Claim, *, of_this_job: bool) -> None:
        moment = Moment(claim.round, claim.at)
        for tally in self._tallies:
            for subject in _counted_subjects(tally.policy, claim):
                tally.add(subject, moment, uses=claim.uses, n_bytes=claim.bytes, of_this_job=of_this_job)

    def _count_news(self, news: News) -> None:
        if news.lifetimes is not None:
            self._tallies = [Tally(tally.policy) for tally in self._tallies]
            for lifetime in news.lifetimes:
                for tally in self._tallies:
                    for subject in _counted_subjects(tally.policy, lifetime):
                        tally.add_lifetime(subject, lifetime.uses)
        for claim in self._as_counted_now(news.claims):
            self._count(claim, of_this_job=claim.job == self.job)

    def _as_counted_now(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return claims with the rounds of this job moved to where it counts them now.

        A job that goes back to an older checkpoint plays rounds again. What the ledger has of the rounds that it forgot
        happened before this round: taken for rounds to come, it would keep devices waiting until they are over.
        """
        counted_claims = list(claims)
        latest_round = self.round
        shift = 0
        for row in reversed(range(len(counted_claims))):
            claim = counted_claims[row]
            if claim.job != self.job:
                continue
            shift = max(shift, claim.round - latest_round)
            latest_round = claim.round - shift
            counted_claims[row] = replace(claim, round=latest_round)
        return counted_claims

    def _catch_up(self) -> None:
        """Count what is new in the ledger, and forget what has left its window."""
        if self.ledger is not None:
            self._count_news(self.ledger.unread())
        moment = self._moment()
        for tally in self._tallies:
            tally.advance(moment)

    # -- what is known -------------------------------------------------------------------------------------------------

    def _moment(self) -> Moment:
        self._latest = max(self._latest, self.directory.now())
        return Moment(self.round, self._latest)

    def _training_bytes(self) -> int:
        """Return the bytes of one training: the model there, and the update back."""
        return 2 * BYTES_PER_NUMBER * (self.directory.model_size().parameters or 0)

    def _subjects(self, per: Per, client: int) -> tuple[str, ...]:
        """Return the names under which a client's use counts."""
        if per == "client":
            return (self.directory.name(client),)
        if per == "owner":
            return _known_owner(self.directory.owner(client))
        return self.directory.tags(client)

    def _applies(self, policy: Policy, client: int) -> bool:
        if not policy.only:
            return True
        return self.directory.name(client) in policy.only or not set(policy.only).isdisjoint(
            self.directory.tags(client)
        )

    # -- a checkpoint --------------------------------------------------------------------------------------------------

    def export(self) -> SavedCounts:
        """Return what was counted, for a checkpoint that holds it itself; a ledger keeps it otherwise."""
        return {
            "latest": None if self._latest == -np.inf else self._latest,
            "tallies": [tally.export() for tally in self._tallies],
        }

    def restore(self, saved: object) -> None:
        """Take over what :meth:`export` gave; refused if of other policies.

        The clock is not read from before the moment of the export: what had left a window then is forgotten.
        """
        if not isinstance(saved, dict) or len(saved.get("tallies") or ()) != len(self._tallies):
            raise StorageError("Its counts are of another policy.")
        try:
            latest = -np.inf
            if saved["latest"] is not None:
                latest = float(saved["latest"])
            if np.isnan(latest):
                raise ValueError("the moment of a policy's counts is not a number")
            for tally, table in zip(self._tallies, saved["tallies"], strict=True):
                tally.restore(table)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StorageError(f"Its policy's counts are damaged: {error}.") from None
        self._latest = latest


def _counts(policy: Policy) -> bool:
    return any(rule.name in COUNTED for rule in policy.rules)


def _counted_subjects(policy: Policy, use: Claim | PrunedUses) -> tuple[str, ...]:
    """Return the names under which a policy counts a use; none where it does not apply to the device."""
    if policy.only and use.client not in policy.only and set(use.tags).isdisjoint(policy.only):
        return ()
    if policy.per == "client":
        return (use.client,)
    if policy.per == "tag":
        return use.tags
    return _known_owner(use.owner)


def _known_owner(owner: str) -> tuple[str, ...]:
    """Return the owner as a subject; nobody where owners are not known."""
    return (owner,) if owner else ()


def _span(name: str, text: str) -> Span | None:
    """Return the span of a rule; None where the rule is off."""
    if not text:
        return None
    return Span.read(name, text)


def lookback(policies: Iterable[Policy]) -> Lookback:
    """Return how far back the windows and separations of these policies look."""
    texts = [text for policy in policies for text in (policy.separation, policy.window) if text]
    spans = [Span.read("policy", text) for text in texts]
    return Lookback(
        seconds=max((span.amount for span in spans if not span.in_rounds), default=0.0),
        rounds=int(max((span.amount for span in spans if span.in_rounds), default=0.0)),
    )


def _rule(policy: Policy, name: str) -> Rule | None:
    return next((rule for rule in policy.rules if rule.name == name), None)


def _within(hours: str, hour: float) -> bool:
    """Tell whether an hour of the day lies in the span "22-6"; one that is not known does not."""
    first, last = read_hours("hours", hours)
    if first < last:
        return first <= hour < last
    return hour >= first or hour < last


def facts_of(policies: Iterable[Policy]) -> tuple[str, ...]:
    """Return the facts that these policies look at."""
    return tuple(dict.fromkeys(fact for policy in policies for fact in policy.facts))
