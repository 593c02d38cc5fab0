"""HiCS-FL's estimate beside the true label entropy, and its assumption about gradients, along a training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from sortition.core.arrays import Array
from sortition.reproduction.context import Context, Marks, Toml
from sortition.reproduction.theory.heterogeneity import (
    BETAS,
    Envelope,
    Heterogeneity,
    fit_envelope,
    measure_heterogeneity,
)
from sortition.results.table import Table
from sortition.simulation import start
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Moment:
    """What was measured before one round of a training.

    Attributes:
        round: its index.
        accuracy: of the global model on the test set.
        clients: entropies and gradients of every client.
        largest_entropy: H(D_0), where D_0 is the uniform distribution.
        bound: the tightest bound of the assumed form.
    """

    round: int
    accuracy: float
    clients: Heterogeneity
    largest_entropy: float
    bound: Envelope

    @property
    def gap(self) -> Array:
        """H(D_k) − H(D_0) of every client (N,)."""
        return self.clients.truth - self.largest_entropy


def make(context: Context, *, study: Toml, moments: list[int], temperature: float, seed: int = 0) -> str:
    """Draw two rows of pictures, a column for each moment, and tabulate the figures behind them."""
    last_round = context.rounds or max(moments)
    rounds = sorted({min(moment, last_round) for moment in moments})
    measured = _moments_of_a_run(context, study, rounds=rounds, temperature=temperature, seed=seed)
    return "\n\n".join(
        [
            _estimates_table(measured).markdown(),
            context.save("estimate", _draw_estimates(measured)),
            _assumption_table(measured).markdown(),
            context.save("dissimilarity", _draw_bounds(measured)),
        ]
    )


def _moments_of_a_run(
    context: Context, study: Toml, *, rounds: list[int], temperature: float, seed: int
) -> list[Moment]:
    """Train with uniform selection, and look at every client before each of these rounds."""
    last_round = max(rounds)
    table = {**study, "rounds": max(last_round, 1), "seeds": [seed], "method": [{"name": "uniform"}]}
    _, federation = setup(plan(table, (), subject="figure.study").runs[0])
    world = federation.world
    largest_entropy = math.log(world.classes)
    simulation = start(federation)
    measured = []
    while True:
        t = simulation.registrar.index
        if t in rounds:
            clients = measure_heterogeneity(world, simulation.params, t, temperature)
            accuracy = world.evaluator.score(simulation.params)["accuracy"]
            measured.append(
                Moment(
                    round=t,
                    accuracy=accuracy,
                    clients=clients,
                    largest_entropy=largest_entropy,
                    bound=fit_envelope(clients.truth - largest_entropy, clients.dissimilarity),
                )
            )
            context.say(f"round {t}: accuracy {accuracy:.3f}")
        if t >= last_round:
            return measured
        simulation.play_round()


def rank_correlation(a: Array, b: Array) -> float:
    """Return Spearman's ρ; 0 where one of the two does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(spearmanr(a, b).statistic)


def _extreme_fifths(values: Array, truth: Array) -> str:
    """Write the means over the most skewed and the most balanced fifth of the clients."""
    most_skewed_first = np.argsort(truth)
    fifth = max(1, truth.size // 5)
    skewed = values[most_skewed_first[:fifth]].mean()
    balanced = values[most_skewed_first[-fifth:]].mean()
    return f"{skewed:.2f} – {balanced:.2f}"


def _estimates_table(measured: list[Moment]) -> Table:
    """Return how the estimated entropies agree with the true ones, at each moment."""
    columns = ["round", "test accuracy", "rank correlation, bias", "rank correlation, row means"]
    table = Table("Estimated and true label entropy", [*columns, "H, skewed – balanced", "Ĥ, skewed – balanced"])
    for moment in measured:
        clients = moment.clients
        table.rows.append(
            [
                str(moment.round),
                f"{moment.accuracy:.3f}",
                f"{rank_correlation(clients.truth, clients.bias):.3f}",
                f"{rank_correlation(clients.truth, clients.rows):.3f}",
                _extreme_fifths(clients.truth, clients.truth),
                _extreme_fifths(clients.bias, clients.truth),
            ]
        )
    table.notes.append(
        "Spearman's rank correlation over all clients. Skewed and balanced: means over the fifth of the clients with "
        "the lowest and the highest true entropy, in nats. The temperature decides the scale of Ĥ; its order counts."
    )
    return table


def _assumption_table(measured: list[Moment]) -> Table:
    """Return the constants with which the slides' assumption holds, at each moment."""
    columns = ["round", "rank correlation with H", "κ", "ρ", "β", "slack saved"]
    table = Table("‖∇F_k − ∇F‖² ≤ κ − ρ e^{β(H(D_k) − H(D_0))}", columns)
    for moment in measured:
        table.rows.append(
            [
                str(moment.round),
                f"{rank_correlation(moment.clients.truth, moment.clients.dissimilarity):.3f}",
                f"{moment.bound.kappa:.3g}",
                f"{moment.bound.rho:.3g}",
                f"{moment.bound.beta:.3g}",
                f"{moment.bound.tighter:.0%}",
            ]
        )
    table.notes.append(
        "The tightest bound of this form that holds for every client; slack saved: how much of the mean distance to "
        f"the best constant bound it takes away. D_0 is the uniform distribution; β is searched from {BETAS[0]:g}, "
        "where the bound is nearly a straight line."
    )
    return table


def _draw_estimates(measured: list[Moment]) -> alt.ConcatChart:
    """Draw estimated against true entropy, a picture for each moment."""
    import altair as alt

    panels = []
    for moment in measured:
        pairs = zip(moment.clients.truth, moment.clients.bias, strict=True)
        points: Marks = [{"H": float(entropy), "estimate": float(estimate)} for entropy, estimate in pairs]
        panels.append(
            alt.Chart(alt.InlineData(values=points), title=f"round {moment.round}")
            .mark_circle(size=36, opacity=0.7)
            .encode(x=alt.X("H:Q", title="label entropy H(D_k)"), y=alt.Y("estimate:Q", title="estimate Ĥ_k"))
            .properties(width=220, height=180)
        )
    return alt.concat(*panels, columns=2, spacing=20)


def _draw_bounds(measured: list[Moment]) -> alt.ConcatChart:
    """Draw each client's dissimilarity and the bound that the assumption gives, a picture for each moment."""
    import altair as alt

    axes = {"x": alt.X("gap:Q", title="H(D_k) − H(D_0)"), "y": alt.Y("d:Q", title="‖∇F_k − ∇F‖²")}
    panels = []
    for moment in measured:
        grid = np.linspace(-moment.largest_entropy, 0, 40)
        dots = alt.Chart(_pairs(moment.gap, moment.clients.dissimilarity)).mark_circle(size=36, opacity=0.7)
        curve = alt.Chart(_pairs(grid, moment.bound.at(grid))).mark_line(color="#b33")
        panel = alt.layer(dots.encode(**axes), curve.encode(**axes))
        panels.append(panel.properties(width=220, height=180, title=f"round {moment.round}"))
    return alt.concat(*panels, columns=2, spacing=20)


def _pairs(gaps: Array, dissimilarities: Array) -> alt.InlineData:
    import altair as alt

    points: Marks = [{"gap": float(gap), "d": float(d)} for gap, d in zip(gaps, dissimilarities, strict=True)]
    return alt.InlineData(values=points)
