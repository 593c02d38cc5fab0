"""How skewed clients' labels are, what HiCS-FL's estimate sees of it, and what it does to their gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from sortition.core import BIAS_UPDATE, GRADIENT, Measure
from sortition.core.arrays import Array, Floats
from sortition.reproduction.theory.bias import recorded
from sortition.results.run_folder import Run
from sortition.selectors.hics import ROW_MEANS, entropy_estimate
from sortition.simulation import World

BETAS = np.geomspace(0.25, 20, 45)


@dataclass(frozen=True)
class Heterogeneity:
    """Of every client under one model, (N,) each.

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
        """The bound at H(D_k) − H(D_0)."""
        return np.asarray(self.kappa - self.rho * np.exp(self.beta * np.asarray(gap)))


def label_entropy(counts: Array) -> Floats:
    """(N, C) label counts → (N,) Shannon entropies in nats; 0 for a client without examples."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(-(share * np.log(np.where(share > 0, share, 1))).sum(axis=1))


def measure_heterogeneity(world: World, params: Array, t: int, temperature: float) -> Heterogeneity:
    """Every client trains once from ``params``, and its full gradient there is compared with the federation's."""
    ids = np.arange(world.n_clients)
    reports = world.train(params, ids, (BIAS_UPDATE, ROW_MEANS), t).reports
    gradients = np.asarray(world.measure(params, Measure(GRADIENT, ids), t).values, np.float64)
    sizes = world.holdings.sizes
    mean = sizes @ gradients / sizes.sum()
    return Heterogeneity(
        label_entropy(world.label_counts),
        entropy_estimate(reports[BIAS_UPDATE.name].values, temperature),
        entropy_estimate(reports[ROW_MEANS.name].values, temperature),
        np.asarray(((gradients - mean) ** 2).sum(axis=1)),
    )


def envelope(gap: Array, dissimilarity: Array) -> Envelope:
    """Fit the slides' assumption: for each β a linear programme in κ and ρ, the β with the least mean slack."""
    best, found = np.inf, (float(dissimilarity.max()), 0.0, float(BETAS[0]))
    for beta in BETAS:
        curve = np.exp(beta * gap)
        solved = linprog(
            [1.0, -curve.mean()],  # the mean of κ − ρ e^{βx}
            A_ub=np.vstack([np.column_stack([-np.ones_like(curve), curve]), [[-1.0, 1.0]]]),
            b_ub=np.append(-dissimilarity, 0.0),
            bounds=[(0, None), (0, None)],
        )
        if solved.status == 0 and solved.fun < best - 1e-12:
            best, found = float(solved.fun), (float(solved.x[0]), float(solved.x[1]), float(beta))
    constant = float(dissimilarity.max() - dissimilarity.mean())
    slack = max(best - float(dissimilarity.mean()), 0.0)
    return Envelope(*found, 1 - slack / constant if constant > 0 else 0.0)


# -- metrics of a run -----------------------------------------------------------------------------------------------


def selected_entropy(run: Run) -> float | None:
    """Mean over the rounds of Σ_k w_k H(D_k): the label entropy of those who train, in nats."""
    weights, entropy = recorded(run), label_entropy(run.federation()["label_counts"].astype(np.float64))
    return float((weights @ entropy).mean()) if len(weights) else None


def estimated_entropy(run: Run) -> float | None:
    """Mean over the rounds of Ĥ, HiCS-FL's estimate, of those whom it drew by groups, in nats; None without any."""
    found = [(record.get("notes") or {}).get("entropy") for record in run.records]
    values = [float(one) for one in found if one is not None]
    return float(np.mean(values)) if values else None


def clustered_share(run: Run) -> float | None:
    """The share of the rounds after warm-up in which HiCS-FL sampled by clusters instead; None without such rounds."""
    drawn_by_clusters = []
    for record in run.records:
        notes = record.get("notes") or {}
        clustered = notes.get("stage") == "clustered"
        if clustered or "gamma" in notes:
            drawn_by_clusters.append(clustered)
    return float(np.mean(drawn_by_clusters)) if drawn_by_clusters else None


def convergence_term(run: Run, *, beta: float = 1.0) -> float | None:
    """Mean over the rounds of Σ_k w_k e^{β(H(D_k) − H(D_0))}, in (0, 1]: the slides' bound falls as it grows."""
    weights, counts = recorded(run), run.federation()["label_counts"].astype(np.float64)
    gap = label_entropy(counts) - np.log(counts.shape[1])
    return float((weights @ np.exp(beta * gap)).mean()) if len(weights) else None
