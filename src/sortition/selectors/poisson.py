"""Poisson sampling: McMahan et al. 2018, *Learning differentially private recurrent language models*.

Every client takes part in a round by a coin of its own. Who is chosen depends on nobody's data and on no other client,
which is what accountants of differential privacy assume when they count amplification by sampling.

| paper | here |
|---|---|
| C_t: each user independently with probability q | one uniform number a client, below ``q`` |
| q = C̃/K, so that C̃ of K users are expected | ``q=None``: the budget over the number of known clients |
| w_k, W = Σ_k w_k | equal, or the sizes (``weigh``); shares among the available clients |
| f̃_f = Σ_{k∈C} w_k Δ_k / (qW), the estimator with a fixed denominator | the weights w_k / (q W), ``mass="expected"`` |

Deviations: W is of the available clients, where the paper takes all to be there. Where a given q would exceed the
budget in expectation, the probability is the budget over the number of available clients: smaller, so that a bound on
privacy that was computed with q holds. Clipping and noise are not the selection's business.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method
from sortition.selectors._parts.shares import weight_shares


@method
class Poisson(Selector[State]):
    """Chooses each available client independently with the same probability; the cohort's size is random.

    Attributes:
        q: the probability; None: the budget over the number of known clients.
        weigh: w_k the same for all ("equal"), or by "size".
    """

    q: Annotated[float, Field(gt=0, le=1)] | None = None
    weigh: Literal["equal", "size"] = "equal"

    sampling = "poisson"
    cite = """@inproceedings{mcmahan2018learning,
  title = {Learning Differentially Private Recurrent Language Models},
  author = {McMahan, H. Brendan and Ramage, Daniel and Talwar, Kunal and Zhang, Li},
  booktitle = {ICLR}, year = {2018}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes, where they are the weights."""
        if self.weigh == "size":
            return Needs(reads=("sizes",))
        return Needs()

    def select(self, state: State, round: Round) -> Cohort:
        """Flip a coin for every available client."""
        q = self.probability(round.budget, round.n_clients, round.available.size)
        coins = round.rng.random(round.available.size)
        chosen = coins < q
        w = weight_shares(round.population, round.available, self.weigh)
        return Cohort(
            round.available[chosen],
            w[chosen] / q,
            mass="expected",
            expected_size=q * round.available.size,
        )

    def probability(self, budget: int, clients: int, available: int) -> float:
        """Return the probability of each available client in a round."""
        q = budget / clients if self.q is None else self.q
        return min(q, budget / available, 1.0)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the probability of the budget, a given one, and both weights."""
        return [{}, {"q": 0.1}, {"q": 0.9, "weigh": "size"}]
