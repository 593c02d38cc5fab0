"""What the papers bound, beside what is measured: FedSS's precision, FedCor's descent, LongFed's estimation error."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from sortition.core import stream
from sortition.reproduction.context import Context, Marks
from sortition.reproduction.theory.identical_labels import between_groups, classify, gain_threshold
from sortition.reproduction.theory.loss_covariance import Quadratics, check_posterior
from sortition.reproduction.theory.precision import PrecisionCheck, StrataOfQuadratics, check_precision
from sortition.reproduction.theory.proxy_descent import QuadraticClients, descend_by_proxy
from sortition.reproduction.theory.queue_drift import check_queue_drift
from sortition.reproduction.theory.representation import error_bound, estimation_error
from sortition.reproduction.theory.stratification import dissimilarity
from sortition.results.table import Table
from sortition.selectors.longfed import LongFed

if TYPE_CHECKING:
    import altair as alt


def precision_of_strata(
    context: Context, *, members: list[int], seats: list[list[int]], curvature: list[float], rounds: int, steps: int
) -> str:
    """Check FedSS's Theorem 1 and Lemmas 4 to 6 along a played federation, in a table and a picture."""
    world = StrataOfQuadratics(np.array(members), np.array(curvature))
    table = Table(
        "FedSS's Theorem 1 and Lemmas 4 to 6 (claims: gap ≤ bound; each lemma's ratio of left to right side ≤ 1)",
        ["S^k", "E[F(ω_T)] − F*", "bound, eq. 16", "Lemma 4, largest", "Lemma 5, mean", "Lemma 6, largest"],
    )
    points: Marks = []
    for places in seats:
        context.say(f"Theorem 1: S^k = {places}")
        check = check_precision(world, np.array(places), rounds=rounds, steps=steps)
        table.rows.append(
            [
                ", ".join(map(str, places)),
                f"{check.gap[-1]:.4f}",
                f"{check.bound[-1]:.0f}",
                f"{check.lemma4.tightest:.2f}",
                f"{check.lemma5.typical:.2f}",
                f"{check.lemma6.tightest:.2f}",
            ]
        )
        points += _curve_marks(check, f"S = {sum(places)}")
    table.notes.append(
        f"Quadratic clients in strata of {', '.join(map(str, members))}; {rounds} rounds of {steps} noisy local steps "
        "at the theorem's rates, 400 repetitions. R² and H_k² are the largest that were met. Lemma 5 is an equality "
        "here. C₁ is as printed (eq. 17); the lemmas give 8 (EM − 1)² R² in it, without β."
    )
    return "\n\n".join([table.markdown(), context.save("precision", _draw_precision(points))])


def _curve_marks(check: PrecisionCheck, label: str) -> Marks:
    """Return the curves of a check, as marks of a chart."""
    curves = {f"measured, {label}": check.gap, f"bound, {label}": check.bound}
    return [
        {"round": number, "value": float(value), "curve": name}
        for name, values in curves.items()
        for number, value in enumerate(values, start=1)
    ]


def _draw_precision(points: Marks) -> alt.Chart:
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X("round:Q", title="round"),
            y=alt.Y(
                "value:Q", title="E[F] − F*", scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=4)
            ),
            color=alt.Color("curve:N", title=None),
        )
        .properties(width=420, height=220)
    )


def identical_labels(context: Context, *, labels: list[int], clients: int, most: int, separations: list[float]) -> str:
    """Check FedSS's Proposition 2: how clients are classified, and how separate gradients must be for a gain."""
    return "\n\n".join(
        [
            _classification_table(labels=labels, clients=clients, most=most).markdown(),
            _gain_table(separations).markdown(),
        ]
    )


def _classification_table(*, labels: list[int], clients: int, most: int) -> Table:
    """Return how many strata are found where every client has one label, and whether they are the labels."""
    table = Table(
        "Proposition 2, first step: one label a client (claim: K = L, score 1, and no other K° has score 1)",
        ["labels L", "strata found", "they are the labels", "score", "largest score of another K°"],
    )
    for n_labels in labels:
        classification = classify(n_labels, clients, most=most)
        next_best = "none" if classification.next_best < 0 else f"{classification.next_best:.3f}"
        table.rows.append(
            [
                str(n_labels),
                str(classification.strata),
                "yes" if classification.right else "no",
                f"{classification.score:.3f}",
                next_best,
            ]
        )
    table.notes.append(f"{clients} clients, K° = 2 … {most}.")
    return table


def _gain_table(separations: list[float]) -> Table:
    """Return from which separation of the gradients on stratifying gains."""
    table = Table(
        "Proposition 2, second step: the gain of stratifying (claim: positive where strata are far enough apart)",
        ["distance of the strata's centres", "between, Σ N_k‖h̄_k − h̄‖²", "threshold", "H² − Σ N_k H_k²/N"],
    )
    groups = np.repeat(np.arange(4), 5)
    rng = stream(0, "separated gradients")
    directions = np.eye(4) / np.sqrt(2)  # any two are at distance 1
    scatter = rng.normal(size=(groups.size, 4))
    for k in range(4):  # so that the strata's centres are where they should be
        scatter[groups == k] -= scatter[groups == k].mean(axis=0)
    for separation in separations:
        gradients = separation * directions[groups] + scatter
        spread = dissimilarity(gradients, groups)
        figures = [between_groups(gradients, groups), gain_threshold(spread), spread.gain]
        table.rows.append([f"{separation:g}", *[f"{figure:.3f}" for figure in figures]])
    table.notes.append("20 clients in four strata; inside a stratum gradients scatter by 1 in each of four directions.")
    return table


