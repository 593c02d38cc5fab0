"""Claims of the papers' theory beside what is measured, on federations small enough to compute."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from sortition.core import stream
from sortition.core.arrays import Floats
from sortition.reproduction.context import Context
from sortition.reproduction.theory.graph_distance import (
    cone_share,
    exact_weights,
    expected_weights,
    mean_distance,
    update_errors,
)
from sortition.reproduction.theory.long_term import LongRun, gap_exponent, play_long_run
from sortition.reproduction.theory.loss_covariance import Quadratics, agreement, preference
from sortition.results.table import Table
from sortition.selectors import load
from sortition.selectors.fedcor.gaussian_process import Likelihood, ascend

LONG_TERM = {"LongFed": "longfed", "uniform": "uniform", "full": "full"}  # heading → method


def distance_and_cone(context: Context, *, labels: list[int], cohorts: int = 300, mixtures: int = 2000) -> str:
    """Check FedGS's Theorem 1: the farther a cohort's clients are apart, the more label mixtures they make up."""
    columns = ["labels C = M", "rank correlation", "near half, % of mixtures", "far half, % of mixtures"]
    table = Table("Distance on the graph, and the mixtures that a cohort can make up (claim: grow together)", columns)
    for c in labels:
        context.say(f"Theorem 1: C = {c}")
        rng = stream(0, "label shares", c)
        targets = rng.dirichlet(np.ones(c), mixtures)
        label_shares = [rng.dirichlet(np.full(c, 0.5), c) for _ in range(cohorts)]
        distances = np.array([mean_distance(shares) for shares in label_shares])
        mixtures_made_up = np.array([100 * cone_share(shares, targets) for shares in label_shares])
        near_mean, far_mean = _means_of_halves(mixtures_made_up, distances)
        rank = spearmanr(distances, mixtures_made_up).statistic
        table.rows.append([str(c), f"{rank:.2f}", f"{near_mean:.2f}", f"{far_mean:.2f}"])
    table.notes.append(
        f"{cohorts} cohorts whose clients' labels are Dirichlet(½), {mixtures} mixtures uniform on the simplex. "
        "The theorem is proved for complete graphs and one local step."
    )
    return table.markdown()


def _means_of_halves(values: Floats, distances: Floats) -> tuple[float, float]:
    """Return the means of values over the near and over the far half of the cohorts."""
    is_near = distances <= np.median(distances)
    return float(values[is_near].mean()), float(values[~is_near].mean())


def distance_and_update(context: Context, *, labels: list[int], cohorts: int = 2000, size: int = 12) -> str:
    """Check FedGS's Theorem 1 on quadratics: the distance of a cohort against the error of its update."""
    columns = [
        "labels C = M",
        *("rank, best weights", "near half", "far half"),
        *("rank, equal weights", "near half, equal", "far half, equal"),
    ]
    table = Table(
        "Distance on the graph, and the error of the cohort's update (claim: one falls as the other grows)", columns
    )
    for c in labels:
        context.say(f"Theorem 1, updates: C = {c}")
        rng = stream(0, "quadratic cohorts", c)
        gradients = rng.normal(size=(c, size))  # of ½‖w − c_i‖², one type of data each, at w = 0
        label_shares = [rng.dirichlet(np.full(c, 0.5), c) for _ in range(cohorts)]
        distances = np.array([mean_distance(shares) for shares in label_shares])
        errors = np.array([update_errors(shares, rng.dirichlet(np.ones(c)), gradients) for shares in label_shares])
        row = [str(c)]
        for errors_of_weights in errors.T:  # with the best weights, and with equal weights
            near_mean, far_mean = _means_of_halves(errors_of_weights, distances)
            rank = spearmanr(distances, errors_of_weights).statistic
            row += [f"{rank:.2f}", f"{near_mean:.3f}", f"{far_mean:.3f}"]
        table.rows.append(row)
    table.notes.append(
        f"{cohorts} cohorts, each with a population of its own, uniform on the simplex; one local step. Error: length "
        "of the difference over that of the full update, with the best weights ≥ 0, as in the proof, and with equal "
        "weights."
    )
    return table.markdown()


