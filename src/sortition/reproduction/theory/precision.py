"""FedSS's Theorem 1 and the lemmas of its proof (4 to 6), played on a federation that meets its assumptions.

Losses are ½(ω − c_n)ᵀA(ω − c_n) with one diagonal A for all, so that β and μ are its largest and smallest entry and
the optimum is the mean of all c_n. Constants that a bound needs and that depend on where the models go (R², H_k²) are
the largest that were met. All clients train, as in the paper's equivalent scheme; only sampled ones are aggregated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array, Floats, Ids
from sortition.reproduction.theory.stratification import mse


@dataclass(frozen=True)
class StrataOfQuadratics:
    """Clients in strata; those of one stratum have their optima close together.

    Attributes:
        members: N_k (K,), the number of clients of each stratum.
        curvature: the diagonal of A (d,).
        noise: σ, the root mean square length of a stochastic gradient's error.
        seed: of the optima.
    """

    members: Ids
    curvature: Floats
    noise: float = 0.5
    seed: int = 0

    @property
    def groups(self) -> Ids:
        """(N,) the stratum of each client."""
        return np.repeat(np.arange(len(self.members)), self.members)

    @property
    def optima(self) -> Floats:
        """(N, d) the optimum c_n of each client."""
        rng = stream(self.seed, "strata of quadratics")
        size = len(self.curvature)
        centres = 3 * rng.normal(size=(len(self.members), size))
        return np.asarray(centres[self.groups] + rng.normal(size=(self.groups.size, size)))

    def gap(self, models: Array) -> Floats:
        """F(ω) − F* of models (…, d): ½(ω − ω*)ᵀA(ω − ω*)."""
        return np.asarray(0.5 * (self.curvature * (models - self.optima.mean(axis=0)) ** 2).sum(axis=-1))

    @property
    def heterogeneity(self) -> float:
        """Γ = F* − Σ_n f_n*/N; the clients' own minima are 0."""
        apart = self.optima - self.optima.mean(axis=0)
        return float(0.5 * (self.curvature * apart**2).sum(axis=1).mean())


@dataclass(frozen=True)
class LemmaSides:
    """The left and the right side of a lemma's inequality, one value for each SGD step."""

    left: Floats
    right: Floats

    @property
    def tightest(self) -> float:
        """The largest ratio of the left to the right side; the lemma holds where it is at most 1."""
        return float(np.max(self.left / self.right))

    @property
    def typical(self) -> float:
        """The mean ratio of the left to the right side."""
        return float(np.mean(self.left / self.right))


@dataclass(frozen=True)
class PrecisionCheck:
    """What was measured, and what the theorem says.

    Attributes:
        gap: E[F(ω_t)] − F* after each round (T,).
        bound: B^ss of eq. 16 after each round (T,), with C₁ as printed (eq. 17).
        lemma4: of one SGD step.
        lemma5: of its variance.
        lemma6: of the divergence of local models.
    """

    gap: Floats
    bound: Floats
    lemma4: LemmaSides
    lemma5: LemmaSides
    lemma6: LemmaSides


def precision_bound(
    *,
    beta: float,
    mu: float,
    steps: int,
    rounds: Array,
    gradient_noise: float,
    heterogeneity: float,
    largest_gradient: float,
    sampling_error: float,
    distance: float,
) -> Floats:
    """B^ss after each number of ``rounds``, eqs. 16 to 18.

    Args:
        beta: smoothness.
        mu: strong convexity.
        steps: EM, local steps of a round.
        rounds: T.
        gradient_noise: Σ_n σ_n²/N².
        heterogeneity: Γ.
        largest_gradient: R².
        sampling_error: Σ_k (N_k/N)² (1/S^k − 1/N_k) H_k²; C₂ is 4 (EM)² times it.
        distance: ‖ω_0 − ω*‖².
    """
    first = gradient_noise + 6 * beta * heterogeneity + 8 * beta * (steps - 1) ** 2 * largest_gradient  # C₁, eq. 17
    second = 4 * steps**2 * sampling_error  # C₂, eq. 18
    offset = max(8 * beta / mu - 1, steps)  # α₁
    start = 2 * beta * distance / mu
    return np.asarray(2 * beta / (offset + np.asarray(rounds) * steps) * ((first + second) / mu**2 + start))


