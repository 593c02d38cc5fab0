"""FedSS's Theorem 1 and the lemmas of its proof (4 to 6), played on a federation that meets its assumptions.

Losses are ½(ω − c_n)ᵀA(ω − c_n) with one diagonal A for all, so that β and μ are its largest and smallest entry and
the optimum is the mean of all c_n. Constants that a bound needs and that depend on where the models go (R², H_k²) are
the largest that were met. All clients train, as in the paper's equivalent scheme; only sampled ones are aggregated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
        """Return F(ω) − F* of models (…, d): ½(ω − ω*)ᵀA(ω − ω*)."""
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
    """Return B^ss after each number of ``rounds``, eqs. 16 to 18.

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


@dataclass
class _Played:
    """What was measured at each SGD step of a play, and after its rounds.

    Attributes:
        rate: η_i.
        distance_after: E‖ω̄_{i+1} − ω*‖².
        distance_before: E‖v̄_i − ω*‖².
        noise: E‖g_i − ḡ_i‖².
        spread: E Σ_n‖v̄_i − v_i^n‖²/N.
        length: the largest E‖∇f_n(v_i^n; ξ)‖² of any client.
        variances: the variance of gradients inside each stratum (K,).
        gap: E[F(ω_t)] − F* after each round.
    """

    rate: list[float] = field(default_factory=list)
    distance_after: list[float] = field(default_factory=list)
    distance_before: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    variances: list[Floats] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)


def check_precision(
    world: StrataOfQuadratics, seats: Ids, *, rounds: int, steps: int, repeats: int = 400, seed: int = 0
) -> PrecisionCheck:
    """Play FedSS with S^k = ``seats`` from ω_0 = 0 and compare Theorem 1 and Lemmas 4 to 6 with what happens."""
    beta = float(world.curvature.max())
    mu = float(world.curvature.min())
    played = _play(world, seats, rounds=rounds, steps=steps, repeats=repeats, seed=seed)
    rates = np.array(played.rate)
    largest_gradient = max(played.length)  # R²
    noise = world.noise**2 / world.groups.size  # Σ_n σ_n²/N²
    contraction = (1 - rates * mu) * np.array(played.distance_before) + rates**2 * np.array(played.noise)
    step_bound = contraction + 6 * beta * rates**2 * world.heterogeneity + 2 * np.array(played.spread)
    bound = precision_bound(
        beta=beta,
        mu=mu,
        steps=steps,
        rounds=np.arange(1, rounds + 1),
        gradient_noise=noise,
        heterogeneity=world.heterogeneity,
        largest_gradient=largest_gradient,
        sampling_error=mse(world.members, seats, np.max(played.variances, axis=0)),
        distance=float((world.optima.mean(axis=0) ** 2).sum()),
    )
    return PrecisionCheck(
        gap=np.array(played.gap),
        bound=bound,
        lemma4=LemmaSides(np.array(played.distance_after), step_bound),
        lemma5=LemmaSides(np.array(played.noise), np.full(rates.size, noise)),
        lemma6=LemmaSides(np.array(played.spread), 4 * rates**2 * (steps - 1) ** 2 * largest_gradient),
    )


def _play(world: StrataOfQuadratics, seats: Ids, *, rounds: int, steps: int, repeats: int, seed: int) -> _Played:
    """Train all clients from ω_0 = 0 at the theorem's rates; aggregate a stratified sample after each round."""
    mu = float(world.curvature.min())
    offset = max(8 * float(world.curvature.max()) / mu - 1, steps)  # α₁
    groups = world.groups
    optima = world.optima
    size = len(world.curvature)
    best = optima.mean(axis=0)
    rng = stream(seed, "precision")
    models = np.zeros((repeats, groups.size, size))  # v_i^n
    played = _Played()
    for step in range(rounds * steps):
        rate = 2 / (mu * (step + offset))
        errors = world.noise * rng.normal(size=models.shape) / np.sqrt(size)
        gradients = world.curvature * (models - optima) + errors
        moved = models - rate * gradients  # ω_{i+1}^n
        played.rate.append(rate)
        played.distance_after.append(_mean_square(moved.mean(axis=1) - best))
        played.distance_before.append(_mean_square(models.mean(axis=1) - best))
        played.noise.append(_mean_square(errors.mean(axis=1)))
        played.spread.append(_mean_square(models - models.mean(axis=1, keepdims=True)))
        played.length.append(float((gradients**2).sum(axis=2).mean(axis=0).max()))
        played.variances.append(_stratum_variances(gradients, groups))
        models = moved
        if (step + 1) % steps == 0:
            aggregate = _aggregate_stratified(moved, groups, seats, rng)
            models = np.repeat(aggregate[:, None, :], groups.size, axis=1)
            played.gap.append(float(world.gap(aggregate).mean()))
    return played


def _mean_square(vectors: Array) -> float:
    """Return the mean squared length of vectors (…, d)."""
    return float((vectors**2).sum(axis=-1).mean())


def _stratum_variances(gradients: Array, groups: Ids) -> Floats:
    """Return E[Σ_{n∈N_k}‖h_n − h̄_k‖²/(N_k − 1)] of each stratum (K,); gradients are (repeats, N, d)."""
    variances = []
    for k in range(groups.max() + 1):
        gradients_of_stratum = gradients[:, groups == k]
        deviations = gradients_of_stratum - gradients_of_stratum.mean(axis=1, keepdims=True)
        n_members = gradients_of_stratum.shape[1]
        variances.append((deviations**2).sum(axis=(1, 2)).mean() / max(n_members - 1, 1))
    return np.array(variances)


def _aggregate_stratified(models: Array, groups: Ids, seats: Ids, rng: np.random.Generator) -> Floats:
    """Aggregate by eq. 9 with equal sizes: S^k random clients of each stratum, their mean weighted by N_k/N.

    Models are (repeats, N, d), the aggregate is (repeats, d).
    """
    repeats, clients, size = models.shape
    aggregate = np.zeros((repeats, size))
    for k, places in enumerate(seats):
        members = np.flatnonzero(groups == k)
        order = rng.random((repeats, members.size)).argsort(axis=1)[:, :places]
        sampled_models = np.take_along_axis(models[:, members], order[:, :, None], axis=1)
        aggregate += members.size / clients * sampled_models.mean(axis=1)
    return aggregate
