"""DELTA: Wang et al. 2023, *DELTA: diverse client sampling for fasting federated learning*; with FedIS.

Clients are drawn with replacement, those more often whose gradient is far from the mean or varies much; inverse
probabilities keep the average unbiased. FedIS, the paper's importance sampling, draws by the length of the gradient.

| paper (ICLR 2023 submission) | here |
|---|---|
| eq. 11: p_i ∝ sqrt(α1 ζ_i² + α2 σ_i²) | ``by="diversity"``; only the ratio counts: α1 = ``alpha``, α2 = 1 − α1 |
| ζ_i = ‖∇F_i(x) − ∇f(x)‖ | ``STEP_GRADIENT`` minus the mean over the participants |
| σ_i², variance of local stochastic gradients | ``DISPERSION``²; not reported where ``alpha = 1`` |
| Theorem 3.1 (FedIS): p_i ∝ ‖ĝ_i‖, ĝ_i the sum of the local gradients | ``by="norm"``: ``UPDATE_NORM`` |
| practical version: p_i = 1/N at first; after a round, for i ∈ S: | ``state.share`` = N p_i |
| p_i ← z_i / Σ_{j∈S} z_j · (1 − Σ_{j∉S} p_j), others keep theirs | :meth:`Delta.observe`: the mass of S stays |
| x ← x + (1/n) Σ_{draws} w_i / p_i Δ_i, w_i = n_i / Σ n | weights, ``mass="expected"``; ``weigh``, ``draw`` |

Deviations: the paper's α1 and α2 contain the unknown smoothness. The paper does not say how σ_i is estimated; here it
is the spread along the local path. A probability may fall to 0 and never rise: ``mix`` draws that share uniformly. The
paper has everybody available; here p and w are shares among the available clients, so the average is unbiased for
theirs. The released code draws without replacement and keeps these weights, which biases the average
(``draw="distinct"``); it mixes lengths and distances linearly, without σ, which is not offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    DISPERSION,
    STEP_GRADIENT,
    UPDATE_NORM,
    Cohort,
    Feedback,
    Needs,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_weighted, draw_with_replacement
from sortition.core.ties import round_to_tie_grid
from sortition.selectors._parts.shares import as_shares, weight_shares


@dataclass
class Memory(State):
    """N p_i: each client's probability in units of the uniform one."""

    share: Floats = per_client(1.0)


@method
class Delta(Selector[Memory]):
    """Draws with replacement, by distance from the mean gradient and local variance; the weights are unbiased.

    Attributes:
        by: "diversity" (DELTA), or "norm" of the update (FedIS).
        alpha: α1, weight of the squared distance from the mean; that of the local variance is 1 − α1.
        mix: share of the draws that are uniform, so that nobody's probability is 0.
        weigh: w_i by "size", or the same for all ("equal").
        draw: with "replacement" (unbiased), or "distinct" clients with the same weights, as released.
    """

    by: Literal["diversity", "norm"] = "diversity"
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.8
    mix: Annotated[float, Field(ge=0, le=1)] = 0.1
    weigh: Literal["size", "equal"] = "size"
    draw: Literal["replacement", "distinct"] = "replacement"

    memory = Memory
    cite = """@inproceedings{wang2023delta,
  title = {{DELTA}: Diverse Client Sampling for Fasting Federated Learning},
  author = {Wang, Lin and Guo, Yongxin and Lin, Tao and Tang, Xiaoying},
  booktitle = {Advances in Neural Information Processing Systems}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Take gradients and their spread, or lengths of updates; read the sizes, if they are the weights."""
        if self.by == "norm":
            reports: tuple[Signal, ...] = (UPDATE_NORM,)
        elif self.alpha < 1:
            reports = (STEP_GRADIENT, DISPERSION)
        else:
            reports = (STEP_GRADIENT,)
        if self.weigh == "size":
            return Needs(reads=("sizes",), reports=reports)
        return Needs(reports=reports)

    def select(self, state: Memory, round: Round) -> Cohort:
        """Draw clients with probabilities p, and weigh each draw by w_i / p_i."""
        available = round.available
        p = as_shares((1 - self.mix) * state.share[available] + self.mix)  # a share of 1 is the uniform probability
        w = weight_shares(round.population, round.available, self.weigh)
        if self.draw == "distinct":
            draws = draw_weighted(available, p, round.budget, round.rng)
        else:
            draws = draw_with_replacement(available, p, round.budget, round.rng)
        ids, counts = np.unique(draws, return_counts=True)
        rows = np.searchsorted(available, ids)
        ratio = np.divide(w[rows], p[rows], out=np.zeros(ids.size), where=p[rows] > 0)
        weights = ratio * counts / draws.size
        notes = {"largest": float(p.max()), "smallest": float(p.min())}
        return Cohort(ids, weights, mass="expected", notes=notes)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Set p of the participants by z; their total stays as it was."""
        with np.errstate(over="ignore", invalid="ignore"):  # such lengths of a diverged model teach nothing
            ids, z = self._scores(feedback)
            total = z.sum()
            if not 0 < total < np.inf:
                return
            share = state.share[ids].sum() * z / total
        if np.isfinite(share).all():
            state.share[ids] = share

    def _scores(self, feedback: Feedback) -> tuple[Ids, Floats]:
        """Return the participants that reported, and their z_i."""
        if self.by == "norm":
            norms = feedback.report(UPDATE_NORM)
            return norms.ids, round_to_tie_grid(norms.values)
        gradients = feedback.report(STEP_GRADIENT)
        sigma = np.zeros(feedback.round.n_clients)
        if self.alpha < 1:
            dispersion = feedback.report(DISPERSION)
            gradients = gradients.restrict(dispersion.ids)
            sigma = dispersion.scatter(sigma)
        if not len(gradients):
            return gradients.ids, np.empty(0)
        return gradients.ids, diversity(gradients.values, sigma[gradients.ids], self.alpha)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover DELTA, FedIS, and draws as released."""
        return [{}, {"by": "norm", "mix": 0.2}, {"alpha": 1.0, "weigh": "equal", "draw": "distinct"}]


def diversity(gradients: Array, sigma: Array, alpha: float) -> Floats:
    """Return z_i = sqrt(α1 ζ_i² + α2 σ_i²) of gradients (k, P) and spreads (k,), eq. 11."""
    rows = np.asarray(gradients, np.float64)
    zeta = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    longest = float(np.abs(rows).max(initial=0.0)) * rows.shape[1] ** 0.5
    zeta = round_to_tie_grid(zeta, longest)  # where gradients are equal, only rounding errors differ
    return round_to_tie_grid(np.sqrt(alpha * zeta**2 + (1 - alpha) * np.square(sigma)))
