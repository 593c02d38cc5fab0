"""HiCS-FL's rule with other estimates of label entropy in its place: which of them keeps it from being misled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sortition.core import BIAS_UPDATE
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import unknown
from sortition.reproduction.context import Context, Toml
from sortition.reproduction.figures.heterogeneity import rank_correlation
from sortition.reproduction.theory.heterogeneity import label_entropy
from sortition.results.statistics import centre
from sortition.results.table import Table, mean_and_sd
from sortition.selectors.hics import Memory, entropy_estimate
from sortition.simulation import Setup, Simulation, start
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan

TOP = 5  # clients that were chosen most often
COLUMNS = ["Ĥ of the drawn", "H of the drawn", "rank correlation", "top five, % of places", "mean accuracy, %"]
DIGITS = [2, 2, 2, 0]  # of the columns before the accuracy
Estimate = Callable[[Memory, Setup, Simulation, float], None]


@dataclass
class Trace:
    """What happened along one run.

    Attributes:
        times_chosen: (N,), of each client.
        accuracy: a value per evaluation.
        ranks: rank correlation of the estimates with the true entropy, a value per round that used them.
        estimated: mean Ĥ of those who were drawn by groups, a value per such round.
        true: mean H of the same.
    """

    times_chosen: Floats
    accuracy: list[float] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)
    estimated: list[float] = field(default_factory=list)
    true: list[float] = field(default_factory=list)

    def figures(self) -> list[float | None]:
        """Return the values of COLUMNS; None where nothing was drawn by estimates."""
        share_of_top = np.sort(self.times_chosen)[-TOP:].sum() / self.times_chosen.sum()
        return [
            _mean_or_none(self.estimated),
            _mean_or_none(self.true),
            _mean_or_none(self.ranks),
            100 * float(share_of_top),
            100 * float(np.mean(self.accuracy)),
        ]


def _mean_or_none(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def make(
    context: Context,
    *,
    study: Toml,
    settings: dict[str, list[float]],
    variants: list[Toml],
    rounds: int,
    seeds: int,
) -> str:
    """Make a table for each setting: the rule as published, with each variant of λ or of the estimate, and without."""
    n_rounds = context.rounds or rounds
    n_seeds = context.seeds or seeds
    tables = []
    for setting, alphas in settings.items():
        table = Table(f"{setting}: the same rule, other estimates", ["variant", *COLUMNS])
        study_of_setting = _with_alphas(study, alphas)
        for variant in variants:
            context.say(f"{setting}: {variant['label']}")
            traces = [trace_run(study_of_setting, variant, n_rounds, seed) for seed in range(n_seeds)]
            table.rows.append([variant["label"], *_mean_cells(traces)])
        table.notes.append(
            f"{n_rounds} rounds, {n_seeds} seed(s). Ĥ and H: estimated and true label entropy of those who were drawn "
            "by groups, in nats; Ĥ is at most ln 10 = 2.30. Rank correlation: Spearman's, of the estimates that the "
            "rule chooses by with the truth, over all clients (0 where one of both does not vary). Both are means over "
            "rounds. Top five: the clients that were chosen most often."
        )
        tables.append(table.markdown())
    return "\n\n".join(tables)


def _with_alphas(study: Toml, alphas: list[float]) -> Toml:
    partition = {**study["data"]["partition"], "alphas": alphas}
    return {**study, "data": {**study["data"], "partition": partition}}


def _mean_cells(traces: list[Trace]) -> list[str]:
    """Write the means over seeds, and a deviation beside the accuracy."""
    columns = [
        [value for value in column if value is not None]
        for column in zip(*(trace.figures() for trace in traces), strict=True)
    ]
    *columns_of_choice, accuracies = columns
    cells = []
    for values, digits in zip(columns_of_choice, DIGITS, strict=True):
        cells.append(f"{np.mean(values):.{digits}f}" if values else "")
    return [*cells, mean_and_sd(centre(accuracies), 1, total=len(accuracies))]


def by_size(context: Context, *, study: Toml, settings: dict[str, list[float]], temperature: float, few: int) -> str:
    """Compare Ĥ of clients with few examples and of the others at the initial model, where no label was learnt."""
    columns = ["setting", "examples", "clients", "H", "Ĥ at the initial model", "smallest – largest Ĥ"]
    table = Table("Who looks balanced before anybody took part", columns)
    for setting, alphas in settings.items():
        federation = _set_up(_with_alphas(study, alphas), {"name": "uniform"}, rounds=1, seed=0)
        _, changes = _bias_changes(federation, start(federation))
        estimates = entropy_estimate(changes, temperature)
        truth = label_entropy(federation.world.label_counts)
        has_few = federation.world.training_parts.sizes <= few
        for name, group in ((f"at most {few}", has_few), (f"more than {few}", ~has_few)):
            if group.any():
                table.rows.append(
                    [
                        setting,
                        name,
                        str(int(group.sum())),
                        f"{truth[group].mean():.2f}",
                        f"{estimates[group].mean():.2f}",
                        f"{estimates[group].min():.2f} – {estimates[group].max():.2f}",
                    ]
                )
    table.notes.append("Every client trains once from the initial model of seed 0. H: true label entropy, in nats.")
    return table.markdown()


def trace_run(study: Toml, variant: Toml, rounds: int, seed: int) -> Trace:
    """Play a run; before each round the variant's ``estimate`` replaces those of the rule (without it they stay)."""
    method = {key: value for key, value in variant.items() if key not in ("label", "estimate")}
    replace_estimates = _estimate_of(variant)
    federation = _set_up(study, method, rounds=rounds, seed=seed)
    simulation = start(federation)
    truth = label_entropy(federation.world.label_counts)
    trace = Trace(times_chosen=np.zeros(truth.size))
    while simulation.registrar.index < rounds:
        state = simulation.registrar.state
        estimates = np.full(truth.size, np.nan)
        if isinstance(state, Memory):
            if replace_estimates is not None:
                replace_estimates(state, federation, simulation, float(method["temperature"]))
            estimates = state.entropy.copy()
        record = simulation.play_round()
        cohort = np.asarray(record["cohort"], np.int64)
        trace.times_chosen[cohort] += 1
        accuracy = (record.get("test") or {}).get("accuracy")
        if accuracy is not None:
            trace.accuracy.append(float(accuracy))
        if "entropy" in (record.get("notes") or {}):
            has_estimate = ~np.isnan(estimates)
            drawn_by_groups = cohort[has_estimate[cohort]]
            trace.ranks.append(rank_correlation(truth[has_estimate], estimates[has_estimate]))
            trace.estimated.append(float(estimates[drawn_by_groups].mean()))
            trace.true.append(float(truth[drawn_by_groups].mean()))
    return trace


