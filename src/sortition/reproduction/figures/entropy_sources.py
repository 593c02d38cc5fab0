"""HiCS-FL's rule with other estimates of label entropy in its place: which of them keeps it from being misled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core import BIAS_UPDATE
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import unknown
from sortition.reproduction.context import Context
from sortition.reproduction.figures.heterogeneity import rank
from sortition.reproduction.theory.heterogeneity import label_entropy
from sortition.results.statistics import centre
from sortition.results.table import Table, mean_and_sd
from sortition.selectors.hics import Memory, entropy_estimate
from sortition.simulation import Setup, Simulation, start
from sortition.studies.federation import setup
from sortition.studies.plan import plan

PERCENT = 100
TOP = 5  # clients that were chosen most often
COLUMNS = ["Ĥ of the drawn", "H of the drawn", "rank correlation", "top five, % of places", "mean accuracy, %"]
Put = Callable[[Memory, Setup, Simulation, float], None]


@dataclass
class Trace:
    """What happened along one run, and how often each client was chosen."""

    chosen: Floats
    accuracy: list[float] = field(default_factory=list)  # a value an evaluation
    ranks: list[float] = field(default_factory=list)  # of the held estimates with the truth, a value a round
    estimated: list[float] = field(default_factory=list)  # Ĥ of those who were drawn by groups
    true: list[float] = field(default_factory=list)  # H of the same

    def figures(self) -> list[float | None]:
        """The means of a table's row; None where nothing was drawn by estimates."""
        means = [float(np.mean(values)) if values else None for values in (self.estimated, self.true, self.ranks)]
        share = PERCENT * np.sort(self.chosen)[-TOP:].sum() / self.chosen.sum()
        return [*means, float(share), PERCENT * float(np.mean(self.accuracy))]


def make(
    context: Context,
    *,
    study: dict[str, Any],
    settings: dict[str, list[float]],
    variants: list[dict[str, Any]],
    rounds: int,
    seeds: int,
) -> str:
    """A table for each setting: the rule as published, with each variant of λ or of the estimate, and without it."""
    rounds, seeds = context.rounds or rounds, context.seeds or seeds
    tables = []
    for setting, alphas in settings.items():
        table = Table(f"{setting}: the same rule, other estimates", ["variant", *COLUMNS])
        data = {**study["data"], "partition": {**study["data"]["partition"], "alphas": alphas}}
        for variant in variants:
            context.say(f"{setting}: {variant['label']}")
            traces = [traced({**study, "data": data}, variant, rounds, seed) for seed in range(seeds)]
            table.rows.append([variant["label"], *_cells(traces)])
        table.notes.append(
            f"{rounds} rounds, {seeds} seed(s). Ĥ and H: estimated and true label entropy of those who were drawn by "
            "groups, in nats; Ĥ is at most ln 10 = 2.30. Rank correlation: Spearman's, of the estimates that the rule "
            "chooses by with the truth, over all clients (0 where one of both does not vary). Both are means over "
            "rounds. Top five: the clients that were chosen most often."
        )
        tables.append(table.markdown())
    return "\n\n".join(tables)


def _cells(traces: list[Trace]) -> list[str]:
    """Means over seeds; a deviation beside the accuracy."""
    columns = list(zip(*(trace.figures() for trace in traces), strict=True))
    means = [[value for value in column if value is not None] for column in columns]
    digits = [2, 2, 2, 0]
    cells = [f"{np.mean(found):.{places}f}" if found else "" for found, places in zip(means, digits, strict=False)]
    return [*cells, mean_and_sd(centre(means[-1]), 1, total=len(means[-1]))]


