"""Policies and their ledger under random rules, clocks, jobs and restarts; an oracle judges everything that was used.

A world has a few clients with owners, tags and changing facts, one or two jobs, and one to three random policies. Jobs
take turns at every step, so that one claims what another was about to choose; they ask questions that train, forget
all they have in memory, and repeat the round in which they stopped. The oracle is written from the definitions, with
loops over everything that ever happened.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER
from sortition.core.policy import COUNTED, Policy, Rule, Span
from sortition.core.questions import Measure
from sortition.core.signals import LOSS, TRAINING_LOSS, ModelSize
from sortition.federation import ledger
from sortition.federation.ledger import Ledger
from sortition.federation.policies import Eligible, PolicyKeeper

ROUNDS = 60  # of one world
SHARED = 0.2  # of the worlds have a ledger on the disk
SPANS = ("1 round", "2 rounds", "5 rounds", "10 seconds", "1 minute", "90 seconds", "1 hour", "1 day")
HOURS = ("22-6", "8-18")
OWNERS = ("acme", "beta", "")
TAGS = ("phone", "tablet", "test")


@dataclass(frozen=True)
class Use:
    """A device was used.

    Attributes:
        job: by which federation.
        round: of that federation.
        client: its name.
        owner: its owner, or nobody.
        tags: its tags.
        at: seconds of the clock.
        uses: 1 for a participation, 0 for traffic alone.
        bytes: that it moved.
    """

    job: str
    round: int
    client: str
    owner: str
    tags: tuple[str, ...]
    at: float
    uses: int
    bytes: int


# -- the oracle --------------------------------------------------------------------------------------------------------


def violations(policies: list[Policy], uses: list[Use]) -> list[str]:
    """Every gap, window and lifetime that breaks a limit."""
    found = []
    for policy in policies:
        uses_by_subject: dict[str, list[Use]] = {}
        for use in uses:
            for subject in _subjects(policy, use):
                uses_by_subject.setdefault(subject, []).append(use)
        for subject, its_uses in uses_by_subject.items():
            found += [f"{policy.changed()}: {subject} {fault}" for fault in _faults(policy, its_uses)]
    return found


def _subjects(policy: Policy, use: Use) -> tuple[str, ...]:
    if policy.only and use.client not in policy.only and not set(use.tags) & set(policy.only):
        return ()
    if policy.per == "client":
        return (use.client,)
    if policy.per == "owner":
        return (use.owner,) if use.owner else ()
    return use.tags


def _faults(policy: Policy, uses: list[Use]) -> list[str]:
    found = []
    participations = [use for use in uses if use.uses]
    if policy.lifetime and len(participations) > policy.lifetime:
        found.append(f"was used {len(participations)} times in all")
    if policy.separation:
        span = Span.read("separation", policy.separation)
        for timeline in _timelines(participations, span):
            moments = sorted(moment for moment, _ in timeline)
            gaps = [after - before for before, after in pairwise(moments)]
            found += [f"was used {gap:g} apart" for gap in gaps if gap < span.amount]
    if policy.window:
        span = Span.read("window", policy.window)
        if policy.participations:
            totals = _window_totals(_timelines(participations, span), span, count=True)
            found += [f"was used {total} times in a window" for total in totals if total > policy.participations]
        if policy.megabytes:
            totals = _window_totals(_timelines(uses, span), span, count=False)
            most_bytes = policy.megabytes * BYTES_PER_MEGABYTE
            found += [f"moved {total} bytes in a window" for total in totals if total > most_bytes]
    return found


def _window_totals(timelines: list[list[tuple[float, int]]], span: Span, *, count: bool) -> Iterator[int]:
    for timeline in timelines:
        for end, _ in timeline:
            inside = [n_bytes for moment, n_bytes in timeline if end - span.amount < moment <= end]
            yield len(inside) if count else sum(inside)


def _timelines(uses: list[Use], span: Span) -> list[list[tuple[float, int]]]:
    """Moments with bytes: all on one clock, or on the rounds of each job."""
    if not span.in_rounds:
        return [[(use.at, use.bytes) for use in uses]]
    by_job: dict[str, list[tuple[float, int]]] = {}
    for use in uses:
        by_job.setdefault(use.job, []).append((float(use.round), use.bytes))
    return list(by_job.values())


# -- a world -----------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """Clients whose facts change, a clock that may be set back, and a model; it is a keeper's directory, too."""

    rng: random.Random
    n_clients: int
    parameters: int
    owners: list[str] = field(default_factory=list)
    tags_of: list[tuple[str, ...]] = field(default_factory=list)
    clock: float = 1e9
    uses: list[Use] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.owners = [self.rng.choice(OWNERS) for _ in range(self.n_clients)]
        self.tags_of = [tuple(tag for tag in TAGS if self.rng.random() < 0.4) for _ in range(self.n_clients)]

    def name(self, client: int) -> str:
        """Its name."""
        return f"c{client}"

    def owner(self, client: int) -> str:
        """Its owner, or nobody."""
        return self.owners[client]

    def tags(self, client: int) -> tuple[str, ...]:
        """Its tags."""
        return self.tags_of[client]

    def now(self) -> float:
        """Seconds of the clock."""
        return self.clock

    def hour(self, utc: bool) -> float:
        """The hour of the day; the server's is two ahead."""
        return (self.clock / 3600 + (0 if utc else 2)) % 24

    def model_size(self) -> ModelSize:
        """The size of the model."""
        return ModelSize(self.parameters)

    def facts(self) -> dict[str, np.ndarray]:
        """Facts of all clients at this moment."""
        return {
            "sizes": np.array([self.rng.randint(0, 40) for _ in range(self.n_clients)]),
            "battery": np.array([self.rng.random() for _ in range(self.n_clients)]),
            "charging": np.array([self.rng.randint(0, 1) for _ in range(self.n_clients)]),
            "idle": np.array([self.rng.randint(0, 1) for _ in range(self.n_clients)]),
            "utc_offset": np.array([self.rng.randint(-12, 12) for _ in range(self.n_clients)]),
        }