def posterior_of_cohorts(context: Context, *, rates: list[float], clients: int = 10, size: int = 3) -> str:
    """Check FedCor's Lemma 1: the loss change of every cohort against its posterior mean."""
    world = Quadratics(clients=clients)
    table = Table(
        "Lemma 1: every cohort's loss change (eq. 6) and its posterior mean given the cohort's own (eq. 7)",
        ["local rate", "rank correlation", "best ΔL", "ΔL of eq. 7's cohort", "mean ΔL", "gained of best − mean, %"],
    )
    for rate in rates:
        check = check_posterior(world, size, rate)
        table.rows.append(
            [
                f"{rate:g}",
                f"{check.rank:.3f}",
                f"{check.best:.4f}",
                f"{check.chosen:.4f}",
                f"{check.average:.4f}",
                f"{100 * check.gained:.1f}",
            ]
        )
    table.notes.append(
        f"{clients} quadratic clients in 6 dimensions, all cohorts of {size}, one local step; mean and covariance are "
        "those of all cohorts."
    )
    return table.markdown()


def proxy_convergence(context: Context, *, apart: dict[str, float], moments: list[int], cohort: int = 4) -> str:
    """Check FedCor's Theorem 1: Δ_t, the gap and the δ of Assumption 7 along the proxy's descent."""
    table = Table(
        "Theorem 1, the proxy algorithm (claims: Δ_t = O(1/t), and the gap vanishes with it)",
        ["clients", "t", "Δ_t, proxy", "gap, proxy", "gap, uniform", "δ that Assumption 7 needs up to t"],
    )
    for name, distance in apart.items():
        context.say(f"Theorem 1: {name}")
        world = QuadraticClients.draw(20, 6, apart=distance)
        proxy = descend_by_proxy(world, rounds=max(moments), cohort=cohort)
        uniform = descend_by_proxy(world, rounds=max(moments), cohort=cohort, uniform=True)
        for t in moments:
            last_tenth = slice(t - t // 10 - 1, t)  # since single rounds scatter
            figures = [
                proxy.distance[last_tenth].mean(),
                proxy.gap[last_tenth].mean(),
                uniform.gap[last_tenth].mean(),
                proxy.needed[: t - 1].max(),
            ]
            table.rows.append([name, str(t), *[f"{figure:.1e}" for figure in figures]])
    table.notes.append(
        f"20 quadratic clients in 6 dimensions, cohorts of {cohort}, 5 local steps, η_t = β/(t + γ) as the theorem has "
        "it; means over the last tenth of the rounds."
    )
    return table.markdown()


def representation_bound(context: Context, *, kinds: list[int], clients: int = 12, size: int = 4) -> str:
    """Check LongFed's Theorem 1: the estimation error of all cohorts against its upper bound."""
    table = Table(
        "Theorem 1: the estimation error E(S) (eq. 2) and its bound Ē(S) (eq. 3), all cohorts",
        ["kinds of clients", "largest E/Ē", "mean E/Ē", "rank correlation", "E: Ē's cohort", "E: best", "E: mean"],
    )
    cohorts = [np.array(cohort) for cohort in combinations(range(clients), size)]
    for count in kinds:
        context.say(f"Theorem 1: {count} kinds")
        rng = stream(0, "kinds of gradients", count)
        centres = 3 * rng.normal(size=(count, 5))
        gradients = centres[np.arange(clients) % count] + 0.5 * rng.normal(size=(clients, 5))
        errors = np.array([estimation_error(gradients, cohort) for cohort in cohorts])
        bounds = np.array([error_bound(gradients, cohort) for cohort in cohorts])
        ratio = errors / bounds
        figures = [
            ratio.max(),
            ratio.mean(),
            spearmanr(errors, bounds).statistic,
            errors[bounds.argmin()],
            errors.min(),
            errors.mean(),
        ]
        table.rows.append([str(count), *[f"{figure:.3f}" for figure in figures]])
    table.notes.append(
        f"{clients} clients, all {len(cohorts)} cohorts of {size}; gradients of a kind scatter by 0.5 around it. "
        "Ratios of at most 1: the bound holds."
    )
    return table.markdown()


def drift_bound(
    context: Context, *, trade_offs: list[float], rounds: int, clients: int = 20, size: int = 4, seeds: int = 5
) -> str:
    """Check LongFed's Theorem 3: the drift of the queues against its upper bound, for the chosen and random cohorts."""
    table = Table(
        "Theorem 3: the drift Δ(Θ) of the queues (eq. 17) and its bound 2 Σ (Z y + Q z) + B (eq. 21)",
        [
            "λ",
            "largest (Δ − 2 Σ (Z y + Q z)) / B",
            "rank correlation of Σ and Δ",
            "mean Δ, LongFed",
            "mean Δ, random",
        ],
    )
    n_seeds = context.seeds or seeds
    for trade_off in trade_offs:
        context.say(f"Theorem 3: λ = {trade_off:g}")
        selector = LongFed(trade_off=trade_off)
        checks = [
            check_queue_drift(selector, rounds, budget=size, clients=clients, seed=seed) for seed in range(n_seeds)
        ]
        table.rows.append(
            [
                f"{trade_off:g}",
                f"{max(check.largest_ratio for check in checks):.3f}",
                f"{np.mean([check.rank_correlation for check in checks]):.3f}",
                f"{np.mean([check.drift for check in checks]):.2f}",
                f"{np.mean([check.random_drift for check in checks]):.2f}",
            ]
        )
    table.notes.append(
        f"{clients} quadratic clients of 4 kinds, {size} a round, {rounds} rounds, {n_seeds} seeds; in every round the "
        "chosen cohort and 50 random ones. First column of figures at most 1: the bound holds for all of them. Random: "
        "what the drift of LongFed's queues would be in the same round with a random cohort."
    )
    return table.markdown()
