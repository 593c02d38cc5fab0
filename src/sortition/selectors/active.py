"""Active federated learning (AFL): Goetz et al. 2019, *Active federated learning*.

| paper | here |
|---|---|
| v_k = (1/√n_k) Σ_i loss_i, of the model received | √n_k · ``LOSS``, refreshed only for those who train |
| α1: share of clients, lowest v first, set to −∞ | ``alpha1`` |
| α2: softmax temperature, p_k ∝ exp(α2 v_k) | ``alpha2`` |
| α3: share of the cohort drawn uniformly | ``alpha3`` |

⌊α1·|A|⌋ available clients are dropped, ⌊(1 − α3)m⌋ of the cohort are drawn without replacement by p, the rest uniformly
from all not yet chosen.

Deviations: a client whose v is unknown is asked when it is first available (FedCor's experiments ask everybody at w_0,
which is the same when all are available). Fewer clients are dropped where α1 would leave fewer clients than draws.
Averaging is uniform, as in FedCor's experiments; the paper's own server uses Adam on user-averaged gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sortition.core import LOSS, Cohort, Feedback, Measure, Needs, Reading, Round, Selector, State, method, per_client
from sortition.core.arrays import Floats, remove_ids
from sortition.core.population import Population
from sortition.core.sampling import draw_uniformly, draw_weighted, take_largest_unsorted
from sortition.core.selector import Asking

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass
class Memory(State):
    """The valuation v_k of each client (N,); NaN where it was never asked."""

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
        """Read the sizes; ask every client for its loss once, then take the cohort's reports."""
        return Needs(reads=("sizes",), asks=(LOSS,), reports=(LOSS,))

    def select(self, state: Memory, round: Round) -> Asking:
        """Drop the clients of lowest valuation, draw by softmax, and fill the cohort uniformly."""
        ids = round.available
        unvalued = ids[np.isnan(state.value[ids])]
        if unvalued.size:
            losses = yield Measure(LOSS, unvalued)
            refresh(state, losses, round.population)
        value = np.nan_to_num(state.value[ids], nan=-np.inf)
        # 1 − α3 is not exact in binary: (1 − 0.1)·10 must give 9, not 8
        n_softmax = math.floor((1 - self.alpha3) * round.places + 1e-9)
        n_softmax = min(n_softmax, int(np.isfinite(value).sum()))
        n_candidates = max(ids.size - math.floor(self.alpha1 * ids.size), n_softmax)
        candidates = take_largest_unsorted(ids, value, n_candidates)
        odds = softmax_odds(self.alpha2 * state.value[candidates])
        by_softmax = draw_weighted(candidates, odds, n_softmax, round.rng)
        by_lot = draw_uniformly(remove_ids(ids, by_softmax), round.places - by_softmax.size, round.rng)
        return Cohort.uniform(np.concatenate([by_softmax, by_lot]))

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Refresh the valuations of the clients that trained."""
        refresh(state, feedback.report(LOSS), feedback.round.population)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the paper's setting, and one in which the softmax matters."""
        return [{}, {"alpha1": 0.5, "alpha2": 1.0, "alpha3": 0.3}]


def softmax_odds(score: Floats) -> Floats:
    """Return exp(score) up to a factor that makes the largest 1; 0 where the score is unknown (NaN)."""
    if np.isnan(score).all():
        return np.zeros_like(score)
    return np.nan_to_num(np.exp(score - np.nanmax(score)), nan=0.0)


def refresh(state: Memory, losses: Reading, population: Population) -> None:
    """Set v_k = √n_k · F_k(w) of the clients that answered."""
    if len(losses):
        state.value[losses.ids] = np.sqrt(population.sizes[losses.ids]) * losses.values