def by_size(
    context: Context, *, study: dict[str, Any], settings: dict[str, list[float]], temperature: float, few: int
) -> str:
    """Ĥ of every client at the initial model, where no label was learnt: those with few examples and the others."""
    columns = ["setting", "examples", "clients", "H", "Ĥ at the initial model", "smallest – largest Ĥ"]
    table = Table("Who looks balanced before anybody took part", columns)
    for setting, alphas in settings.items():
        data = {**study["data"], "partition": {**study["data"]["partition"], "alphas": alphas}}
        _, ready = setup(plan(_one({**study, "data": data}, {"name": "uniform"}, 1, 0), (), owner="figure").runs[0])
        truth, sizes = label_entropy(ready.world.label_counts), ready.world.holdings.sizes
        found = entropy_estimate(_changes(ready, start(ready))[1], temperature)
        for name, those in ((f"at most {few}", sizes <= few), (f"more than {few}", sizes > few)):
            if those.any():
                cells = [f"{truth[those].mean():.2f}", f"{found[those].mean():.2f}"]
                ends = f"{found[those].min():.2f} – {found[those].max():.2f}"
                table.rows.append([setting, name, str(int(those.sum())), *cells, ends])
    table.notes.append("Every client trains once from the initial model of seed 0. H: true label entropy, in nats.")
    return table.markdown()


def traced(study: dict[str, Any], variant: dict[str, Any], rounds: int, seed: int) -> Trace:
    """Play a run; before each round the estimates are replaced as ``put`` says (without it the rule's own stay)."""
    method = {key: value for key, value in variant.items() if key not in ("label", "put")}
    put = PUTS.get(variant.get("put", "")) if "put" in variant else None
    if "put" in variant and put is None:
        raise unknown("estimate", variant["put"], sorted(PUTS))
    _, ready = setup(plan(_one(study, method, rounds, seed), (), owner="figure.study").runs[0])
    simulation, truth = start(ready), label_entropy(ready.world.label_counts)
    trace = Trace(np.zeros(truth.size))
    while simulation.registrar.index < rounds:
        state = simulation.registrar.state
        if put is not None and isinstance(state, Memory):
            put(state, ready, simulation, float(method["temperature"]))
        held = state.entropy.copy() if isinstance(state, Memory) else np.full(truth.size, np.nan)
        record = simulation.play_round()
        cohort = np.asarray(record["cohort"], np.int64)
        trace.chosen[cohort] += 1
        if (accuracy := (record.get("test") or {}).get("accuracy")) is not None:
            trace.accuracy.append(float(accuracy))
        if "entropy" in (record.get("notes") or {}):
            known = ~np.isnan(held)
            drawn = cohort[known[cohort]]
            trace.ranks.append(rank(truth[known], held[known]))
            trace.estimated.append(float(held[drawn].mean()))
            trace.true.append(float(truth[drawn].mean()))
    return trace


def _one(study: dict[str, Any], method: dict[str, Any], rounds: int, seed: int) -> dict[str, Any]:
    """The table of one run."""
    return {**study, "rounds": rounds, "seeds": [seed], "method": [method]}


def _changes(ready: Setup, simulation: Simulation) -> tuple[Ids, Floats]:
    """Every client trains from the current model: ids, and (N, C) changes of the output layer's bias."""
    ids = np.arange(ready.world.n_clients)
    found = ready.world.train(simulation.params, ids, (BIAS_UPDATE,), simulation.registrar.index).reports[
        BIAS_UPDATE.name
    ]
    return found.ids, np.asarray(found.values, np.float64)


def _everybody(state: Memory, ready: Setup, simulation: Simulation, temperature: float) -> None:
    """Estimates of everybody from the current model."""
    ids, changes = _changes(ready, simulation)
    state.update = np.zeros((state.n_clients, changes.shape[1]))
    state.update[ids] = changes
    state.entropy[ids] = entropy_estimate(changes, temperature)


def _before(state: Memory, ready: Setup, simulation: Simulation, temperature: float) -> None:
    """The same, once: from the initial model, before anybody took part."""
    if simulation.registrar.index == 0:
        _everybody(state, ready, simulation, temperature)


def _truth(state: Memory, ready: Setup, simulation: Simulation, temperature: float) -> None:
    """The entropy of the labels themselves; directions stay those that were reported."""
    known = ~np.isnan(state.entropy)
    state.entropy[known] = label_entropy(ready.world.label_counts)[known]


PUTS: dict[str, Put] = {"every round": _everybody, "before": _before, "truth": _truth}
