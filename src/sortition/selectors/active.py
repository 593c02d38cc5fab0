"""Active federated learning (AFL): Goetz et al. 2019, *Active federated learning*.

| paper | here |
|---|---|
| v_k = (1/√n_k) Σ_i loss_i, of the model received | √n_k · ``LOSS``, refreshed only for those who train |
| α1: share of clients, lowest v first, set to −∞ | ``alpha1`` |
| α2: softmax temperature, p_k ∝ exp(α2 v_k) | ``alpha2`` |
| α3: share of the cohort drawn uniformly | ``alpha3`` |

⌊α1·|A|⌋ available clients are dropped, ⌊(1 − α3)m⌋ of the cohort are drawn without replacement by p, the rest uniformly
from all not yet chosen.

Deviations: a client whose v is unknown is asked when first met (FedCor's experiments ask everybody at w_0, which is the
same when all are available). The kept number is raised where α1 would leave fewer clients than draws. Averaging is
uniform, as in FedCor's experiments; the paper's own server uses Adam on user-averaged gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sortition.core import LOSS, Cohort, Feedback, Measure, Needs, Reading, Round, Selector, State, method, per_client
from sortition.core.arrays import Floats, without
from sortition.core.rounds import Population
from sortition.core.sampling import leading, uniformly, weighted
from sortition.core.selector import Asking

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass
class Memory(State):
    """The valuation of each client; NaN where it was never asked."""

    value: Floats = per_client(np.nan)


@method
class Active(Selector[Memory]):
    """Most draws go to the clients whose data the model serves worst, by a softmax of their valuations.

    Attributes:
        alpha1: share of the available clients that is dropped, lowest valuation first.
        alpha2: inverse temperature of the softmax.
        alpha3: share of the cohort that is drawn uniformly.
    """

    alpha1: Share = 0.75
    alpha2: Annotated[float, Field(ge=0)] = 0.01
    alpha3: Share = 0.1

    memory = Memory
    cite = """@article{goetz2019active,
  title = {Active Federated Learning},
  author = {Goetz, Jack and Malik, Kshitiz and Bui, Duc and Moon, Seungwhan and Liu, Honglei and Kumar, Anuj},
  journal = {arXiv preprint arXiv:1909.12641}, year = {2019}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes; the loss of everybody once, then of the cohort."""
        return Needs(reads=("sizes",), asks=(LOSS,), reports=(LOSS,))

    def select(self, state: Memory, round: Round) -> Asking:
        """Drop the lowest, draw by softmax, fill uniformly."""
        unmet = round.available[np.isnan(state.value[round.available])]
        if unmet.size:
            refresh(state, (yield Measure(LOSS, unmet)), round.population)
        ids = round.available
        value = np.nan_to_num(state.value[ids], nan=-np.inf)
        # 1 − α3 is not exact in binary: (1 − 0.1)·10 must give 9, not 8
        draws = min(math.floor((1 - self.alpha3) * round.places + 1e-9), int(np.isfinite(value).sum()))
        kept = leading(ids, value, max(ids.size - math.floor(self.alpha1 * ids.size), draws))
        chosen = weighted(kept, softmax_odds(self.alpha2 * state.value[kept]), draws, round.rng)
        rest = uniformly(without(ids, chosen), round.places - chosen.size, round.rng)
        return Cohort.uniform(np.concatenate([chosen, rest]))

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Refresh the valuations of those who trained."""
        refresh(state, feedback.report(LOSS), feedback.round.population)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The paper's setting, and one that leans on the softmax."""
        return [{}, {"alpha1": 0.5, "alpha2": 1.0, "alpha3": 0.3}]


def softmax_odds(score: Floats) -> Floats:
    """∝ exp(score), the largest 1; a score that is unknown counts nothing."""
    if np.isnan(score).all():
        return np.zeros_like(score)
    return np.nan_to_num(np.exp(score - np.nanmax(score)), nan=0.0)


def refresh(state: Memory, loss: Reading, population: Population) -> None:
    """v_k = √n_k · F_k(w)."""
    if len(loss):
        state.value[loss.ids] = np.sqrt(population.sizes[loss.ids]) * loss.values