def check_precision(
    world: StrataOfQuadratics, seats: Ids, *, rounds: int, steps: int, repeats: int = 400, seed: int = 0
) -> PrecisionCheck:
    """Play FedSS with S^k = ``seats`` from ω_0 = 0 and compare Theorem 1 and Lemmas 4 to 6 with what happens."""
    beta = float(world.curvature.max())
    mu = float(world.curvature.min())
    offset = max(8 * beta / mu - 1, steps)
    groups, optima, size = world.groups, world.optima, len(world.curvature)
    clients = groups.size
    best = optima.mean(axis=0)
    rng = stream(seed, "precision")
    models = np.zeros((repeats, clients, size))  # v_i^n
    sides: dict[str, list[float]] = {name: [] for name in ("next", "now", "noise", "spread", "rate", "length")}
    spreads = np.zeros(len(world.members))  # H_k²
    gap = []
    for step in range(rounds * steps):
        rate = 2 / (mu * (step + offset))
        errors = world.noise * rng.normal(size=models.shape) / np.sqrt(size)
        gradients = world.curvature * (models - optima) + errors
        moved = models - rate * gradients  # ω_{i+1}^n
        sides["rate"].append(rate)
        sides["next"].append(_mean_square(moved.mean(axis=1) - best))
        sides["now"].append(_mean_square(models.mean(axis=1) - best))
        sides["noise"].append(_mean_square(errors.mean(axis=1)))
        sides["spread"].append(_mean_square(models - models.mean(axis=1, keepdims=True)))
        sides["length"].append(float((gradients**2).sum(axis=2).mean(axis=0).max()))
        spreads = np.maximum(spreads, _variances(gradients, groups))
        models = moved
        if (step + 1) % steps == 0:
            aggregate = _stratified(moved, groups, seats, rng)
            models = np.repeat(aggregate[:, None, :], clients, axis=1)
            gap.append(float(world.gap(aggregate).mean()))
    rates = np.array(sides["rate"])
    length = max(sides["length"])  # R²
    noise = world.noise**2 / clients  # Σ_n σ_n²/N²
    divergence = 4 * rates**2 * (steps - 1) ** 2 * length
    contraction = (1 - rates * mu) * np.array(sides["now"]) + rates**2 * np.array(sides["noise"])
    lemma4 = contraction + 6 * beta * rates**2 * world.heterogeneity + 2 * np.array(sides["spread"])
    bound = precision_bound(
        beta=beta,
        mu=mu,
        steps=steps,
        rounds=np.arange(1, rounds + 1),
        gradient_noise=noise,
        heterogeneity=world.heterogeneity,
        largest_gradient=length,
        sampling_error=mse(world.members, seats, spreads),
        distance=float((best**2).sum()),
    )
    return PrecisionCheck(
        gap=np.array(gap),
        bound=bound,
        lemma4=LemmaSides(np.array(sides["next"]), lemma4),
        lemma5=LemmaSides(np.array(sides["noise"]), np.full(rates.size, noise)),
        lemma6=LemmaSides(np.array(sides["spread"]), divergence),
    )


def _mean_square(vectors: Array) -> float:
    """The mean squared length of vectors (…, d)."""
    return float((vectors**2).sum(axis=-1).mean())


def _variances(gradients: Array, groups: Ids) -> Floats:
    """E[Σ_{n∈N_k}‖h_n − h̄_k‖²/(N_k − 1)] of each stratum (K,); gradients are (repeats, N, d)."""
    found = []
    for k in range(groups.max() + 1):
        rows = gradients[:, groups == k]
        apart = rows - rows.mean(axis=1, keepdims=True)
        found.append((apart**2).sum(axis=(1, 2)).mean() / max(rows.shape[1] - 1, 1))
    return np.array(found)


def _stratified(models: Array, groups: Ids, seats: Ids, rng: np.random.Generator) -> Floats:
    """Eq. 9 with equal sizes: from each stratum S^k clients at random, their mean weighted by N_k/N; (repeats, d)."""
    repeats, clients, size = models.shape
    aggregate = np.zeros((repeats, size))
    for k, places in enumerate(seats):
        members = np.flatnonzero(groups == k)
        order = rng.random((repeats, members.size)).argsort(axis=1)[:, :places]
        drawn = np.take_along_axis(models[:, members], order[:, :, None], axis=1)
        aggregate += members.size / clients * drawn.mean(axis=1)
    return aggregate