def weights_of_uniform(context: Context, *, clients: int = 14, budgets: list[int]) -> str:
    """Check FedGS's eqs. 19 to 23: the paper's expected weights of uniform sampling against all cohorts."""
    sizes = np.round(stream(0, "sizes").lognormal(4.0, 0.8, clients))
    share = sizes / sizes.sum()
    table = Table(
        "Expected weights n_k/n · γ_k under uniform sampling (claim: eq. 23)",
        ["M", "γ_k, exact", "γ_k, eq. 22", "largest error of eq. 22, %"],
    )
    for m in budgets:
        exact = exact_weights(sizes, m) / share
        formula = expected_weights(sizes, m) / share
        largest_error = 100 * np.max(np.abs(formula / exact - 1))
        spans = [f"{gammas.min():.3f} … {gammas.max():.3f}" for gammas in (exact, formula)]
        table.rows.append([str(m), *spans, f"{largest_error:.2f}"])
    table.notes.append(
        f"{clients} clients of log-normal size. Eq. 20 replaces the mean of a ratio by the ratio of means; γ_k = 1 "
        "means unbiased."
    )
    return table.markdown()


def covariance_and_gradients(
    context: Context, *, rates: list[float], samples: list[int], size: int = 4, dimension: int = 6
) -> str:
    """Check FedCor's Lemma 3: clients ranked by the covariance of loss changes against ranked by gradients."""
    world = Quadratics()
    truth = agreement(world.gradients, world.weights)
    columns = ["local rate", "samples", "sampled covariance", "fitted process"]
    table = Table("Rank correlation with the agreement of gradients, eq. 63 (claim: the same ranking)", columns)
    for rate in rates:
        for count in samples:
            context.say(f"Lemma 3: rate {rate:g}, {count} samples")
            changes = world.sampled_changes(count, size, rate)
            changes = changes - changes.mean(axis=0)
            row = [f"{rate:g}", str(count)]
            for covariance in (changes.T @ changes / count, _fitted_covariance(changes, dimension)):
                rank = spearmanr(preference(covariance, world.weights), truth).statistic
                row.append(f"{rank:.3f}")
            table.rows.append(row)
    table.notes.append("20 quadratic clients in 6 dimensions, uniform cohorts of 4, one local step; mean taken off.")
    return table.markdown()


def _fitted_covariance(changes: Floats, dimension: int) -> Floats:
    """Return XXᵀ of FedCor's Gaussian process, fitted to loss changes that are scaled to a mean square of 1."""
    scaled = changes / np.sqrt(np.mean(changes**2))
    start = stream(0, "embedding").normal(size=(changes.shape[1], dimension)) / np.sqrt(dimension)
    X = ascend(Likelihood(scaled, np.ones(len(scaled)), 0.01), start, 0.01, 1000)
    return np.asarray(X @ X.T)


def queues_and_gap(context: Context, *, horizons: list[int], budget: int = 4, seeds: int = 5) -> str:
    """Check LongFed's Theorem 2 and eq. 32: queues over T and the gap to the optimum, for growing horizons."""
    n_seeds = context.seeds or seeds
    runs_by_label = {
        label: _mean_runs(context, name, horizons=horizons, budget=budget, seeds=n_seeds)
        for label, name in LONG_TERM.items()
    }
    queues = [run.queue for run in runs_by_label["LongFed"]]
    gaps = {label: np.array([run.gap for run in runs]) for label, runs in runs_by_label.items()}
    table = Table(
        "A quadratic federation with learning rate ∝ 1/√T (claims: queue/T → 0; gap = O(1/√T) and a term that stays)",
        ["T", "LongFed: longest queue / T", *[f"gap, {label}" for label in gaps]],
    )
    for position, rounds in enumerate(horizons):
        gaps_of_horizon = [f"{gaps_of_label[position]:.2e}" for gaps_of_label in gaps.values()]
        table.rows.append([str(rounds), f"{queues[position]:.4f}", *gaps_of_horizon])
    exponents = [gap_exponent(np.array(horizons), gaps_of_label) for gaps_of_label in gaps.values()]
    table.rows.append(["exponent", "", *[f"{exponent:.2f}" for exponent in exponents]])
    table.notes.append(
        f"20 clients of 4 kinds, {budget} a round, noisy gradients, {n_seeds} seeds. Gap: F(w_T) − F*. "
        "Exponent: a of gap ~ T^a; −0.5 or less is what the claim needs, until the term that stays is reached."
    )
    return table.markdown()


def _mean_runs(context: Context, name: str, *, horizons: list[int], budget: int, seeds: int) -> list[LongRun]:
    """Return the means over seeds, one for each horizon."""
    means = []
    for rounds in horizons:
        context.say(f"{name}: T = {rounds}")
        runs = [play_long_run(load(name), rounds, budget=budget, seed=seed) for seed in range(seeds)]
        gap = float(np.mean([run.gap for run in runs]))
        queue = float(np.mean([run.queue for run in runs]))
        means.append(LongRun(gap=gap, queue=queue))
    return means
