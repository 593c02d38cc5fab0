"""What the papers bound, beside what is measured: FedSS's precision, FedCor's descent, LongFed's estimation error."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sortition.core import stream
from sortition.reproduction.context import Context
from sortition.reproduction.theory.identical_labels import between, classify, threshold
from sortition.reproduction.theory.loss_covariance import Quadratics, check_posterior
from sortition.reproduction.theory.precision import PrecisionCheck, StrataOfQuadratics, check_precision
from sortition.reproduction.theory.proxy_descent import QuadraticClients, descend_by_proxy
from sortition.reproduction.theory.representation import error_bound, estimation_error
from sortition.reproduction.theory.stratification import dissimilarity
from sortition.results.table import Table


def precision_of_strata(
    context: Context, *, members: list[int], seats: list[list[int]], curvature: list[float], rounds: int, steps: int
) -> str:
    """FedSS's Theorem 1 and Lemmas 4 to 6 along a played federation: a table and a picture."""
    world = StrataOfQuadratics(np.array(members), np.array(curvature))
    table = Table(
        "FedSS's Theorem 1 and Lemmas 4 to 6 (claims: gap ≤ bound; each lemma's ratio of left to right side ≤ 1)",
        ["S^k", "E[F(ω_T)] − F*", "bound, eq. 16", "Lemma 4, largest", "Lemma 5, mean", "Lemma 6, largest"],
    )
    points: list[dict[str, Any]] = []
    for places in seats:
        context.say(f"Theorem 1: S^k = {places}")
        check = check_precision(world, np.array(places), rounds=rounds, steps=steps)
        cells = [f"{check.gap[-1]:.4f}", f"{check.bound[-1]:.0f}", f"{check.lemma4.tightest:.2f}"]
        cells += [f"{check.lemma5.typical:.2f}", f"{check.lemma6.tightest:.2f}"]
        table.rows.append([", ".join(map(str, places)), *cells])
        points += _points(check, f"S = {sum(places)}")
    table.notes.append(
        f"Quadratic clients in strata of {', '.join(map(str, members))}; {rounds} rounds of {steps} noisy local steps "
        "at the theorem's rates, 400 repetitions. R² and H_k² are the largest that were met. Lemma 5 is an equality "
        "here. C₁ is as printed (eq. 17); the lemmas give 8 (EM − 1)² R² in it, without β."
    )
    return "\n\n".join([table.markdown(), context.save("precision", _precision_chart(points))])


def _points(check: PrecisionCheck, label: str) -> list[dict[str, Any]]:
    """The curves of a check, as rows of a chart."""
    curves = {f"measured, {label}": check.gap, f"bound, {label}": check.bound}
    return [
        {"round": at + 1, "value": float(value), "curve": name}
        for name, values in curves.items()
        for at, value in enumerate(values)
    ]


def _precision_chart(points: list[dict[str, Any]]) -> Any:
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
    """FedSS's Proposition 2: who is classified how, and from which separation of the gradients on it pays."""
    classes = Table(
        "Proposition 2, first step: one label a client (claim: K = L, score 1, and no other K° has score 1)",
        ["labels L", "strata found", "they are the labels", "score", "largest score of another K°"],
    )
    for count in labels:
        found = classify(count, clients, most=most)
        other = "none" if found.next_best < 0 else f"{found.next_best:.3f}"
        right = "yes" if found.right else "no"
        classes.rows.append([str(count), str(found.strata), right, f"{found.score:.3f}", other])
    classes.notes.append(f"{clients} clients, K° = 2 … {most}.")
    gains = Table(
        "Proposition 2, second step: the gain of stratifying (claim: positive where strata are far enough apart)",
        ["distance of the strata's centres", "between, Σ N_k‖h̄_k − h̄‖²", "threshold", "H² − Σ N_k H_k²/N"],
    )
    groups = np.repeat(np.arange(4), 5)
    rng = stream(0, "separated gradients")
    directions = np.eye(4) / np.sqrt(2)  # any two are at distance 1
    scatter = rng.normal(size=(groups.size, 4))
    for k in range(4):
        scatter[groups == k] -= scatter[groups == k].mean(
            axis=0
        )  # so that the strata's centres are where they should be
    for separation in separations:
        gradients = separation * directions[groups] + scatter
        found_spread = dissimilarity(gradients, groups)
        cells = [between(gradients, groups), threshold(found_spread), found_spread.gain]
        gains.rows.append([f"{separation:g}", *[f"{value:.3f}" for value in cells]])
    gains.notes.append("20 clients in four strata; inside a stratum gradients scatter by 1 in each of four directions.")
    return "\n\n".join([classes.markdown(), gains.markdown()])


