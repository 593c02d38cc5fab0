"""FedCor's premises, measured: are loss changes Gaussian (Fig. 2, D.2), and does their covariance stay (Figs. 3, 9)?

``skewness_by_client`` and ``drift`` look for the causes where they are not. Loss changes are taken over cohorts drawn
uniformly at one model. A client's local training there has one outcome, so the updates of all clients are computed
once and a cohort's model is a mean of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from sortition.aggregation import weighted_sum
from sortition.core import LOSS, Cohort, Measure, Registrar, stream
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import draw_uniformly
from sortition.reproduction import preset as presets
from sortition.reproduction.context import Context, Marks
from sortition.results.table import Table
from sortition.simulation import World
from sortition.studies import build_federation
from sortition.studies.config import RunConfig

if TYPE_CHECKING:
    import altair as alt


def covariance_similarity(a: Floats, b: Floats) -> float:
    """Return the cosine of two covariances, tr(AᵀB) / √(tr AᵀA · tr BᵀB): eq. 151 with the roots that it lacks."""
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))


def principal_components(changes: Floats, count: int) -> tuple[Floats, Floats]:
    """Return principal components (n, count) of loss changes (n, N), of variance 1, and their shares of variance."""
    centred = changes - changes.mean(axis=0)
    left_vectors, singular_values, _ = np.linalg.svd(centred, full_matrices=False)
    variances = singular_values**2
    return left_vectors[:, :count] * np.sqrt(len(changes)), (variances / np.sum(variances))[:count]


def updates_of_all(world: World, params: Array, t: int) -> Array:
    """Return everybody's update (N, P) when trained from ``params``."""
    return world.train(params, np.arange(world.n_clients), (), t).deltas


def sampled_changes(
    world: World,
    params: Array,
    t: int,
    *,
    deltas: Array,
    cohorts: int,
    size: int,
    seed: int = 0,
) -> Floats:
    """Return the changes (cohorts, N) of everybody's loss when a uniform cohort of this size trains from ``params``."""
    everybody = np.arange(world.n_clients)
    losses_before = world.measure(params, Measure(LOSS, everybody), t).values
    rng = stream(seed, "sampled cohorts")
    rows = []
    for _ in range(cohorts):
        ids = draw_uniformly(everybody, size, rng)
        params_after = params + weighted_sum(np.full(ids.size, 1 / ids.size), deltas[ids])
        losses_after = world.measure(params_after, Measure(LOSS, everybody), t).values
        rows.append(losses_after - losses_before)
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
    single_clients: bool = False,
) -> str:
    """Draw the first principal components beside the normal density, and tabulate how far apart they are.

    With ``single_clients`` the skewness that the effects of single clients lead one to expect stands beside.
    """
    import altair as alt

    columns = ["setting", "component", "share of variance", "skewness", "excess kurtosis", "largest gap"]
    if single_clients:
        columns.append("skewness, from single clients")
    table = Table(f"Loss changes over {cohorts} uniform cohorts at round {round}", columns)
    panels = []
    for config in _first_configs(of, setting, method):
        t, world, params = next(moment for moment in play_trajectory(config, round) if moment[0] == round)
        context.say(f"{config.setting}: {cohorts} cohorts")
        deltas = updates_of_all(world, params, t)
        changes = sampled_changes(world, params, t, deltas=deltas, cohorts=cohorts, size=config.cohort)
        scaled, shares = principal_components(changes, shown)
        expected = []
        if single_clients:
            effects = single_changes(world, params, t, deltas=deltas, size=config.cohort)
            loadings = (changes - changes.mean(axis=0)).T @ scaled
            expected = [skewness_of_mean(effects @ loading, config.cohort) for loading in loadings.T]
        for position in range(shown):
            component = scaled[:, position]
            figures = [
                shares[position],
                stats.skew(component),
                stats.kurtosis(component),
                stats.kstest(component, "norm").statistic,
                *expected[position : position + 1],
            ]
            table.rows.append([config.setting, str(position + 1), *[f"{figure:z.3f}" for figure in figures]])
            panels.append(_draw_histogram(component, f"{config.setting}, component {position + 1}"))
    table.notes.append("The gap is Kolmogorov's distance to the normal law with the same mean and variance: 0 … 1.")
    if single_clients:
        table.notes.append("From single clients: the skewness of the mean of a cohort of their effects, one by one.")
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
    """Compare the covariance at one moment with that ``interval`` rounds later, along a run of a method."""
    import altair as alt

    marks: Marks = []
    table = Table(f"Cosine of the covariances {interval} rounds apart", ["setting", "least", "mean", "largest"])
    for config in _first_configs(of, setting, method):
        previous_covariance = None
        similarities = []
        for t, world, params in play_trajectory(config, first + interval * (points - 1)):
            if t < first or (t - first) % interval:
                continue
            context.say(f"{config.setting}: round {t}")
            # the same cohorts at every moment: what differs is the model, not the draw
            deltas = updates_of_all(world, params, t)
            changes = sampled_changes(world, params, t, deltas=deltas, cohorts=cohorts, size=config.cohort)
            covariance = np.cov(changes, rowvar=False)
            if previous_covariance is not None:
                cosine = covariance_similarity(previous_covariance, covariance)
                similarities.append(cosine)
                marks.append({"round": t, "similarity": round(cosine, 4), "setting": config.setting})
            previous_covariance = covariance
        extremes = [np.min(similarities), np.mean(similarities), np.max(similarities)]
        table.rows.append([config.setting, *[f"{figure:z.3f}" for figure in extremes]])
    chart = alt.Chart(alt.InlineData(values=marks)).mark_line(point=True)
    chart = chart.encode(
        x="round:Q", y=alt.Y("similarity:Q", scale=alt.Scale(domain=[0, 1])), color=alt.Color("setting:N", title=None)
    )
    return f"{context.save('similarity', chart.properties(width=420, height=240))}\n\n{table.markdown()}"


