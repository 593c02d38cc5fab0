"""HiCS-FL's estimate beside the true label entropy, and its assumption about gradients, along a training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sortition.reproduction.context import Context
from sortition.reproduction.theory.heterogeneity import BETAS, Envelope, Heterogeneity, envelope, measure_heterogeneity
from sortition.results.table import Table
from sortition.simulation import start
from sortition.studies.federation import setup
from sortition.studies.plan import plan

Seen = tuple[int, float, Heterogeneity, Envelope]


def make(context: Context, *, study: dict[str, Any], moments: list[int], temperature: float, seed: int = 0) -> str:
    """Two rows of pictures, a column for each moment, and the figures behind them."""
    limit = context.rounds or max(moments)
    seen, uniform = _along_a_run(context, study, sorted({min(at, limit) for at in moments}), temperature, seed)
    estimates, bounds = (
        context.save("estimate", _estimates(seen)),
        context.save("dissimilarity", _bounds(seen, uniform)),
    )
    return "\n\n".join([_table(seen).markdown(), estimates, _assumption(seen).markdown(), bounds])


def _along_a_run(
    context: Context, study: dict[str, Any], moments: list[int], temperature: float, seed: int
) -> tuple[list[Seen], float]:
    """Uniform selection trains the model; at each moment every client is looked at. And H(D_0) = ln C."""
    table = {**study, "rounds": max([*moments, 1]), "seeds": [seed], "method": [{"name": "uniform"}]}
    _, ready = setup(plan(table, (), owner="figure.study").runs[0])
    simulation, seen = start(ready), []
    uniform = math.log(ready.world.classes)
    while True:
        at = simulation.registrar.index
        if at in moments:
            now = measure_heterogeneity(ready.world, simulation.params, at, temperature)
            score = ready.world.evaluator.score(simulation.params)["accuracy"]
            seen.append((at, score, now, envelope(now.truth - uniform, now.dissimilarity)))
            context.say(f"round {at}: accuracy {score:.3f}")
        if at >= max(moments):
            return seen, uniform
        simulation.play_round()


def rank(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's ρ; 0 where one of them does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(spearmanr(a, b).statistic)


def _ends(values: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Means over the most skewed and the most balanced fifth of the clients."""
    order, fifth = np.argsort(truth), max(1, truth.size // 5)
    return float(values[order[:fifth]].mean()), float(values[order[-fifth:]].mean())


def _table(seen: list[Seen]) -> Table:
    columns = ["round", "test accuracy", "rank correlation, bias", "rank correlation, row means"]
    table = Table("Estimated and true label entropy", [*columns, "H, skewed – balanced", "Ĥ, skewed – balanced"])
    for at, score, now, _ in seen:
        true, guess = _ends(now.truth, now.truth), _ends(now.bias, now.truth)
        ranks = [f"{rank(now.truth, now.bias):.3f}", f"{rank(now.truth, now.rows):.3f}"]
        ends = [f"{low:.2f} – {high:.2f}" for low, high in (true, guess)]
        table.rows.append([str(at), f"{score:.3f}", *ranks, *ends])
    table.notes.append(
        "Spearman's rank correlation over all clients. Skewed and balanced: means over the fifth of the clients with "
        "the lowest and the highest true entropy, in nats. The temperature decides the scale of Ĥ; its order counts."
    )
    return table


def _assumption(seen: list[Seen]) -> Table:
    columns = ["round", "rank correlation with H", "κ", "ρ", "β", "slack saved"]
    table = Table("‖∇F_k − ∇F‖² ≤ κ − ρ e^{β(H(D_k) − H(D_0))}", columns)
    for at, _, now, bound in seen:
        cells = [
            f"{rank(now.truth, now.dissimilarity):.3f}",
            *[f"{v:.3g}" for v in (bound.kappa, bound.rho, bound.beta)],
        ]
        table.rows.append([str(at), *cells, f"{bound.tighter:.0%}"])
    table.notes.append(
        "The tightest bound of this form that holds for every client; slack saved: how much of the mean distance to "
        f"the best constant bound it takes away. D_0 is the uniform distribution; β is searched from {BETAS[0]:g}, "
        "where the bound is nearly a straight line."
    )
    return table


def _estimates(seen: list[Seen]) -> Any:
    import altair as alt

    panels = []
    for at, _, now, _ in seen:
        values = [{"H": float(h), "estimate": float(e)} for h, e in zip(now.truth, now.bias, strict=True)]
        panels.append(
            alt.Chart(alt.InlineData(values=values), title=f"round {at}")
            .mark_circle(size=36, opacity=0.7)
            .encode(x=alt.X("H:Q", title="label entropy H(D_k)"), y=alt.Y("estimate:Q", title="estimate Ĥ_k"))
            .properties(width=220, height=180)
        )
    return alt.concat(*panels, columns=2, spacing=20)


def _bounds(seen: list[Seen], uniform: float) -> Any:
    import altair as alt

    panels = []
    for at, _, now, bound in seen:
        gap = now.truth - uniform
        points = [{"gap": float(g), "d": float(d)} for g, d in zip(gap, now.dissimilarity, strict=True)]
        grid = np.linspace(-uniform, 0, 40)
        line = [{"gap": float(g), "d": float(d)} for g, d in zip(grid, bound.at(grid), strict=True)]
        x, y = alt.X("gap:Q", title="H(D_k) − H(D_0)"), alt.Y("d:Q", title="‖∇F_k − ∇F‖²")
        dots = alt.Chart(alt.InlineData(values=points)).mark_circle(size=36, opacity=0.7).encode(x=x, y=y)
        curve = alt.Chart(alt.InlineData(values=line)).mark_line(color="#b33").encode(x=x, y=y)
        panels.append(alt.layer(dots, curve).properties(width=220, height=180, title=f"round {at}"))
    return alt.concat(*panels, columns=2, spacing=20)
