"""What is played, and what one round hands to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sortition.core.arrays import Array, Floats, frozen
from sortition.core.errors import bad
from sortition.core.guards import Guards
from sortition.core.questions import Measure, Reading
from sortition.core.registrar import Registrar
from sortition.core.rounds import Population
from sortition.core.selector import Selector
from sortition.learning.server import ServerRule, State
from sortition.learning.vector import Vector
from sortition.simulation.ledger import LANES
from sortition.simulation.world import Outcome, World


class Availability(Protocol):
    """Who is reachable when."""

    def at(self, t: int) -> Array:
        """Mask (N,) of the clients that can be reached in round t."""
        ...


class Faults(Protocol):
    """Distorts what clients send: for tests of a selection under faults."""

    def answers(self, t: int, question: Measure, reading: Reading) -> Reading:
        """What arrives of an answer."""
        ...

    def outcome(self, t: int, outcome: Outcome) -> Outcome:
        """What arrives of a cohort's training."""
        ...


@dataclass(frozen=True)
class Setup:
    """What is played.

    Attributes:
        world: the backend, with local rule and devices.
        selector: the method.
        cohort: clients per round; devices may over-select.
        horizon: rounds in all.
        population: what the server knows of its clients; default: the world's sizes and label counts.
        availability: default: everybody, always.
        server: how an aggregated update becomes the next model.
        evaluate_every: rounds between evaluations on the test set; 0: never. The last round is always evaluated.
        clients_every: rounds between evaluations of every client; 0: never.
        seed: of the selector's draws; the world and the availability have theirs.
        faults: distorts what arrives.
        guards: how far clients are trusted.
    """

    world: World
    selector: Selector[Any]
    cohort: int
    horizon: int
    population: Population | None = None
    availability: Availability | None = None
    server: ServerRule = field(default_factory=ServerRule)
    evaluate_every: int = 1
    clients_every: int = 0
    seed: int = 0
    faults: Faults | None = None
    guards: Guards = field(default_factory=Guards)

    def __post_init__(self) -> None:
        for name, least in (("cohort", 1), ("horizon", 1), ("evaluate_every", 0), ("clients_every", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise bad(f"Setup.{name}", f"a whole number ≥ {least}", value)
        if self.population is None:
            object.__setattr__(self, "population", self.world.population())

    def due(self, t: int, every: int) -> bool:
        """Whether round t is evaluated."""
        return every > 0 and ((t + 1) % every == 0 or t + 1 == self.horizon)


@dataclass(frozen=True)
class Carry:
    """What one round hands to the next."""

    params: Vector
    server: State
    registrar: Registrar
    clock: float = 0.0
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*LANES, "passes", "steps"), 0))
    test: dict[str, float] | None = None  # of these params, where known
    accuracies: Floats | None = None  # (N,) of the last evaluation of every client
    timings: dict[str, float] = field(default_factory=dict)


def start(setup: Setup) -> Carry:
    """The carry before the first round."""
    population = setup.population or setup.world.population()
    if population.n_clients != setup.world.n_clients:
        raise bad("Setup.population", f"of the world's {setup.world.n_clients} clients", population.n_clients)
    registrar = Registrar(setup.selector, population, horizon=setup.horizon, seed=setup.seed, guards=setup.guards)
    return Carry(sealed(setup.world.initial), setup.server.init(setup.world.initial.size), registrar)


def sealed(params: Vector) -> Vector:
    """The same model, read-only."""
    return frozen(np.ascontiguousarray(params, np.float32))
