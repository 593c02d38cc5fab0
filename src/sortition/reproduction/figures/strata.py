"""FedSS's strata: how private noise on label counts blurs them, and how much they are worth on a run's models."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from sortition.core import DISPERSION, GRADIENT, Measure, stream
from sortition.core.arrays import Array
from sortition.core.storage import snapshot
from sortition.reproduction.context import Context, Toml
from sortition.reproduction.theory.stratification import dissimilarity, mse
from sortition.results import run_folder
from sortition.results.table import Table
from sortition.selectors._parts.label_privacy import Mechanism, gaussian_scale, noisy_counts
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.fedss.allocation import apportion
from sortition.selectors.fedss.strata import Strata, stratify
from sortition.studies.build_federation import setup, split_data
from sortition.studies.config import Data, RunConfig, validated

MECHANISMS: tuple[Mechanism, ...] = ("laplace", "gaussian")
DELTA = 1e-5


def noise(context: Context, *, data: Toml, epsilon: list[float], most: int = 10, draws: int = 5) -> str:
    """Compare strata from label counts under ε-differential privacy with those from exact counts."""
    parts = split_data(validated(Data, data, "figure.data"), 0)
    counts = parts.train.label_counts(parts.dataset.y_train, parts.dataset.classes)
    exact = stratify(label_shares(counts), most, stream(0, "strata"))
    columns = ["ε", "mechanism", "scale of the noise", "strata", "silhouette", "agreement"]
    table = Table("Strata from private label counts", columns)
    table.rows.append(["∞", "none", "0", str(len(exact.means)), f"{exact.score:.3f}", "1.000"])
    for level in sorted(epsilon, reverse=True):
        for mechanism in MECHANISMS:
            blurred = [
                _stratify_noisy(counts, epsilon=level, mechanism=mechanism, most=most, draw=draw)
                for draw in range(draws)
            ]
            table.rows.append(
                [
                    f"{level:g}",
                    mechanism,
                    f"{_noise_scale(level, mechanism):.3g}",
                    f"{np.mean([len(strata.means) for strata in blurred]):.1f}",
                    f"{np.mean([strata.score for strata in blurred]):.3f}",
                    f"{np.mean([adjusted_rand_score(exact.labels, strata.labels) for strata in blurred]):.3f}",
                ]
            )
        context.say(f"strata under ε = {level:g}")
    table.notes.append(
        f"{parts.clients} clients with {counts.sum(axis=1).mean():.0f} examples on average; means of {draws} draws. "
        f"Scale: Laplace's b = 1/ε, or σ for (ε, δ = {DELTA:g}). Agreement: adjusted Rand index with the exact strata."
    )
    return table.markdown()


def _stratify_noisy(counts: Array, *, epsilon: float, mechanism: Mechanism, most: int, draw: int) -> Strata:
    """Stratify clients by noisy label counts."""
    rng = stream(draw, "blurred strata")
    noisy = noisy_counts(counts, epsilon=epsilon, mechanism=mechanism, delta=DELTA, rng=rng)
    return stratify(label_shares(noisy), most, rng)


def _noise_scale(epsilon: float, mechanism: Mechanism) -> float:
    if mechanism == "laplace":
        return 1 / epsilon
    return gaussian_scale(epsilon, DELTA)


def worth(context: Context, *, method: str, seed: int = 0) -> str:
    """Tabulate H², H_k² and eq. 22's last factor on the first and the last model of one run of each setting."""
    columns = ["setting", "model", "H²", "Σ N_k H_k² / N", "gain, eq. 22", "MSE ratio, eq. 13"]
    table = Table(f"What stratifying is worth, measured on {method}'s models", columns)
    for run in context.finished_runs(methods=[method]):
        if run.seed == seed:
            context.say(f"gradients of all clients, {run.setting}")
            table.rows += _dissimilarity_rows(run)
    if not table.rows:
        return ""
    table.notes.append(
        "H² and H_k² (eqs. 21 and 11): variance of the clients' gradients plus the mean square of their own gradient "
        "noise. MSE ratio: eq. 13 of proportional stratified sampling over that of simple random sampling, both with "
        "everybody available, in terms of the full local gradients."
    )
    return table.markdown()


def _dissimilarity_rows(run: run_folder.Run) -> list[list[str]]:
    """Return the rows of a run: its first and its last model."""
    config = validated(RunConfig, run.config, "run")
    ground, federation = setup(config)
    world = federation.world
    n = ground.split.clients
    everybody = np.arange(n)
    strata = stratify(label_shares(world.label_counts), config.cohort, stream(config.seed, "strata"))
    arrays, header = snapshot.load(run.path / run_folder.CHECKPOINT)  # the model only: any method's will do
    models = {"first": world.initial, f"after {header['registrar']['index']} rounds": arrays["params"]}
    rows = []
    for name, params in models.items():
        gradients = world.measure(params, Measure(GRADIENT, everybody), 0).values
        gradient_noise = world.train(params, everybody, (DISPERSION,), 0).reports[DISPERSION.name].values
        noisy = dissimilarity(gradients, strata.labels, gradient_noise)
        exact = dissimilarity(gradients, strata.labels)
        mean_inside = noisy.members @ noisy.inside / noisy.members.sum()
        seats = apportion(noisy.members, config.cohort, noisy.members)
        mse_simple = (1 / config.cohort - 1 / n) * exact.total
        mse_stratified = mse(noisy.members, seats, exact.inside)
        rows.append(
            [
                run.setting,
                name,
                f"{noisy.total:.3g}",
                f"{mean_inside:.3g}",
                f"{noisy.gain:.3g}",
                f"{mse_stratified / mse_simple:.3f}",
            ]
        )
    return rows