def skewness_by_client(
    context: Context,
    *,
    of: str,
    setting: list[str],
    method: str,
    round: int = 15,
    cohorts: int = 1000,
    shown: int = 3,
    left_out: int = 5,
) -> str:
    """Tabulate the skewness of principal components beside what the effects of single clients lead one to expect."""
    columns = [
        "setting",
        "cohort",
        "component",
        "skewness, cohorts",
        "skewness, from single clients",
        f"without the {left_out} largest effects",
        f"share of the {left_out} in the variance, %",
    ]
    table = Table(f"Skewness of loss changes at round {round}: {cohorts} cohorts, and single clients", columns)
    for config in _first_configs(of, setting, method):
        t, world, params = next(moment for moment in play_trajectory(config, round) if moment[0] == round)
        context.say(f"{config.setting}: {cohorts} cohorts and {world.n_clients} clients")
        deltas = updates_of_all(world, params, t)
        changes = sampled_changes(world, params, t, deltas=deltas, cohorts=cohorts, size=config.cohort)
        effects = single_changes(world, params, t, deltas=deltas, size=config.cohort)
        directions = np.linalg.svd(changes - changes.mean(axis=0), full_matrices=False)[2]
        for position, direction in enumerate(directions[:shown], start=1):
            effect = effects @ direction
            centred = effect - effect.mean()
            order = np.argsort(-np.abs(centred))
            share = np.sum(centred[order[:left_out]] ** 2) / np.sum(centred**2)
            figures = [
                stats.skew(changes @ direction),
                skewness_of_mean(effect, config.cohort),
                skewness_of_mean(effect[order[left_out:]], config.cohort),
            ]
            table.rows.append(
                [
                    config.setting,
                    str(config.cohort),
                    str(position),
                    *[f"{figure:.2f}" for figure in figures],
                    f"{100 * share:.0f}",
                ]
            )
    table.notes.append(
        "From single clients: every client moves the model by its share of a cohort's step, alone; the skewness of a "
        "mean of so many of these effects, drawn without replacement, follows from their own. Signs of components are "
        "arbitrary."
    )
    return table.markdown()


