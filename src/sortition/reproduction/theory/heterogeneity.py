"""How skewed clients' labels are, what HiCS-FL's estimate shows of it, and what it does to their gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from sortition.core import BIAS_UPDATE, GRADIENT, Measure
from sortition.core.arrays import Array, Floats
from sortition.reproduction.theory.bias import recorded_weights
from sortition.results.run_folder import Run
from sortition.selectors.hics import ROW_MEANS, entropy_estimate
from sortition.simulation import World

BETAS = np.geomspace(0.25, 20, 45)


@dataclass(frozen=True)
class Heterogeneity:
    """Entropies and gradients of every client under one model, (N,) each.

    Attributes:
        truth: H(D_k), the entropy of its labels in nats.
        bias: Ĥ of the output layer's bias change (HiCS-FL, eq. 7).
        rows: Ĥ of the row means of the output layer's weight change (the released code).
        dissimilarity: ‖∇F_k(w) − ∇F(w)‖².
    """

    truth: Floats
    bias: Floats
    rows: Floats
    dissimilarity: Floats


@dataclass(frozen=True)
class Envelope:
    """The tightest bound of the form κ − ρ e^{β(H(D_k) − H(D_0))}, κ ≥ ρ ≥ 0, that holds for all clients.

    ``tighter``: the share of a constant bound's mean slack that it saves.
    """

    kappa: float
    rho: float
    beta: float
    tighter: float

    def at(self, gap: Array) -> Floats:
        """Return the bound at H(D_k) − H(D_0)."""
        return np.asarray(self.kappa - self.rho * np.exp(self.beta * np.asarray(gap)))


def label_entropy(counts: Array) -> Floats:
    """Return the Shannon entropies (N,) of label counts (N, C), in nats; 0 for a client without examples."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(-(share * np.log(np.where(share > 0, share, 1))).sum(axis=1))


def measure_heterogeneity(world: World, params: Array, t: int, temperature: float) -> Heterogeneity:
    """Train every client once from ``params``, and compare its full gradient there with the federation's."""
    everybody = np.arange(world.n_clients)
    reports = world.train(params, everybody, (BIAS_UPDATE, ROW_MEANS), t).reports
    gradients = np.asarray(world.measure(params, Measure(GRADIENT, everybody), t).values, np.float64)
    sizes = world.training_parts.sizes
    global_gradient = sizes @ gradients / sizes.sum()
    return Heterogeneity(
        truth=label_entropy(world.label_counts),
        bias=entropy_estimate(reports[BIAS_UPDATE.name].values, temperature),
        rows=entropy_estimate(reports[ROW_MEANS.name].values, temperature),
        dissimilarity=np.asarray(((gradients - global_gradient) ** 2).sum(axis=1)),
    )


def fit_envelope(gap: Array, dissimilarity: Array) -> Envelope:
    """Fit the slides' assumption: for each β a linear programme in κ and ρ, the β with the least mean slack."""
    least_mean = np.inf  # of the bound over the clients
    kappa = float(dissimilarity.max())
    rho = 0.0
    best_beta = float(BETAS[0])
    for beta in BETAS:
        curve = np.exp(beta * gap)
        solved = linprog(
            [1.0, -curve.mean()],  # the mean of κ − ρ e^{βx}
            A_ub=np.vstack([np.column_stack([-np.ones_like(curve), curve]), [[-1.0, 1.0]]]),
            b_ub=np.append(-dissimilarity, 0.0),
            bounds=[(0, None), (0, None)],
        )
        if solved.status == 0 and solved.fun < least_mean - 1e-12:
            least_mean = float(solved.fun)
            kappa, rho = map(float, solved.x)
            best_beta = float(beta)
    constant_slack = float(dissimilarity.max() - dissimilarity.mean())
    slack = max(least_mean - float(dissimilarity.mean()), 0.0)
    saved = 0.0
    if constant_slack > 0:
        saved = 1 - slack / constant_slack
    return Envelope(kappa=kappa, rho=rho, beta=best_beta, tighter=saved)


# -- metrics of a run -----------------------------------------------------------------------------------------------


def selected_entropy(run: Run) -> float | None:
    """Return the mean over the rounds of Σ_k w_k H(D_k): the label entropy of those who train, in nats."""
    weights = recorded_weights(run)
    if not len(weights):
        return None
    entropy = label_entropy(run.federation()["label_counts"].astype(np.float64))
    return float((weights @ entropy).mean())


def estimated_entropy(run: Run) -> float | None:
    """Return the mean of Ĥ, HiCS-FL's estimate, over the rounds that drew by groups, in nats; None without any."""
    notes = [record.get("notes") or {} for record in run.records]
    estimates = [float(note["entropy"]) for note in notes if note.get("entropy") is not None]
    if not estimates:
        return None
    return float(np.mean(estimates))


def clustered_share(run: Run) -> float | None:
    """Return the share of rounds after warm-up in which HiCS-FL sampled by clusters instead; None without any."""
    drawn_by_clusters = []
    for record in run.records:
        notes = record.get("notes") or {}
        clustered = notes.get("stage") == "clustered"
        if clustered or "gamma" in notes:
            drawn_by_clusters.append(clustered)
    if not drawn_by_clusters:
        return None
    return float(np.mean(drawn_by_clusters))


def convergence_term(run: Run, *, beta: float = 1.0) -> float | None:
    """Return the mean of Σ_k w_k e^{β(H(D_k) − H(D_0))} over rounds, in (0, 1]: the slides' bound falls as it grows."""
    weights = recorded_weights(run)
    if not len(weights):
        return None
    label_counts = run.federation()["label_counts"].astype(np.float64)
    gap = label_entropy(label_counts) - np.log(label_counts.shape[1])
    return float((weights @ np.exp(beta * gap)).mean())