def _estimate_of(variant: Toml) -> Estimate | None:
    """Return the function that a variant's ``estimate`` names; None where it names none."""
    name = variant.get("estimate")
    if name is None:
        return None
    if name not in ESTIMATES:
        raise unknown("estimate", name, sorted(ESTIMATES))
    return ESTIMATES[name]


def _set_up(study: Toml, method: Toml, *, rounds: int, seed: int) -> Setup:
    """Prepare one run."""
    table = {**study, "rounds": rounds, "seeds": [seed], "method": [method]}
    _, federation = setup(plan(table, (), subject="figure.study").runs[0])
    return federation


def _bias_changes(federation: Setup, simulation: Simulation) -> tuple[Ids, Floats]:
    """Train every client from the current model; return ids, and (N, C) changes of the output layer's bias."""
    everybody = np.arange(federation.world.n_clients)
    outcome = federation.world.train(simulation.params, everybody, (BIAS_UPDATE,), simulation.registrar.index)
    report = outcome.reports[BIAS_UPDATE.name]
    return report.ids, np.asarray(report.values, np.float64)


# -- other estimates ------------------------------------------------------------------------------------------------


def _estimate_everybody(state: Memory, federation: Setup, simulation: Simulation, temperature: float) -> None:
    """Estimate everybody's entropy from the current model."""
    ids, changes = _bias_changes(federation, simulation)
    state.update = np.zeros((state.n_clients, changes.shape[1]))
    state.update[ids] = changes
    state.entropy[ids] = entropy_estimate(changes, temperature)


def _estimate_once(state: Memory, federation: Setup, simulation: Simulation, temperature: float) -> None:
    """Estimate everybody's entropy once, from the initial model, before anybody took part."""
    if simulation.registrar.index == 0:
        _estimate_everybody(state, federation, simulation, temperature)


def _use_truth(state: Memory, federation: Setup, simulation: Simulation, temperature: float) -> None:
    """Put the entropy of the labels themselves in place of estimates; directions stay those that were reported."""
    has_estimate = ~np.isnan(state.entropy)
    state.entropy[has_estimate] = label_entropy(federation.world.label_counts)[has_estimate]


ESTIMATES: dict[str, Estimate] = {
    "every round": _estimate_everybody,
    "before": _estimate_once,
    "truth": _use_truth,
}
