"""What is played: world, selector, availability, pace, faults, guards and policies, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sortition.aggregation import CombineRule, StepRule
from sortition.core.arrays import Array
from sortition.core.cost import MOST_ROUNDS, Until
from sortition.core.errors import InputError, bad
from sortition.core.guards.settings import Guards
from sortition.core.policy import Policy
from sortition.core.population import Population
from sortition.core.selector import Conditions, Selector, resolve_for
from sortition.core.signals import ACCURACY, PRODUCTS, ModelSize
from sortition.core.validation import is_whole
from sortition.federation.pace import CohortPace, Pace, Quantile
from sortition.learning import LocalRule
from sortition.simulation.batteries import FACTS, Habits
from sortition.simulation.faults import FaultDraws, Faults
from sortition.simulation.world import World


class Reachability(Protocol):
    """Says which clients are reachable in a round, as the modes of :mod:`sortition.availability` do."""

    def at(self, t: int) -> Array:
        """Return a mask (N,) of the clients that can be reached in round t."""
        ...


@dataclass(frozen=True)
class Setup:
    """Holds everything that a simulation is made of.

    Attributes:
        world: the clients, with local rule and devices.
        selector: the method.
        cohort: clients per round; a pace may over-select.
        horizon: rounds in all: versions of the model; None where only the cost ends a run.
        population: what the server knows of its clients; default: the world's sizes and label counts.
        availability: who is reachable when; default: everybody, always.
        combine: how the cohort's updates become one.
        step: how that update becomes the next model.
        evaluate_every: rounds between evaluations on the test set; 0: never. The last round is always evaluated.
        clients_every: rounds between evaluations of every client; 0: never.
        seed: the seed of the selector's draws; the world and the availability have theirs.
        faults: simulated failures; default: none.
        guards: how far clients are trusted.
        shadows: methods that choose beside the live one and send nothing, by label.
        pace: how many are chosen at a time, and when a step is made.
        policies: how often and when devices may be used; all hold together.
        habits: how devices are used, for policies on batteries, charging, idle devices and local hours.
        until: the cost at which a run ends; the step that reaches it is the last one.
    """

    world: World
    selector: Selector[Any]
    cohort: int
    horizon: int | None
    population: Population = None  # type: ignore[assignment]  # filled below
    availability: Reachability | None = None
    combine: CombineRule = field(default_factory=CombineRule)
    step: StepRule = field(default_factory=StepRule)
    evaluate_every: int = 1
    clients_every: int = 0
    seed: int = 0
    faults: FaultDraws = None  # type: ignore[assignment]  # filled below
    guards: Guards = field(default_factory=Guards)
    shadows: Mapping[str, Selector[Any]] = field(default_factory=dict)
    pace: Pace = Pace()
    policies: tuple[Policy, ...] = ()
    habits: Habits = Habits()
    until: Until | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("cohort", 1), ("horizon", 1), ("evaluate_every", 0), ("clients_every", 0)):
            value = getattr(self, name)
            if name == "horizon" and value is None and self.until is not None:
                continue
            if not is_whole(value, minimum):
                raise bad(f"Setup.{name}", f"a whole number ≥ {minimum}", value)
            object.__setattr__(self, name, int(value))
        if self.population is None:
            object.__setattr__(self, "population", self.world.population())
        if self.population.n_clients != self.world.n_clients:
            requirement = f"of the world's {self.world.n_clients} clients"
            raise bad("Setup.population", requirement, self.population.n_clients)
        object.__setattr__(self, "selector", resolve_for(self.selector, self.population))
        self._check_labels()
        self._check_server_data()
        if self.faults is None:
            object.__setattr__(self, "faults", FaultDraws(Faults(), self.world.n_clients, self.world.seed))
        self._check_pace()
        for policy in self.policies:
            self._check_policy(policy)

    def _check_server_data(self) -> None:
        """Refuse a method whose signals the server computes itself where it has no examples."""
        signals = self.selector.needs.of_server
        if signals and self.world.validation is None:
            requirement = f"given where the server computes {signals[0].name!r} itself"
            raise bad("World.validation", requirement, None, "Pass World(validation=…), or data.validation in a study.")

    def _check_pace(self) -> None:
        """Refuse a pace that does not fit, and whatever cannot be served under it, by name."""
        self.cohort_pace.check("Setup", self.guards.minimum)
        self.pace.check_selector(self.selector)
        if not self.pace.overlaps:
            return
        self.cohort_pace.check_memory(self.world.initial.size)
        for name in ("crash", "duplicated", "stale"):
            if getattr(self.faults.faults, name):
                hint = "They are faults of rounds that do not overlap."
                raise bad(f"Faults.{name}", "0 under this pace", getattr(self.faults.faults, name), hint)
        if self.combine.remembers and self.combine.remember == "rate" and _changes_rate(self.world.rule):
            hint = "Use remember = 'raw', or a learning rate that stays."
            requirement = "'raw' where updates of several learning rates meet in a step"
            raise bad("CombineRule.remember", requirement, self.combine.remember, hint)

    def check_deadline(self) -> None:
        """Refuse a deadline that no client can meet, before anything runs."""
        deadline = self.cohort_pace.deadline
        if deadline == math.inf or self.world.fleet.devices.jitter:  # with jitter anybody can be fast for once
            return
        fastest = float(self.world.costs.quiet_seconds.min())
        if deadline < fastest:
            requirement = f"at least {fastest:.4g} s, in which the fastest client trains and sends"
            raise bad("pace.deadline", requirement, deadline, "Nobody would ever answer.")

    def _check_policy(self, policy: Policy) -> None:
        """Refuse a policy on what simulated clients do not have."""
        facts = self.population.facts
        for fact in policy.facts:
            if fact not in facts and fact not in FACTS:
                hint = "Give it as a fact of the population, or leave the rule to real devices."
                raise bad("policy", f"on facts that clients have ({', '.join((*facts, *FACTS))})", fact, hint)
        if policy.per == "tag":
            raise bad("Policy.per", "'client' or 'owner' in a simulation", "tag", "Simulated clients have no tags.")
        if policy.per == "owner" and "groups" not in facts:
            hint = "Give owners = 5 in a study, or Population(groups=…)."
            raise bad("Policy.per", "'client' where owners are unknown", "owner", hint)

    def _check_labels(self) -> None:
        """Refuse a method that needs labels in a task that has none, before anything runs."""
        needs = self.selector.needs
        missing_facts = [name for name in needs.reads if name == "label_counts" and name not in self.population.facts]
        for signal in (*needs.asks, *needs.reports):
            lacks_counts = signal == PRODUCTS and not self.world.has_label_counts
            lacks_labels = signal == ACCURACY and not self.world.classes
            if lacks_counts or lacks_labels:
                missing_facts.append(signal.name)
        if missing_facts and not self.world.classes:
            name = type(self.selector).__name__
            requirement = f"run on labels (classification only), since it needs {missing_facts[0]}"
            hint = "Methods that need none: 'auto' (it falls back to sketches of updates), 'uniform', 'oort', 'divfl'."
            raise bad(name, requirement, self.world.targets, hint)

    @property
    def cohort_pace(self) -> CohortPace:
        """Return the pace for cohorts of this size."""
        return CohortPace(self.cohort, self.pace)

    @property
    def most_rounds(self) -> int:
        """Return how many rounds are played at most, whatever they cost."""
        return MOST_ROUNDS if self.horizon is None else self.horizon

    @property
    def conditions(self) -> Conditions:
        """Return what a method may remark on: the deadline, its kind, and whether devices differ."""
        deadline = self.cohort_pace.deadline
        return Conditions(
            deadline=None if deadline == math.inf else deadline,
            deadline_follows=isinstance(self.pace.deadline, Quantile),
            devices_differ=self.world.fleet.devices_differ,
        )

    def world_at(self, t: int) -> World:
        """Return the world of round t, where ids may have been taken by clients with other data."""
        owners = self.faults.owners(t)
        if owners is None:
            return self.world
        return self.world.variant(owners=owners)

    def reachable(self, t: int, clock: float) -> Array:
        """Return a mask (N,) of the clients that can be reached in round t, which begins at this second."""
        mask = self._availability_mask(t, clock)
        present = self.faults.present(t)
        if present is not None:
            mask = mask & present
        if self.world.adversaries is not None:
            away_mask = self.world.adversaries.away(t)
            if away_mask is not None:
                mask = mask & ~away_mask
        return mask

    def _availability_mask(self, t: int, clock: float) -> Array:
        """Return a mask (N,) of the clients that are available, by rounds, or by slots of the clock."""
        n_clients = self.world.n_clients
        if self.availability is None:
            return np.ones(n_clients, bool)
        slot = t
        if self.pace.slot is not None:
            slot = int(clock // self.pace.slot)
        mask = np.asarray(self.availability.at(slot))
        if mask.dtype != np.bool_ or mask.shape != (n_clients,):
            raise bad("availability.at(t)", f"a mask of {n_clients} clients", f"{mask.dtype} of {mask.shape}")
        return mask

    def known(self, t: int) -> Population:
        """Return what the server knows in round t: the facts of those who have joined or took an id over."""
        population = self.population
        n_clients = self.faults.size(t)
        owners = self.faults.owners(t)
        if owners is None and n_clients == population.n_clients:
            return population
        rows = np.arange(n_clients) if owners is None else owners[:n_clients]
        facts = {name: getattr(population, name)[rows] for name in population.facts}
        known_ids = np.flatnonzero(np.isin(rows, population.known_ids))
        return Population(**facts, known_ids=known_ids, n_clients=n_clients)


def _changes_rate(rule: LocalRule) -> bool:
    """Say whether the clients' learning rate changes over the rounds."""
    return rule.decay != 1.0 or bool(rule.milestones)


def model_size(world: World) -> ModelSize:
    """Return how long the vectors are that belong to the world's model."""
    n_outputs = world.outputs
    try:
        weight, _ = world.learner.layout.head(n_outputs)
    except InputError:  # it does not end in a layer with an output per class
        return ModelSize(parameters=world.initial.size)
    head_size = weight.stop - weight.start + n_outputs
    return ModelSize(parameters=world.initial.size, classes=n_outputs, head=head_size, outputs=n_outputs)
