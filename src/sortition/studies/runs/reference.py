"""Reference lines: what the same model reaches without a federation. No method is at work, and no client is selected.

``centralised``: all training data in one place, as many steps a round as a cohort takes in the mean. ``local-only``: as
many clients as a cohort has, drawn once by the seed; each trains alone, and their test figures are averaged. A
reference run that was stopped begins anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sortition.core.arrays import Array
from sortition.core.record import RoundRecord
from sortition.core.streams import stream
from sortition.simulation import Setup, World
from sortition.studies.config import RunConfig


class Reference(ABC):
    """A model, or several, that train outside a federation."""

    def __init__(self, world: World, config: RunConfig) -> None:
        self.world, self.config = world, config
        self.examples = self.steps = 0

    @abstractmethod
    def train(self, t: int) -> float:
        """One round of training; the mean loss of its batches."""

    @abstractmethod
    def score(self) -> dict[str, float]:
        """Test figures."""

    @abstractmethod
    def client_accuracies(self) -> Array | None:
        """(N,) accuracy at every client, where one model serves all."""

    def play(self, t: int) -> RoundRecord:
        """Train, evaluate and record round t."""
        self.examples = self.steps = 0
        loss = self.train(t)
        last = t + 1 == self.config.rounds
        evaluated = last or (t + 1) % self.config.evaluate_every == 0
        return {
            "round": t,
            "available": self.world.n_clients,
            "cohort": [],
            "weights": [],
            "answered": None,
            "skipped": False,
            "full": False,
            "questions": [],
            "bytes": {},
            "passes": {"training": self.examples, "forward": 0, "wasted": 0},
            "steps": self.steps,
            "clock": 0.0,
            "train_loss": loss,
            "test": self.score() if evaluated else None,
        }


class Centralised(Reference):
    """One model on the training data of all clients."""

    def __init__(self, world: World, config: RunConfig) -> None:
        super().__init__(world, config)
        self.params = world.initial
        self.members = np.concatenate([world.holdings.of(k) for k in range(world.n_clients)])
        steps = np.mean([config.local.steps_of(int(size)) for size in world.holdings.sizes]) * config.cohort
        self.rule = replace(config.local, steps=max(1, round(float(steps))), epochs=None)
        self.states: Array | None = None

    def train(self, t: int) -> float:
        """As many steps as a cohort takes in the mean."""
        trained = self.world.learner.train(
            self.params,
            [self.members],
            np.array([0]),
            seed=self.config.seed,
            t=t,
            purpose="centralised",
            rule=self.rule,
            states=self.states,
        )
        self.params, self.states = self.params + trained.deltas[0], trained.states
        self.examples, self.steps = int(trained.examples[0]), int(trained.steps[0])
        return float(trained.losses[0])

    def score(self) -> dict[str, float]:
        """Of the one model."""
        return self.world.evaluator.score(self.params)

    def client_accuracies(self) -> Array | None:
        """Of the one model."""
        return self.world.evaluator.client_accuracies(self.params)


class LocalOnly(Reference):
    """Clients that train alone, from the same initial model."""

    def __init__(self, world: World, config: RunConfig) -> None:
        super().__init__(world, config)
        alone = min(config.cohort, world.n_clients)
        drawn = stream(config.seed, "local-only").choice(world.n_clients, alone, replace=False)
        self.models = {int(client): world.initial for client in np.sort(drawn)}

    def train(self, t: int) -> float:
        """Every client by its own model and data."""
        losses = []
        for client, params in self.models.items():
            trained = self.world.train(params, np.array([client]), (), t)
            self.models[client] = params + trained.deltas[0]
            if trained.states is not None and self.world.states is not None:
                self.world = self.world.remembering(self.world.states.after(trained.ids, trained.states))
            losses.append(float(trained.losses[0]))
            rule, size = self.config.local, int(self.world.holdings.sizes[client])
            self.steps += rule.steps_of(size)
            self.examples += rule.examples_of(size)
        return float(np.mean(losses))

    def score(self) -> dict[str, float]:
        """The mean over the clients' models."""
        scores = [self.world.evaluator.score(params) for params in self.models.values()]
        return {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}

    def client_accuracies(self) -> Array | None:
        """There is no model for all."""
        return None


KINDS: dict[str, Callable[[World, RunConfig], Reference]] = {"centralised": Centralised, "local-only": LocalOnly}


def reference(config: RunConfig, setup: Setup) -> Reference | None:
    """The reference that a run plays; None for a method."""
    return KINDS[config.method.name](setup.world, config) if config.method.name in KINDS else None
