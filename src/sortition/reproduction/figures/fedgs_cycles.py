"""FedGS where everybody is available (IDL of Table 2): its cohorts repeat, and the loss depends on which they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sortition.core import Cohort, Needs, Round, Selector, State, method, stream
from sortition.core.arrays import Floats, Ids
from sortition.reproduction import preset as presets
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.selectors import load
from sortition.simulation import Setup, start
from sortition.studies.build_federation import setup
from sortition.studies.config import RunConfig

Members = tuple[int, ...]  # of a cohort, by id


@method
class FixedCycle(Selector[State]):
    """Plays the same cohorts over and over, weighted by size."""

    cohorts: tuple[Members, ...] = ()

    @property
    def needs(self) -> Needs:
        """Read the data sizes."""
        return Needs(reads=("sizes",))

    def select(self, state: State, round: Round) -> Cohort:
        """Choose the cohort whose turn it is."""
        members = self.cohorts[round.index % len(self.cohorts)]
        return Cohort.by_size(np.array(members), round.population.sizes)


def repeated_cohorts(
    context: Context,
    *,
    of: str,
    setting: str,
    methods: list[str],
    sigma2: list[float],
    cycles: int = 30,
    seeds: int = 3,
) -> str:
    """Tabulate the cohorts and losses of FedGS for each α, with other edge lengths, and of cycles drawn at random."""
    n_seeds = context.seeds or seeds
    columns = ["cohorts", "runs", "different cohorts in a run", "best loss, least", "mean", "largest"]
    table = Table(f"{setting}: best test loss, and which cohorts repeat", columns)
    runs = [run for run in presets.load_preset(of).plan().runs if run.setting == setting]
    configs_by_label = {label: [run for run in runs if run.method.label == label][:n_seeds] for label in methods}
    first = configs_by_label[methods[0]][0]
    n_rounds = context.rounds or first.most_rounds
    for label, configs in configs_by_label.items():
        context.say(f"{label}: {len(configs)} seeds")
        table.rows.append(_row_of_seeds(label, configs, n_rounds))
    _, federation = setup(first)
    for label, configs in configs_by_label.items():
        context.say(f"{label}: {len(sigma2)} other edge lengths")
        method_config = configs[0].method
        variants = [load(method_config.name, **{**method_config.options, "sigma2": value}) for value in sigma2]
        plays = [play_run(replace(federation, selector=variant), n_rounds) for variant in variants]
        table.rows.append(_cohorts_row(f"{label}, σ² from {min(sigma2):g} to {max(sigma2):g}", plays))
    context.say(f"{cycles} cycles drawn at random")
    table.rows.append(_row_of_random_cycles(federation, cycles, n_rounds))
    table.notes.append(
        f"{n_rounds} rounds, everybody available. The rows after the methods' own are of seed {first.seed} and differ "
        "in their cohorts alone. σ² is the scale of edge lengths (released: 0.1); a small change gives the solver "
        "another optimum."
    )
    return table.markdown()


def _row_of_seeds(label: str, configs: list[RunConfig], rounds: int) -> list[str]:
    """Play a method with several seeds; return its row, which says whether all have the same cohorts."""
    plays = [play_run(setup(config)[1], rounds) for config in configs]
    different_runs = {tuple(cohorts) for cohorts, _ in plays}
    if len(different_runs) == 1:
        return _cohorts_row(f"{label}, the same in every seed", plays)
    return _cohorts_row(f"{label}, by seed", plays)


def _row_of_random_cycles(federation: Setup, count: int, rounds: int) -> list[str]:
    """Play partitions of all clients that are drawn at random and repeated; return their row."""
    rng = stream(0, "cycles")
    orders = [rng.permutation(federation.world.n_clients) for _ in range(count)]
    selectors = [FixedCycle(cohorts=random_cycle(order, federation.cohort)) for order in orders]
    plays = [play_run(replace(federation, selector=selector), rounds) for selector in selectors]
    return _cohorts_row("a partition drawn at random, repeated", plays)


def play_run(federation: Setup, rounds: int) -> tuple[list[Members], float]:
    """Play a run; return its cohorts and its best test loss."""
    simulation = start(federation)
    cohorts = []
    losses = []
    for _ in range(rounds):
        record = simulation.play_round()
        cohorts.append(tuple(sorted(record["cohort"] or ())))
        loss = (record["test"] or {}).get("loss")
        if loss is not None:
            losses.append(loss)
    return cohorts, min(losses)


def random_cycle(order: Ids, size: int) -> tuple[Members, ...]:
    """Cut an order of all clients into cohorts of one size; those left over at the end join none."""
    n_members = len(order) // size * size
    cohorts = order[:n_members].reshape(-1, size)
    return tuple(tuple(sorted(members)) for members in cohorts.tolist())


def _cohorts_row(name: str, plays: list[tuple[list[Members], float]]) -> list[str]:
    """Return a row of the table: how many cohorts there were in a run, and the spread of the losses."""
    numbers = [len(set(cohorts)) for cohorts, _ in plays]
    losses: Floats = np.array([loss for _, loss in plays])
    spread = f"{min(numbers)}"
    if min(numbers) != max(numbers):
        spread = f"{min(numbers)} to {max(numbers)}"
    extremes = [losses.min(), losses.mean(), losses.max()]
    return [name, str(len(plays)), spread, *[f"{loss:.3f}" for loss in extremes]]
