"""What the papers prove about sampling, beside what is measured: FedSS's lemmas, HiCS-FL's convergence rate."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.stats import spearmanr

from sortition.core import Population, stream
from sortition.core.arrays import Floats, Ids
from sortition.reproduction.context import Context
from sortition.reproduction.theory.bias import bias, expected_error, expected_weights
from sortition.reproduction.theory.entropy_rate import LabelQuadratics, descend
from sortition.reproduction.theory.stratification import bias_of_simple_sampling, mse, mse_bound
from sortition.results.table import Table
from sortition.selectors import load
from sortition.selectors.fedss.allocation import apportion


def strata_lemmas(
    context: Context, *, members: list[int], available: list[int], budgets: list[int], steps: int, rate: float
) -> str:
    """Check FedSS's Lemmas 1 to 3 on a quadratic federation whose availability and samples can all be enumerated."""
    N_k = np.array(members)
    groups = np.repeat(np.arange(len(members)), members)
    optima = _draw_optima(groups)
    models = (1 - (1 - rate) ** steps) * optima  # after so many local steps on ½‖ω − c_n‖² from 0
    population = Population(np.full(groups.size, 10), groups=groups)
    sets = _available_sets(members, available)
    equal_weights = np.full(groups.size, 1 / groups.size)
    bias_formula = float(np.linalg.norm(bias_of_simple_sampling(groups, sets[0][1], models)))
    uniform = load("uniform")
    stratified = load("fedss", by="groups")
    table = Table(
        "FedSS's lemmas, all available sets and all samples enumerated",
        ["S", "bias, simple", "eq. 7", "bias, stratified", "claim", "MSE, stratified", "eq. 13", "bound, eq. 12"],
    )
    for budget in budgets:
        context.say(f"lemmas: S = {budget}")
        bias_uniform = bias(expected_weights(uniform, population, sets, budget), equal_weights, models)
        bias_stratified = bias(expected_weights(stratified, population, sets, budget), equal_weights, models)
        seats = apportion(N_k, budget, np.array(available))
        figures = [
            np.linalg.norm(bias_uniform),
            bias_formula,
            np.linalg.norm(bias_stratified),
            0.0,
            expected_error(stratified, population, sets, budget, vectors=models, target=models.mean(axis=0)),
            mse(N_k, seats, _stratum_variances(models, groups)),
            mse_bound(N_k, seats, _stratum_variances(optima, groups), steps=steps, rate=rate),
        ]
        table.rows.append([str(budget), *[f"{figure:.6f}" for figure in figures]])
    table.notes.append(
        f"{groups.size} quadratic clients in strata of {', '.join(map(str, members))}, of which "
        f"{', '.join(map(str, available))} are available; {len(sets)} equally likely sets. Biases are lengths of "
        f"vectors. Lemma 1's is the same for every S (Remark 2). Eq. 12 with {steps} local steps at rate {rate:g} and "
        "the gradients' spread at the first of them, where it is largest."
    )
    return table.markdown()


def _draw_optima(groups: Ids, size: int = 3) -> Floats:
    """Draw the clients' optima (N, size); those of one stratum lie close together."""
    rng = stream(0, "strata of quadratics")
    centres = 3 * rng.normal(size=(groups.max() + 1, size))
    return np.asarray(centres[groups] + rng.normal(size=(groups.size, size)))


def _stratum_variances(vectors: Floats, groups: Ids) -> Floats:
    """Return the variance inside each stratum (K,)."""
    strata = [vectors[groups == k] for k in range(groups.max() + 1)]
    return np.array([np.var(members, axis=0, ddof=1).sum() for members in strata])


def _available_sets(members: list[int], available: list[int]) -> list[tuple[float, Ids]]:
    """Return every set with so many available clients of each stratum, with its probability; all are equally likely."""
    sets_of_stratum = []
    first_id = 0
    for n_members, n_available in zip(members, available, strict=True):
        sets_of_stratum.append(combinations(range(first_id, first_id + n_members), n_available))
        first_id += n_members
    sets = [np.array(sum(parts, ())) for parts in product(*sets_of_stratum)]
    return [(1 / len(sets), ids) for ids in sets]


def entropy_and_rate(
    context: Context, *, alphas: list[float], priors: dict[str, list[float]], gammas: list[float], rounds: int
) -> str:
    """Check the slides' rate: its bound falls as Σ_k ω_k e^{β(H(D_k) − H(D_0))} grows; the gradient beside it."""
    seeds = context.seeds or 5
    tables = []
    for name, prior in priors.items():
        context.say(f"convergence rate: {name}")
        worlds = [LabelQuadratics(alphas, np.array(prior), seed=seed) for seed in range(seeds)]
        table = Table(
            f"{name}: the slides' term and the gradient (claim: as one grows the other falls)",
            ["γ", "Σ_k ω_k e^{H(D_k) − H(D_0)}", "mean ‖∇F(w)‖²", "bias, second half", "scatter, second half"],
        )
        for gamma in gammas:
            descents = [descend(world, gamma, rounds=rounds, cohort=5, seed=seed) for seed, world in enumerate(worlds)]
            means = np.mean(
                [[descent.term, descent.gradient, descent.bias, descent.scatter] for descent in descents], axis=0
            )
            table.rows.append([f"{gamma:g}", *[f"{mean:.3f}" for mean in means]])
        table.notes.append(
            f"{_correlation_sentence(worlds)} {rounds} rounds, cohorts of 5, {seeds} seeds; β = 1. "
            "Bias: ‖∇F‖² of the mean model; scatter: the variance around it."
        )
        tables.append(table.markdown())
    return "\n\n".join(tables)


def _correlation_sentence(worlds: list[LabelQuadratics]) -> str:
    """Say in a sentence how the clients' entropy and the dissimilarity of their gradients are correlated."""
    ranks = [spearmanr(world.entropy, world.dissimilarity()).statistic for world in worlds]
    return f"Rank correlation of H(D_k) and ‖∇F_k − ∇F‖²: {np.mean(ranks):.2f} (the assumption: negative)."
