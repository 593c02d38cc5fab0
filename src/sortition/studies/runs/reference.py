"""Reference lines: what the same model reaches without a federation. No method is at work, and no client is selected.

``centralised``: all training data in one place, as many steps a round as a cohort takes in the mean. ``local-only``: as
many clients as a cohort has, drawn once by the seed; each trains alone, and their test figures are averaged. A
reference run that was stopped begins anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from sortition.core.arrays import Array
from sortition.core.round_record import RoundRecord
from sortition.core.streams import stream
from sortition.results.reference_lines import CENTRALISED, LOCAL_ONLY
from sortition.simulation import Setup, World
from sortition.simulation.world import is_evaluation_due
from sortition.studies.config import RunConfig


class Reference(ABC):
    """A model, or several, that train outside a federation.

    Attributes:
        world: data, initial model and evaluator.
        config: the run's configuration.
        examples: examples of the round in progress.
        steps: local steps of the round in progress.
    """

    def __init__(self, world: World, config: RunConfig) -> None:
        self.world = world
        self.config = config
        self.examples = 0
        self.steps = 0

    @abstractmethod
    def train(self, t: int) -> float:
        """Train one round, and return the mean loss of its batches."""

    @abstractmethod
    def score(self) -> dict[str, float]:
        """Return the test figures."""

    @abstractmethod
    def client_scores(self) -> Array | None:
        """Return accuracy, or the task's metric, at every client, (N,); None where no model serves all."""

    def play(self, t: int) -> RoundRecord:
        """Train, evaluate and record round t."""
        self.examples = 0
        self.steps = 0
        loss = self.train(t)
        is_last = t + 1 == self.config.most_rounds
        is_evaluated = is_evaluation_due(t, self.config.evaluate_every, is_last=is_last)
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
            "test": self.score() if is_evaluated else None,
        }


class Centralised(Reference):
    """One model on the training data of all clients."""

    def __init__(self, world: World, config: RunConfig) -> None:
        super().__init__(world, config)
        self.params = world.initial
        self.rows = np.concatenate([world.training_parts.of(client) for client in range(world.n_clients)])
        steps_of_clients = [config.local.steps_of(int(size)) for size in world.training_parts.sizes]
        steps_of_cohort = float(np.mean(steps_of_clients) * config.cohort)
        self.rule = replace(config.local, steps=max(1, round(steps_of_cohort)), epochs=None)
        self.states: Array | None = None

    def train(self, t: int) -> float:
        """Take as many steps as a cohort takes in the mean."""
        trained = self.world.learner.train(
            self.params,
            [self.rows],
            np.array([0]),
            seed=self.config.seed,
            t=t,
            purpose="centralised",
            rule=self.rule,
            states=self.states,
        )
        self.params = self.params + trained.deltas[0]
        self.states = trained.states
        self.examples = int(trained.examples[0])
        self.steps = int(trained.steps[0])
        return float(trained.losses[0])

    def score(self) -> dict[str, float]:
        """Test the one model."""
        return self.world.evaluator.score(self.params)

    def client_scores(self) -> Array | None:
        """Test the one model."""
        return self.world.evaluator.client_scores(self.params)


class LocalOnly(Reference):
    """Clients that train alone, from the same initial model."""

    def __init__(self, world: World, config: RunConfig) -> None:
        super().__init__(world, config)
        n_clients = min(config.cohort, world.n_clients)
        clients = stream(config.seed, "local-only").choice(world.n_clients, n_clients, replace=False)
        self.models = {int(client): world.initial for client in np.sort(clients)}

    def train(self, t: int) -> float:
        """Train every client's own model on its own data."""
        losses = []
        for client, params in self.models.items():
            trained = self.world.train(params, np.array([client]), (), t)
            self.models[client] = params + trained.deltas[0]
            if trained.states is not None and self.world.states is not None:
                states = self.world.states.after(trained.ids, trained.states)
                self.world = self.world.beginning(clock=0.0, states=states)
            losses.append(float(trained.losses[0]))
            size = int(self.world.training_parts.sizes[client])
            self.steps += self.config.local.steps_of(size)
            self.examples += self.config.local.examples_of(size)
        return float(np.mean(losses))

    def score(self) -> dict[str, float]:
        """Return the means over the clients' models."""
        scores = [self.world.evaluator.score(params) for params in self.models.values()]
        return {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}

    def client_scores(self) -> Array | None:
        """Return None: there is no model for all."""
        return None


def reference(config: RunConfig, setup: Setup) -> Reference | None:
    """Return the reference that a run plays; None for a method."""
    if config.method.name == CENTRALISED:
        return Centralised(setup.world, config)
    if config.method.name == LOCAL_ONLY:
        return LocalOnly(setup.world, config)
    return None