def posterior_of_cohorts(context: Context, *, rates: list[float], clients: int = 10, size: int = 3) -> str:
    """FedCor's Lemma 1: the loss change of every cohort beside its posterior mean."""
    world = Quadratics(clients=clients)
    table = Table(
        "Lemma 1: every cohort's loss change (eq. 6) and its posterior mean given the cohort's own (eq. 7)",
        ["local rate", "rank correlation", "best ΔL", "ΔL of eq. 7's cohort", "mean ΔL", "gained of best − mean, %"],
    )
    for rate in rates:
        found = check_posterior(world, size, rate)
        losses = [f"{value:.4f}" for value in (found.best, found.chosen, found.average)]
        table.rows.append([f"{rate:g}", f"{found.rank:.3f}", *losses, f"{100 * found.gained:.1f}"])
    table.notes.append(
        f"{clients} quadratic clients in 6 dimensions, all cohorts of {size}, one local step; mean and covariance are "
        "those of all cohorts."
    )
    return table.markdown()


def proxy_convergence(context: Context, *, apart: dict[str, float], moments: list[int], cohort: int = 4) -> str:
    """FedCor's Theorem 1: Δ_t, the gap and the δ of Assumption 7 along the proxy's descent."""
    table = Table(
        "Theorem 1, the proxy algorithm (claims: Δ_t = O(1/t), and the gap vanishes with it)",
        ["clients", "t", "Δ_t, proxy", "gap, proxy", "gap, uniform", "δ that Assumption 7 needs up to t"],
    )
    for name, distance in apart.items():
        context.say(f"Theorem 1: {name}")
        world = QuadraticClients.drawn(20, 6, apart=distance)
        proxy = descend_by_proxy(world, rounds=max(moments), cohort=cohort)
        plain = descend_by_proxy(world, rounds=max(moments), cohort=cohort, uniform=True)
        for t in moments:
            recent = slice(t - t // 10 - 1, t)  # the last tenth, since single rounds scatter
            means = [proxy.distance[recent].mean(), proxy.gap[recent].mean(), plain.gap[recent].mean()]
            needed = proxy.needed[: t - 1].max()
            table.rows.append([name, str(t), *[f"{value:.1e}" for value in means], f"{needed:.1e}"])
    table.notes.append(
        f"20 quadratic clients in 6 dimensions, cohorts of {cohort}, 5 local steps, η_t = β/(t + γ) as the theorem has "
        "it; means over the last tenth of the rounds."
    )
    return table.markdown()


def representation_bound(context: Context, *, kinds: list[int], clients: int = 12, size: int = 4) -> str:
    """LongFed's Theorem 1: the estimation error of all cohorts and its upper bound."""
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
        rank = spearmanr(errors, bounds).statistic
        cells = [ratio.max(), ratio.mean(), rank, errors[bounds.argmin()], errors.min(), errors.mean()]
        table.rows.append([str(count), *[f"{value:.3f}" for value in cells]])
    table.notes.append(
        f"{clients} clients, all {len(cohorts)} cohorts of {size}; gradients of a kind scatter by 0.5 around it. "
        "Ratios of at most 1: the bound holds."
    )
    return table.markdown()
