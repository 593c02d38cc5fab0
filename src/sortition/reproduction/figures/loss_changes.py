"""FedCor's premises, measured: are loss changes Gaussian (Fig. 2, D.2), and does their covariance stay (Figs. 3, 9)?

Loss changes are taken over cohorts drawn uniformly at one model. A client's local training there has one outcome, so
the updates of all clients are computed once and a cohort's model is a mean of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from sortition.aggregation import weighted_sum
from sortition.core import LOSS, Cohort, Measure, Registrar, stream
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import uniformly
from sortition.reproduction import preset as presets
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.simulation import World
from sortition.studies import federation
from sortition.studies.config import RunConfig


def similarity(a: Floats, b: Floats) -> float:
    """Cosine of two covariances, tr(AᵀB) / √(tr AᵀA · tr BᵀB): eq. 151 with the square roots that it lacks."""
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))


def components(changes: Floats, count: int) -> tuple[Floats, Floats]:
    """(n, count) principal components of (n, N) loss changes, scaled to variance 1, and their shares of variance."""
    centred = changes - changes.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:, :count] * np.sqrt(len(changes)), (values**2 / np.sum(values**2))[:count]


def sampled_changes(world: World, params: Array, t: int, cohorts: int, size: int, seed: int = 0) -> Floats:
    """(cohorts, N) changes of everybody's loss when a uniform cohort of this size trains from ``params``."""
    everybody = np.arange(world.n_clients)
    before = world.measure(params, Measure(LOSS, everybody), t).values
    deltas = world.train(params, everybody, (), t).deltas
    rng, rows = stream(seed, "sampled cohorts"), []
    for _ in range(cohorts):
        ids = uniformly(everybody, size, rng)
        after = params + weighted_sum(np.full(ids.size, 1 / ids.size), deltas[ids])
        rows.append(world.measure(after, Measure(LOSS, everybody), t).values - before)
    return np.stack(rows)


def normality(
    context: Context,
    *,
    of: str,
    setting: list[str],
    method: str,
    round: int = 15,
    cohorts: int = 1000,
    shown: int = 3,
) -> str:
    """Histograms of the first principal components beside the normal density, and how far apart they are."""
    import altair as alt

    table = Table(
        f"Loss changes over {cohorts} uniform cohorts at round {round}",
        ["setting", "component", "share of variance", "skewness", "excess kurtosis", "largest gap of the distribution"],
    )
    panels = []
    for config in _configs(of, setting, method):
        for t, world, params in trajectory(config, round):
            if t < round:
                continue
            context.say(f"{config.setting}: {cohorts} cohorts")
            changes = sampled_changes(world, params, t, cohorts, config.cohort)
            parts, share = components(changes, shown)
            for i in range(shown):
                x = parts[:, i]
                gap = stats.kstest(x, "norm").statistic
                figures = [share[i], stats.skew(x), stats.kurtosis(x), gap]
                table.rows.append([config.setting, str(i + 1), *[f"{value:.3f}" for value in figures]])
                panels.append(_histogram(alt, x, f"{config.setting}, component {i + 1}"))
    table.notes.append("The gap is Kolmogorov's distance to the normal law with the same mean and variance: 0 … 1.")
    return f"{context.save('components', alt.concat(*panels, columns=shown, spacing=16))}\n\n{table.markdown()}"


def stationarity(
    context: Context,
    *,
    of: str,
    setting: list[str],
    method: str,
    first: int = 15,
    interval: int = 10,
    points: int = 11,
    cohorts: int = 200,
) -> str:
    """Similarity of the covariance at one moment and ``interval`` rounds later, along a run of a method."""
    import altair as alt

    values, rows = [], []
    for config in _configs(of, setting, method):
        last, found = None, []
        for t, world, params in trajectory(config, first + interval * (points - 1)):
            if t < first or (t - first) % interval:
                continue
            context.say(f"{config.setting}: round {t}")
            # the same cohorts at every moment: what differs is the model, not the draw
            changes = np.cov(sampled_changes(world, params, t, cohorts, config.cohort), rowvar=False)
            if last is not None:
                found.append(similarity(last, changes))
                values.append({"round": t, "similarity": round(found[-1], 4), "setting": config.setting})
            last = changes
        rows.append([config.setting, f"{np.min(found):.3f}", f"{np.mean(found):.3f}", f"{np.max(found):.3f}"])
    table = Table(f"Cosine of the covariances {interval} rounds apart", ["setting", "least", "mean", "largest"], rows)
    chart = alt.Chart(alt.InlineData(values=values)).mark_line(point=True)
    chart = chart.encode(
        x="round:Q", y=alt.Y("similarity:Q", scale=alt.Scale(domain=[0, 1])), color=alt.Color("setting:N", title=None)
    )
    return f"{context.save('similarity', chart.properties(width=420, height=240))}\n\n{table.markdown()}"


def trajectory(config: RunConfig, rounds: int) -> Iterator[tuple[int, World, Array]]:
    """The models of a run before each round 0 … rounds; everybody is available and answers."""
    ground, setup = federation.setup(config)
    world, params = setup.world, setup.world.initial
    registrar = Registrar(setup.selector, ground.population, horizon=config.rounds, seed=config.seed)
    for t in range(rounds + 1):
        yield t, world, params
        turn = registrar.begin(np.arange(world.n_clients), config.cohort)
        while turn.question is not None:
            turn.answer(world.measure(params, turn.question, t))
        cohort = turn.cohort or Cohort.uniform([])
        outcome = world.train(params, cohort.ids, registrar.needs.reports, t)
        registrar.finish(turn, cohort.ids, outcome.reports)
        params = params + weighted_sum(cohort.weights, outcome.deltas)


def _configs(of: str, setting: list[str], method: str) -> list[RunConfig]:
    """The first run of a method in each of these settings of a preset."""
    runs = presets.load_preset(of).plan().runs
    return [next(run for run in runs if (run.setting, run.method.label) == (one, method)) for one in setting]


def _histogram(alt: Any, x: Floats, title: str) -> Any:
    heights, edges = np.histogram(x, bins=40, range=(-4, 4), density=True)
    sides = zip(edges.tolist(), edges[1:].tolist(), heights.tolist(), strict=False)
    bars = [{"x": left, "x2": right, "y": height, "floor": 0} for left, right, height in sides]
    grid = np.linspace(-4, 4, 81)
    line = [{"x": float(g), "y": float(h)} for g, h in zip(grid, stats.norm.pdf(grid), strict=True)]
    histogram = alt.Chart(alt.InlineData(values=bars), title=title).mark_bar(color="#9ab")
    histogram = histogram.encode(x=alt.X("x:Q", title=None), x2="x2:Q", y=alt.Y("y:Q", title="density"), y2="floor:Q")
    density = alt.Chart(alt.InlineData(values=line)).mark_line(color="firebrick").encode(x="x:Q", y="y:Q")
    return (histogram + density).properties(width=200, height=140)
