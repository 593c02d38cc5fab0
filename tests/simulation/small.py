"""A federation of ten small clients, and a selector that asks for whatever a test wants."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sortition.core.cohort import Cohort
from sortition.core.questions import Measure
from sortition.core.selector import Needs, Selector
from sortition.core.state import State
from sortition.data import Dataset
from sortition.learning import LocalRule, build
from sortition.simulation import World

SIZES = (3, 20, 9, 14, 31, 8, 25, 11, 6, 17)
RULE = LocalRule(lr=0.1, epochs=2, batch=8)


def data(seed=0):
    rng = np.random.default_rng(seed)
    n = sum(SIZES)
    x, y = rng.normal(size=(n + 60, 6)).astype(np.float32), rng.integers(0, 4, n + 60)
    x[np.arange(n + 60), y] += 2
    return Dataset("small", x[:n], y[:n], x[n:], y[n:], 4)


def parts():
    return np.split(np.random.default_rng(1).permutation(sum(SIZES)), np.cumsum(SIZES)[:-1])


def world(rule=RULE, model=None, **options):
    split = options.pop("clients", None)
    net = model or build("mlp", (6,), 4, hidden=(5,), dropout=0.3)
    return World(data(), parts() if split is None else split, net, rule, **options)


@dataclass(frozen=True)
class Scripted(Selector[State]):
    """Asks ``questions`` (signal, ids, after) every round, chooses ``cohort``, and keeps all it is given."""

    cohort: tuple[int, ...] = (4, 1, 7)
    questions: tuple[Any, ...] = ()
    reported: tuple[Any, ...] = ()
    full: bool = False
    weights: tuple[float, ...] | None = None
    groups: tuple[int, ...] | None = None
    mass: str = "one"
    seen: ClassVar[list[Any]] = []

    @property
    def needs(self):
        return Needs(reads=("sizes", "label_counts"), asks=tuple(q[0] for q in self.questions), reports=self.reported)

    def select(self, state, round):
        self.seen.append(round)
        for signal, ids, after in self.questions:
            self.seen.append((yield Measure(signal, np.array(ids), after)))
        chosen = np.array([i for i in self.cohort if i in round.available], np.int64)
        weights = np.full(chosen.size, 1 / max(chosen.size, 1)) if self.weights is None else np.array(self.weights)
        groups = None if self.groups is None else np.array(self.groups)
        return Cohort(chosen, weights, groups, full=self.full, mass=self.mass)

    def observe(self, state, feedback):
        self.seen.append(feedback)