def single_changes(world: World, params: Array, t: int, *, deltas: Array, size: int) -> Floats:
    """Return the changes (N, N) of everybody's loss when one client alone adds 1/size of its update to ``params``."""
    everybody = np.arange(world.n_clients)
    losses_before = world.measure(params, Measure(LOSS, everybody), t).values
    rows = [world.measure(params + delta / size, Measure(LOSS, everybody), t).values for delta in deltas]
    return np.stack(rows) - losses_before


def skewness_of_mean(values: Floats, size: int) -> float:
    """Return the skewness of the mean of ``size`` of these values, drawn without replacement."""
    n = len(values)
    finite_population = (n - 2 * size) / (n - 2) * np.sqrt((n - 1) / (size * (n - size)))
    return float(stats.skew(values) * finite_population)


def drift(
    context: Context,
    *,
    of: str,
    setting: list[str],
    method: str,
    moments: list[int],
    interval: int = 10,
    cohorts: int = 100,
) -> str:
    """Compare covariances one round and ``interval`` rounds apart and with the first, over the whole training."""
    columns = ["setting", "round t", "one round apart", f"{interval} rounds apart", "with the first"]
    table = Table(f"Cosine of covariances from {cohorts} cohorts", columns)
    for config in _first_configs(of, setting, method):
        measured = {t + offset for t in moments for offset in (0, 1, interval)}
        covariances: dict[int, Floats] = {}
        for t, world, params in play_trajectory(config, max(measured)):
            if t not in measured:
                continue
            deltas = updates_of_all(world, params, t)
            changes = sampled_changes(world, params, t, deltas=deltas, cohorts=cohorts, size=config.cohort)
            covariances[t] = np.cov(changes, rowvar=False)
            if t in moments:
                context.say(f"{config.setting}: round {t}")
        first = covariances[min(moments)]
        for t in moments:
            others = [covariances[t + 1], covariances[t + interval], first]
            cosines = [covariance_similarity(covariances[t], other) for other in others]
            table.rows.append([config.setting, str(t), *[f"{cosine:z.3f}" for cosine in cosines]])
    table.notes.append("The same cohorts at every moment. The first covariance is that of the end of warm-up.")
    return table.markdown()


def play_trajectory(config: RunConfig, rounds: int) -> Iterator[tuple[int, World, Array]]:
    """Yield the model of a run before each round 0 … rounds; everybody is available and answers."""
    ground, setup = build_federation.setup(config)
    world = setup.world
    params = world.initial
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


def _first_configs(of: str, settings: list[str], method: str) -> list[RunConfig]:
    """Return the first run of a method in each of these settings of the preset ``of``."""
    runs = presets.load_preset(of).plan().runs
    return [next(run for run in runs if run.setting == setting and run.method.label == method) for setting in settings]


def _draw_histogram(values: Floats, title: str) -> alt.LayerChart:
    """Draw the histogram of a principal component beside the normal density."""
    import altair as alt

    heights, edges = np.histogram(values, bins=40, range=(-4, 4), density=True)
    bars: Marks = [
        {"x": start, "x2": end, "y": height, "floor": 0}
        for start, end, height in zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True)
    ]
    grid = np.linspace(-4, 4, 81)
    curve: Marks = [{"x": float(x), "y": float(density)} for x, density in zip(grid, stats.norm.pdf(grid), strict=True)]
    histogram = alt.Chart(alt.InlineData(values=bars), title=title).mark_bar(color="#9ab")
    histogram = histogram.encode(x=alt.X("x:Q", title=None), x2="x2:Q", y=alt.Y("y:Q", title="density"), y2="floor:Q")
    normal_law = alt.Chart(alt.InlineData(values=curve)).mark_line(color="firebrick").encode(x="x:Q", y="y:Q")
    return (histogram + normal_law).properties(width=200, height=140)
