"""Strata looked at from outside: how noise on histograms blurs them, and how much they are worth on a run's model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from sortition.core import DISPERSION, GRADIENT, Measure, stream
from sortition.core.storage import snapshot
from sortition.reproduction.context import Context
from sortition.reproduction.theory.stratification import dissimilarity, mse
from sortition.results import run_folder
from sortition.results.table import Table
from sortition.selectors._parts.label_privacy import Mechanism, gaussian_scale, noisy_counts
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.fedss.allocation import apportion
from sortition.selectors.fedss.strata import Strata, stratify
from sortition.studies.config import Data, RunConfig, validated
from sortition.studies.federation import setup, split

MECHANISMS: tuple[Mechanism, ...] = ("laplace", "gaussian")
DELTA = 1e-5


def noise(context: Context, *, data: dict[str, Any], epsilon: list[float], most: int = 10, draws: int = 5) -> str:
    """Strata from label counts under ε-differential privacy against those from exact counts."""
    parts = split(validated(Data, data, "figure.data"), 0)
    counts = parts.train.label_counts(parts.dataset.y_train, parts.dataset.classes)
    exact = stratify(label_shares(counts), most, stream(0, "strata"))
    columns = ["ε", "mechanism", "scale of the noise", "strata", "silhouette", "agreement"]
    table = Table("Strata from private label counts", columns)
    table.rows.append(["∞", "none", "0", str(len(exact.means)), f"{exact.score:.3f}", "1.000"])
    for level in sorted(epsilon, reverse=True):
        for mechanism in MECHANISMS:
            made = [_blurred(counts, level, mechanism, most, draw) for draw in range(draws)]
            scale = 1 / level if mechanism == "laplace" else gaussian_scale(level, DELTA)
            agreement = np.mean([adjusted_rand_score(exact.labels, one.labels) for one in made])
            strata, score = np.mean([len(one.means) for one in made]), np.mean([one.score for one in made])
            table.rows.append(
                [f"{level:g}", mechanism, f"{scale:.3g}", f"{strata:.1f}", f"{score:.3f}", f"{agreement:.3f}"]
            )
        context.say(f"strata under ε = {level:g}")
    table.notes.append(
        f"{parts.clients} clients with {counts.sum(axis=1).mean():.0f} examples on average; means of {draws} draws. "
        f"Scale: Laplace's b = 1/ε, or σ for (ε, δ = {DELTA:g}). Agreement: adjusted Rand index with the exact strata."
    )
    return table.markdown()


def _blurred(counts: np.ndarray, epsilon: float, mechanism: Mechanism, most: int, draw: int) -> Strata:
    rng = stream(draw, "blurred strata")
    return stratify(label_shares(noisy_counts(counts, epsilon, mechanism, DELTA, rng)), most, rng)


def worth(context: Context, *, method: str, seed: int = 0) -> str:
    """H², H_k² and eq. 22's last factor on the first and the last model of one run of each setting."""
    columns = ["setting", "model", "H²", "Σ N_k H_k² / N", "gain, eq. 22", "MSE ratio, eq. 13"]
    table = Table(f"What stratifying is worth, measured on {method}'s models", columns)
    for run in context.done(methods=[method]):
        if run.seed == seed:
            context.say(f"gradients of all clients, {run.setting}")
            table.rows += _measured(run)
    table.notes.append(
        "H² and H_k² (eqs. 21 and 11): variance of the clients' gradients plus the mean square of their own gradient "
        "noise. MSE ratio: eq. 13 of proportional stratified sampling over that of simple random sampling, both with "
        "everybody available, in terms of the full local gradients."
    )
    return table.markdown() if table.rows else ""


def _measured(run: run_folder.Run) -> list[list[str]]:
    config = validated(RunConfig, run.config, "run")
    ground, made = setup(config)
    world, everybody = made.world, np.arange(ground.split.clients)
    strata = stratify(label_shares(world.label_counts), config.cohort, stream(config.seed, "strata"))
    arrays, header = snapshot.load(run.path / run_folder.CHECKPOINT)  # the model only: any method's will do
    after = f"after {header['registrar']['index']} rounds"
    rows = []
    for name, params in (("first", world.initial), (after, arrays["params"])):
        gradients = world.measure(params, Measure(GRADIENT, everybody), 0).values
        own = world.train(params, everybody, (DISPERSION,), 0).reports[DISPERSION.name].values
        found, bare = dissimilarity(gradients, strata.labels, own), dissimilarity(gradients, strata.labels)
        inside = found.members @ found.inside / found.members.sum()
        seats = apportion(found.members, config.cohort, found.members)
        n = everybody.size
        simple = (1 / config.cohort - 1 / n) * bare.total
        ratio = mse(found.members, seats, bare.inside) / simple
        rows.append([run.setting, name, f"{found.total:.3g}", f"{inside:.3g}", f"{found.gain:.3g}", f"{ratio:.3f}"])
    return rows
