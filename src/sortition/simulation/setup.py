"""What is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sortition.aggregation import CombineRule, StepRule
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.guards.settings import Guards
from sortition.core.policy import Policy
from sortition.core.rounds import Population
from sortition.core.selector import Selector, resolved_for
from sortition.core.signals import ACCURACY, PRODUCTS, ModelSize
from sortition.core.validation import is_whole
from sortition.federation.pace import CohortPace, Pace
from sortition.learning import LocalRule
from sortition.simulation.faults import FaultDraws, Faults
from sortition.simulation.habits import FACTS, Habits
from sortition.simulation.local_states import LocalStates
from sortition.simulation.world import World


class Reachability(Protocol):
    """Who is reachable when; the modes of :mod:`sortition.availability` are such."""

    def at(self, t: int) -> Array:
        """Mask (N,) of the clients that can be reached in round t."""
        ...


@dataclass(frozen=True)
class Setup:
    """What is played.

    Attributes:
        world: the backend, with local rule and devices.
        selector: the method.
        cohort: clients per round; a pace may over-select.
        horizon: rounds in all: versions of the model.
        population: what the server knows of its clients; default: the world's sizes and label counts.
        availability: default: everybody, always.
        combine: how the cohort's updates become one.
        step: how that update becomes the next model.
        evaluate_every: rounds between evaluations on the test set; 0: never. The last round is always evaluated.
        clients_every: rounds between evaluations of every client; 0: never.
        seed: of the selector's draws; the world and the availability have theirs.
        faults: what goes wrong on the way; default: nothing.
        guards: how far clients are trusted.
        shadows: methods that choose beside the live one and send nothing, by label.
        pace: how many are chosen at a time, and when a step is made.
        policies: how often and when devices may be used; all hold together.
        habits: how devices are used, for policies on batteries, charging, idle devices and local hours.
    """

    world: World
    selector: Selector[Any]
    cohort: int
    horizon: int
    population: Population | None = None
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

    def __post_init__(self) -> None:
        for name, least in (("cohort", 1), ("horizon", 1), ("evaluate_every", 0), ("clients_every", 0)):
            value = getattr(self, name)
            if not is_whole(value, least):
                raise bad(f"Setup.{name}", f"a whole number ≥ {least}", value)
            object.__setattr__(self, name, int(value))
        if self.guards.minimum > self.cohort:
            raise bad("Guards.minimum", f"at most the cohort, {self.cohort}", self.guards.minimum)
        if self.population is None:
            object.__setattr__(self, "population", self.world.population())
        object.__setattr__(self, "selector", resolved_for(self.selector, self.population or self.world.population()))
        self._check_labels()
        if self.selector.needs.of_server and self.world.validation is None:
            name, hint = (
                self.selector.needs.of_server[0].name,
                "Pass World(validation=…), or data.validation in a study.",
            )
            raise bad("World.validation", f"given where the server computes {name!r} itself", None, hint)
        if self.faults is None:
            object.__setattr__(self, "faults", FaultDraws(Faults(), self.world.n_clients, self.world.seed))
        self._check_pace()
        for policy in self.policies:
            self._check_policy(policy)

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
            rule = "'raw' where updates of several learning rates meet in a step"
            raise bad("CombineRule.remember", rule, self.combine.remember, hint)

    def _check_policy(self, policy: Policy) -> None:
        """Refuse a policy on what simulated clients do not have."""
        facts = () if self.population is None else self.population.facts
        for fact in policy.facts:
            if fact not in facts and fact not in FACTS:
                hint = "Give it as a fact of the population, or leave the rule to real devices."
                raise bad("policy", f"on facts that clients have ({', '.join((*facts, *FACTS))})", fact, hint)
        if policy.per == "tag":
            raise bad("Policy.per", "'client' or 'owner' in a simulation", "tag", "Simulated clients have no tags.")
        if policy.per == "owner" and "groups" not in facts:
            raise bad("Policy.per", "'client' where owners are unknown", "owner", "Give Population(groups=…).")

    def _check_labels(self) -> None:
        """Refuse a method that needs labels in a task that has none, before anything runs."""
        needs = self.selector.needs
        wanted = [name for name in needs.reads if name == "label_counts" and name not in self._known_facts]
        for signal in (*needs.asks, *needs.reports):
            lacks_counts = signal == PRODUCTS and not self.world.has_label_counts
            lacks_labels = signal == ACCURACY and not self.world.classes
            if lacks_counts or lacks_labels:
                wanted.append(signal.name)
        if wanted and not self.world.classes:
            name = type(self.selector).__name__
            rule = f"run on labels (classification only), since it needs {wanted[0]}"
            hint = "Methods that need none: 'auto' (it falls back to sketches of updates), 'uniform', 'oort', 'divfl'."
            raise bad(name, rule, self.world.targets, hint)

    @property
    def _known_facts(self) -> tuple[str, ...]:
        return () if self.population is None else self.population.facts

    @property
    def cohort_pace(self) -> CohortPace:
        """The pace for cohorts of this size."""
        return CohortPace(self.cohort, self.pace)

    def due(self, t: int, every: int) -> bool:
        """Whether round t is evaluated."""
        return every > 0 and ((t + 1) % every == 0 or t + 1 == self.horizon)

    def at(self, t: int) -> Setup:
        """The same in round t, where ids may have been taken by clients with other data."""
        owners = self.faults.owners(t)
        return self if owners is None else replace(self, world=self.world.variant(owners=owners))

    def remembering(self, states: LocalStates | None) -> Setup:
        """The same in a round that begins with these states of the clients' optimisers."""
        return self if states is None else replace(self, world=self.world.remembering(states))

    def reachable(self, t: int, clock: float | None = None) -> Array:
        """Mask (N,) of the clients that can be reached in round t, which begins at this second."""
        n, present = self.world.n_clients, self.faults.present(t)
        slot = t if self.pace.slot is None or clock is None else int(clock // self.pace.slot)
        mask = np.ones(n, bool) if self.availability is None else np.asarray(self.availability.at(slot))
        if mask.dtype != np.bool_ or mask.shape != (n,):
            raise bad("availability.at(t)", f"a mask of {n} clients", f"{mask.dtype} of {mask.shape}")
        if present is not None:
            mask = mask & present
        adversaries = self.world.adversaries
        away = None if adversaries is None else adversaries.away(t)
        return mask if away is None else mask & ~away

    def known(self, t: int) -> Population:
        """What the server knows in round t: the facts of those who have joined, also of those who took an id over."""
        whole, n, owners = self.population or self.world.population(), self.faults.size(t), self.faults.owners(t)
        if owners is None and n == whole.n_clients:
            return whole
        rows = np.arange(n) if owners is None else owners[:n]
        facts = {name: getattr(whole, name)[rows] for name in whole.facts}
        return Population(**facts, known=np.flatnonzero(np.isin(rows, whole.known)), n_clients=n)


def _changes_rate(rule: LocalRule) -> bool:
    """Whether the clients' learning rate changes over the rounds."""
    return rule.decay != 1.0 or bool(rule.milestones)


def model_size(world: World) -> ModelSize:
    """How long the vectors are that belong to the world's model."""
    size, outputs = world.initial.size, world.outputs
    try:
        weight, _ = world.learner.layout.head(outputs)
    except InputError:  # it does not end in a layer with an output per class
        return ModelSize(size)
    return ModelSize(size, outputs, weight.stop - weight.start + outputs, outputs)