class Job:
    """One federation of a world: its keeper, which may be lost, and the round that it plays."""

    def __init__(self, name: str, world: World, policies: list[Policy], path: Path | None) -> None:
        self.name = name
        self.world = world
        self.policies = policies
        self.path = path
        self.round = 0
        self.keeper = self._new_keeper()
        self.used_this_round: set[int] = set()
        self.admitted: Ids = np.empty(0, np.int64)
        self.facts: dict[str, np.ndarray] = {}
        self.faults: list[str] = []

    def _new_keeper(self) -> PolicyKeeper:
        keeper = PolicyKeeper(self.policies, self.world, seed=3)
        keeper.job = self.name
        if self.path is not None:
            keeper.share(Ledger(self.path), self.name)
        return keeper

    def restart(self) -> None:
        """Lose the memory, as a server that is killed does; what a checkpoint or a ledger holds is left."""
        counts = self.keeper.export()
        self.close()
        self.keeper = self._new_keeper()
        if self.path is None:
            self.keeper.restore(counts)

    def close(self) -> None:
        """Close the ledger."""
        if self.keeper.ledger is not None:
            self.keeper.ledger.close()

    def admit(self) -> None:
        """Find out who is eligible, of some clients that are there."""
        world = self.world
        there = sorted(world.rng.sample(range(world.n_clients), world.rng.randint(0, world.n_clients)))
        self.facts = world.facts()
        self.used_this_round = set()
        self.keeper.round = self.round
        self.admitted = self.keeper.admit(np.array(there, np.int64), self._look)
        everybody = np.sort(np.concatenate([self.admitted, *self.keeper.excluded.values()]))
        if everybody.tolist() != there:
            self.faults.append(f"{there} became {everybody.tolist()}")
        self._check_exclusions()

    def _look(self, ids: Ids) -> Eligible:
        return Eligible(ids, {name: values[ids] for name, values in self.facts.items()})

    def _check_exclusions(self) -> None:
        """Whoever is left out for what it did itself would have broken a limit."""
        if any(use.at > self.keeper._latest for use in self.world.uses):
            return  # after a restart the clock may be behind; then a keeper leaves out more than it must
        for key, ids in self.keeper.excluded.items():
            rule = Rule.parse(key)
            if rule is None or rule.name not in COUNTED or rule.per != "client":
                continue
            for client in ids.tolist():
                training = self._use(client, uses=1, n_bytes=self._training_bytes())
                if not violations(self.policies, [*self.world.uses, training]):
                    self.faults.append(f"{key} leaves c{client} out without a reason")

    def ask(self) -> None:
        """Put a question to some who are eligible, which may need a training."""
        if not self.admitted.size:
            return
        signal = self.world.rng.choice((LOSS, TRAINING_LOSS))
        n_asked = self.world.rng.randint(1, self.admitted.size)
        asked = np.sort(np.array(self.world.rng.sample(self.admitted.tolist(), n_asked)))
        permitted = self.keeper.claim_question(Measure(signal, asked))
        counts_bytes = any(policy.megabytes for policy in self.policies)
        if permitted is not None and (signal is TRAINING_LOSS or counts_bytes):
            n_bytes = BYTES_PER_NUMBER * (self.world.parameters + 1)
            self._note(permitted.ids, trains=signal is TRAINING_LOSS, n_bytes=n_bytes)
            for client in permitted.ids.tolist():
                self._check_facts(client)

    def choose(self) -> None:
        """Use some who are eligible."""
        n_chosen = self.world.rng.randint(0, self.admitted.size)
        chosen = np.array(self.world.rng.sample(self.admitted.tolist(), n_chosen), np.int64)
        withdrawn = self.keeper.claim(chosen)
        at_work = chosen[~np.isin(chosen, withdrawn)]
        self._note(at_work, trains=True, n_bytes=self._training_bytes())
        for client in at_work.tolist():
            self._check_facts(client)

    def _note(self, clients: Ids, *, trains: bool, n_bytes: int) -> None:
        for client in clients.tolist():
            uses = int(trains and client not in self.used_this_round)
            self.world.uses.append(self._use(client, uses=uses, n_bytes=n_bytes))
            if trains:
                self.used_this_round.add(client)

    def _use(self, client: int, *, uses: int, n_bytes: int) -> Use:
        world = self.world
        at = self.keeper._latest  # the clock as the keeper read it, which is never set back
        return Use(self.name, self.round, f"c{client}", world.owners[client], world.tags_of[client], at, uses, n_bytes)

    def _training_bytes(self) -> int:
        return 2 * BYTES_PER_NUMBER * self.world.parameters

    def _check_facts(self, client: int) -> None:
        for policy in self.policies:
            if (
                policy.only
                and f"c{client}" not in policy.only
                and not set(self.world.tags_of[client]) & set(policy.only)
            ):
                continue
            least = {"sizes": policy.examples, "battery": policy.battery, "charging": policy.charging}
            least["idle"] = policy.idle
            for fact, limit in least.items():
                if self.facts[fact][client] < limit:
                    self.faults.append(f"c{client} was used with {fact} {self.facts[fact][client]} below {limit}")
            if policy.hours:
                self._check_hour(policy, client)

    def _check_hour(self, policy: Policy, client: int) -> None:
        hour = self.world.hour(utc=policy.local_hours)
        if policy.local_hours:
            hour = (hour + self.facts["utc_offset"][client]) % 24
        is_day = 8 <= hour < 18
        is_night = not 6 <= hour < 22
        if not {"8-18": is_day, "22-6": is_night}[policy.hours]:
            self.faults.append(f"c{client} was used at {hour:g}, outside of the hours {policy.hours}")


