"""How long a study will take, and what a round of a method costs: measured by playing a few rounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sortition.core.errors import bad
from sortition.core.selector import Selector
from sortition.core.streams import stream
from sortition.data import Dataset
from sortition.learning.rule import LocalRule
from sortition.studies.config import RunConfig

TIMED = 3  # rounds, after one that warms up


@dataclass(frozen=True)
class Estimate:
    """Seconds that one method needs in one setting: a round, and all its runs one after the other."""

    setting: str
    method: str
    runs: int
    rounds: int
    round: float

    @property
    def seconds(self) -> float:
        """All runs, on one core."""
        return self.runs * self.rounds * self.round


def estimates(runs: Sequence[RunConfig]) -> list[Estimate]:
    """Time the first rounds of every method in every setting; later rounds of some methods cost more."""
    groups: dict[tuple[str, str], list[RunConfig]] = {}
    for one in runs:
        groups.setdefault((one.setting, one.method.label), []).append(one)
    found = []
    for (setting, label), members in groups.items():
        found.append(Estimate(setting, label, len(members), members[0].rounds, timed(members[0])))
    return found


def timed(config: RunConfig) -> float:
    """Seconds of one round, as a run would play it."""
    from sortition.simulation import start
    from sortition.studies import federation
    from sortition.studies.runs.task import in_one_thread

    setup = federation.setup(config)[1]
    with in_one_thread():
        simulation = start(setup)
        simulation.play_round()
        begun = time.perf_counter()
        for _ in range(TIMED):
            simulation.play_round()
        return (time.perf_counter() - begun) / TIMED


def price(
    selector: Selector[Any],
    model: str,
    options: dict[str, Any],
    *,
    inputs: tuple[int, ...] = (1, 28, 28),
    classes: int = 10,
    clients: int = 100,
    cohort: int = 10,
    rounds: int = 30,
) -> tuple[int, dict[str, float]]:
    """The model's size and the mean bytes a round, by kind: played on made-up examples, everybody available."""
    from sortition.learning import build
    from sortition.simulation import Setup, World, run

    if cohort > clients:
        raise bad("cohort", f"at most the number of clients, {clients}", cohort)
    rng = stream(0, "made-up examples")
    n = 4 * clients
    x, y = (
        rng.random((n + clients + classes, prod(inputs)), np.float32).reshape(-1, *inputs),
        rng.integers(0, classes, n + clients + classes),
    )
    data = Dataset("made up", x[:-classes], y[:-classes], x[-classes:], y[-classes:], classes, digest="none")
    world = World(
        data,
        np.split(np.arange(n), clients),
        build(model, inputs, classes, **options),
        LocalRule(lr=0.01, steps=1, batch=2),
        validation=np.arange(n, n + clients),
    )
    features = {"features": rng.random((clients, 8)), "groups": np.arange(clients) % 5}
    setup = Setup(world, selector, cohort, rounds, population=world.population(**features), evaluate_every=0)
    totals = run(setup).totals
    return int(world.initial.size), {k: v / rounds for k, v in totals.items() if k not in ("passes", "steps")}
