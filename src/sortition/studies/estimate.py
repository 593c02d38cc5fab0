"""How long a study will take, and what a round of a method costs: measured by playing a few rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from sortition.core.cost import Currency
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.data import Dataset
from sortition.learning.rule import LocalRule
from sortition.studies.config import RunConfig
from sortition.studies.types import AnySelector, ReadOnlyTable

TIMED_ROUNDS = 3  # after one that warms up
EXAMPLES_PER_CLIENT = 4  # of the made-up data
NOT_TRAFFIC = ("passes", "steps")  # what totals hold beside bytes


@dataclass(frozen=True)
class Estimate:
    """How long one method needs in one setting.

    Attributes:
        setting: the setting's name.
        method: the method's label.
        runs: how many runs there are.
        rounds: how many rounds each run has; where its cost ends it, as the first rounds suggest.
        seconds_per_round: measured seconds of one round.
    """

    setting: str
    method: str
    runs: int
    rounds: int
    seconds_per_round: float

    @property
    def seconds(self) -> float:
        """Return the seconds of all runs, one after the other on one core."""
        return self.runs * self.rounds * self.seconds_per_round


def estimate_runs(runs: Sequence[RunConfig]) -> list[Estimate]:
    """Time the first rounds of every method in every setting; later rounds of some methods cost more."""
    groups: dict[tuple[str, str], list[RunConfig]] = {}
    for run in runs:
        groups.setdefault((run.setting, run.method.label), []).append(run)
    return [_estimate(setting, label, members) for (setting, label), members in groups.items()]


def _estimate(setting: str, method: str, runs: Sequence[RunConfig]) -> Estimate:
    """Time the first run of a method in a setting."""
    config = runs[0]
    rounds = config.most_rounds
    seconds_per_round, costs_per_round = time_round(config)
    if config.until is not None and costs_per_round[config.until.currency] > 0:
        rounds = min(rounds, math.ceil(config.until.limit / costs_per_round[config.until.currency]))
    return Estimate(setting=setting, method=method, runs=len(runs), rounds=rounds, seconds_per_round=seconds_per_round)


def time_round(config: RunConfig) -> tuple[float, dict[Currency, float]]:
    """Return wall-clock seconds of one round, as a run would play it, and what it costs by currency."""
    from sortition.simulation import start
    from sortition.simulation.simulation import costs_so_far
    from sortition.studies import build_federation
    from sortition.studies.runs.run_task import in_one_thread

    setup = build_federation.setup(config)[1]
    with in_one_thread():
        simulation = start(setup)
        simulation.play_round()
        started = time.perf_counter()
        for _ in range(TIMED_ROUNDS):
            simulation.play_round()
        seconds = (time.perf_counter() - started) / TIMED_ROUNDS
    costs = costs_so_far(simulation.played, simulation.clock, simulation.totals)
    return seconds, {currency: cost / simulation.played for currency, cost in costs.items()}


def measure_traffic(
    selector: AnySelector,
    model: str,
    options: ReadOnlyTable,
    *,
    inputs: tuple[int, ...] = (1, 28, 28),
    classes: int = 10,
    clients: int = 100,
    cohort: int = 10,
    rounds: int = 30,
) -> tuple[int, dict[str, float]]:
    """Return the model's size and the mean bytes a round, by kind: played on made-up examples, everybody available."""
    from sortition.learning import build
    from sortition.simulation import Setup, World, run
    from sortition.studies.runs.run_task import in_one_thread

    if cohort > clients:
        raise bad("cohort", f"at most the number of clients, {clients}", cohort)
    rng = stream(0, "made-up examples")
    n_train = EXAMPLES_PER_CLIENT * clients
    n_validation = clients
    n_examples = n_train + n_validation + classes
    x = rng.random((n_examples, prod(inputs)), np.float32).reshape(-1, *inputs)
    y = rng.integers(0, classes, n_examples)
    dataset = Dataset(
        name="made up",
        x_train=x[:-classes],
        y_train=y[:-classes],
        x_test=x[-classes:],
        y_test=y[-classes:],
        classes=classes,
        digest="none",
    )
    world = World(
        dataset,
        np.split(np.arange(n_train), clients),
        build(model, inputs, classes, **options),
        LocalRule(lr=0.01, steps=1, batch=2),
        validation=np.arange(n_train, n_train + n_validation),
    )
    population = world.population(features=rng.random((clients, 8)), groups=np.arange(clients) % 5)
    setup = Setup(
        world=world,
        selector=selector,
        cohort=cohort,
        horizon=rounds,
        population=population,
        evaluate_every=0,
    )
    with in_one_thread():
        totals = run(setup).totals
    bytes_per_round = {kind: total / rounds for kind, total in totals.items() if kind not in NOT_TRAFFIC}
    return int(world.initial.size), bytes_per_round
