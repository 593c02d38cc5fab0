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
| p_i ← z_i / Σ_{j∈S} z_j · (1 − Σ_{j∉S} p_j), others keep theirs | :meth:`observe`: the mass of S stays |
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
    Reading,
    Round,
    Selector,
    State,
    method,
    per_client,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import weighted, with_replacement
from sortition.core.ties import rounded
from sortition.selectors._parts.shares import shares


@dataclass
class Memory(State):
    """N p_i: each client's probability in units of the uniform one."""

    share: Floats = per_client(1.0)


@method
class Delta(Selector[Memory]):
    """Draws with replacement, by distance from the mean gradient and local variance; unbiased weights.

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
        """Gradients and their spread, or the length of the update; sizes, if they are the weights."""
        spread = (DISPERSION,) if self.alpha < 1 else ()
        reports = (UPDATE_NORM,) if self.by == "norm" else (STEP_GRADIENT, *spread)
        return Needs(reads=("sizes",) if self.weigh == "size" else (), reports=reports)

    def select(self, state: Memory, round: Round) -> Cohort:
        """Draw, and weigh by inverse probability."""
        here = round.available
        p = shares((1 - self.mix) * state.share[here] + self.mix)
        w = shares(np.asarray(round.population.sizes[here], float) if self.weigh == "size" else np.ones(here.size))
        if self.draw == "distinct":
            drawn = weighted(here, p, round.budget, round.rng)
        else:
            drawn = with_replacement(here, p, round.budget, round.rng)
        ids, counts = np.unique(drawn, return_counts=True)
        at = np.searchsorted(here, ids)
        weights = np.divide(w[at], p[at], out=np.zeros(ids.size), where=p[at] > 0) * counts / drawn.size
        return Cohort(ids, weights, mass="expected", notes={"largest": float(p.max()), "smallest": float(p.min())})

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """p of the participants by z, with their total as it was."""
        with np.errstate(over="ignore", invalid="ignore"):  # such lengths of a diverged model teach nothing
            ids, z = self._scores(feedback)
            total = z.sum()
            share = state.share[ids].sum() * z / total if 0 < total < np.inf else np.full(z.size, np.nan)
        if np.isfinite(share).all():
            state.share[ids] = share

    def _scores(self, feedback: Feedback) -> tuple[Ids, Floats]:
        """The participants that reported, and their z_i."""
        if self.by == "norm":
            norms = feedback.report(UPDATE_NORM)
            return norms.ids, rounded(norms.values)
        gradients, spread = feedback.report(STEP_GRADIENT), Reading.empty()
        if self.alpha < 1:
            spread = feedback.report(DISPERSION)
            gradients = gradients.restrict(spread.ids)
        if not len(gradients):
            return gradients.ids, np.empty(0)
        sigma = spread.scatter(np.zeros(feedback.round.n_clients))[gradients.ids] if self.alpha < 1 else 0.0
        return gradients.ids, diversity(gradients.values, sigma, self.alpha)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """DELTA, FedIS, and draws as released."""
        return [{}, {"by": "norm", "mix": 0.2}, {"alpha": 1.0, "weigh": "equal", "draw": "distinct"}]


def diversity(gradients: Array, sigma: Array | float, alpha: float) -> Floats:
    """z_i of gradients (k, P) and spreads (k,)."""
    rows = np.asarray(gradients, np.float64)
    apart = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    length = float(np.abs(rows).max(initial=0.0)) * rows.shape[1] ** 0.5
    apart = rounded(apart, length)  # of equal gradients only rounding is left
    return rounded(np.sqrt(alpha * apart**2 + (1 - alpha) * np.square(sigma)))
