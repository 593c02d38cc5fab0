"""What the papers prove about who is sampled, beside what is measured: FedSS's lemmas, HiCS-FL's convergence rate."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.stats import spearmanr

from sortition.core import Population, stream
from sortition.core.arrays import Floats, Ids
from sortition.reproduction.context import Context
from sortition.reproduction.theory.bias import bias, exact, exact_error
from sortition.reproduction.theory.entropy_rate import LabelQuadratics, descend
from sortition.reproduction.theory.stratification import bias_of_simple_sampling, mse, mse_bound
from sortition.results.table import Table
from sortition.selectors import load
from sortition.selectors.fedss.allocation import apportion


def strata_lemmas(
    context: Context, *, members: list[int], available: list[int], budgets: list[int], steps: int, rate: float
) -> str:
    """Lemmas 1 to 3 on a quadratic federation whose availability sets and samples can all be enumerated."""
    groups = np.repeat(np.arange(len(members)), members)
    optima = _optima(groups)
    models = (1 - (1 - rate) ** steps) * optima  # after so many local steps on ½‖ω − c_n‖² from 0
    population = Population(np.full(groups.size, 10), groups=groups)
    sets = _sets(members, available)
    mean, equal = models.mean(axis=0), np.full(groups.size, 1 / groups.size)
    formula = float(np.linalg.norm(bias_of_simple_sampling(groups, sets[0][1], models)))
    table = Table(
        "FedSS's lemmas, all available sets and all samples enumerated",
        ["S", "bias, simple", "eq. 7", "bias, stratified", "claim", "MSE, stratified", "eq. 13", "bound, eq. 12"],
    )
    for budget in budgets:
        context.say(f"lemmas: S = {budget}")
        simple = bias(exact(load("uniform"), population, sets, budget), equal, models)
        strata = load("fedss", by="groups")
        there = bias(exact(strata, population, sets, budget), equal, models)
        seats = apportion(np.array(members), budget, np.array(available))
        spreads = [np.var(models[groups == k], axis=0, ddof=1).sum() for k in range(len(members))]
        slopes = [np.var(optima[groups == k], axis=0, ddof=1).sum() for k in range(len(members))]
        error = exact_error(strata, population, sets, budget, models, mean)
        bound = mse_bound(np.array(members), seats, np.array(slopes), steps=steps, rate=rate)
        cells = [np.linalg.norm(simple), formula, np.linalg.norm(there), 0.0]
        cells += [error, mse(np.array(members), seats, np.array(spreads)), bound]
        table.rows.append([str(budget), *[f"{value:.6f}" for value in cells]])
    table.notes.append(
        f"{groups.size} quadratic clients in strata of {', '.join(map(str, members))}, of which "
        f"{', '.join(map(str, available))} are available; {len(sets)} equally likely sets. Biases are lengths of "
        f"vectors. Lemma 1's is the same for every S (Remark 2). Eq. 12 with {steps} local steps at rate {rate:g} and "
        "the gradients' spread at the first of them, where it is largest."
    )
    return table.markdown()


def _optima(groups: Ids, size: int = 3) -> Floats:
    """Clients of one stratum lie close together."""
    rng = stream(0, "strata of quadratics")
    hearts = 3 * rng.normal(size=(groups.max() + 1, size))
    return np.asarray(hearts[groups] + rng.normal(size=(groups.size, size)))


def _sets(members: list[int], available: list[int]) -> list[tuple[float, Ids]]:
    """Every set with so many available clients of each stratum, equally likely."""
    first = np.cumsum([0, *members[:-1]])
    ways = [combinations(range(at, at + n), k) for at, n, k in zip(first, members, available, strict=True)]
    found = [np.array(sum(parts, ())) for parts in product(*ways)]
    return [(1 / len(found), one) for one in found]


def entropy_and_rate(
    context: Context, *, alphas: list[float], priors: dict[str, list[float]], gammas: list[float], rounds: int
) -> str:
    """The slides' rate: its bound falls as Σ_k ω_k e^{β(H(D_k) − H(D_0))} grows; the gradient beside it."""
    seeds, tables = context.seeds or 5, []
    for name, prior in priors.items():
        context.say(f"convergence rate: {name}")
        worlds = [LabelQuadratics(alphas, np.array(prior), seed=seed) for seed in range(seeds)]
        table = Table(
            f"{name}: the slides' term and the gradient (claim: as one grows the other falls)",
            ["γ", "Σ_k ω_k e^{H(D_k) − H(D_0)}", "mean ‖∇F(w)‖²", "bias, second half", "scatter, second half"],
        )
        for gamma in gammas:
            runs = [descend(world, gamma, rounds=rounds, cohort=5, seed=at) for at, world in enumerate(worlds)]
            means = np.mean([[one.term, one.gradient, one.bias, one.scatter] for one in runs], axis=0)
            table.rows.append([f"{gamma:g}", *[f"{value:.3f}" for value in means]])
        table.notes.append(
            f"{_variance(worlds)} {rounds} rounds, cohorts of 5, {seeds} seeds; β = 1. Bias: ‖∇F‖² of the mean model; "
            "scatter: the variance around it."
        )
        tables.append(table.markdown())
    return "\n\n".join(tables)


def _variance(worlds: list[LabelQuadratics]) -> str:
    """The variance term against entropy, in a sentence."""
    ranks = [spearmanr(world.entropy, world.dissimilarity()).statistic for world in worlds]
    return f"Rank correlation of H(D_k) and ‖∇F_k − ∇F‖²: {np.mean(ranks):.2f} (the assumption: negative)."