def random_policy(rng: random.Random) -> Policy:
    """Draw a policy with at least one limit."""
    options: dict[str, object] = {}
    if rng.random() < 0.5:
        options["separation"] = rng.choice(SPANS)
    if rng.random() < 0.5:
        options |= {"participations": rng.randint(1, 4), "window": rng.choice(SPANS)}
    if rng.random() < 0.3:
        options |= {"megabytes": rng.choice((0.01, 0.05, 0.2)), "window": rng.choice(SPANS)}
    if rng.random() < 0.2:
        options["lifetime"] = rng.randint(1, 20)
    if options and rng.random() < 0.4:
        options["per"] = rng.choice(("owner", "tag"))
    if rng.random() < 0.2:
        options["hours"] = rng.choice(HOURS)
        options["local_hours"] = rng.random() < 0.5
    for name, value in (("examples", 10), ("battery", 0.3), ("charging", True), ("idle", True)):
        if rng.random() < 0.1:
            options[name] = value
    if not options:
        options["lifetime"] = 3
    if rng.random() < 0.2:
        options["only"] = ("c1", rng.choice(TAGS))
    return Policy(**options)  # type: ignore[arg-type]


def play(seed: int, rounds: int = ROUNDS, folder: Path | None = None) -> list[str]:
    """Play one world; what is wrong with it."""
    rng = random.Random(seed)
    world = World(rng, n_clients=rng.randint(2, 8), parameters=rng.choice((100, 1000, 5000)))
    policies = [random_policy(rng) for _ in range(rng.randint(1, 3))]
    path = None if folder is None else folder / f"{seed}.sqlite"
    names = ["first"] if path is None else ["first", "second"]
    jobs = [Job(name, world, policies, path) for name in names]
    played = 0
    while played < rounds:
        for step in (Job.admit, Job.ask, Job.choose):  # both jobs are admitted before one of them claims
            for job in rng.sample(jobs, len(jobs)):
                if step is not Job.ask or rng.random() < 0.3:
                    step(job)
        for job in jobs:
            played += 1
            if rng.random() < 0.1:
                job.restart()  # and the same round is played again
            else:
                job.round += 1
        world.clock += rng.choice((0.0, 0.5, 10.0, 60.0, 3600.0, 40000.0, -30.0))
    for job in jobs:
        job.close()
    return violations(policies, world.uses) + [fault for job in jobs for fault in job.faults]


def run(rounds: int, first: int = 0) -> int:
    """Play worlds until so many rounds are played; 0 if no policy was violated."""
    began = time.monotonic()
    ledger.RETENTION = 0.0  # worlds last a few days: whatever no rule needs is pruned at every claim
    ledger.PRUNING_PAUSE = 0.0
    home = Path(tempfile.mkdtemp(prefix="policies-"))
    faulty = 0
    worlds = -(-rounds // ROUNDS)
    shared = round(1 / SHARED)
    for seed in range(first, first + worlds):
        faults = play(seed, folder=home if seed % shared == 0 else None)
        if faults:
            faulty += 1
            print(f"world {seed}: {faults[0]} ({len(faults)} in all)", flush=True)
    shutil.rmtree(home)
    seconds = time.monotonic() - began
    print(f"{worlds * ROUNDS:,} rounds of {worlds:,} worlds in {seconds:.0f} s, {faulty} with a violation", flush=True)
    return 1 if faulty else 0
