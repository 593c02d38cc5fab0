"""Uniform sampling: McMahan et al. 2017, *Communication-efficient learning of deep networks from decentralized data*.

| paper | here |
|---|---|
| m clients, a random set S_t | ``round.budget`` distinct ids from the available |
| w ← Σ_{S_t} (n_k / m_t) w_k | ``weights="size"``, m_t = Σ_{S_t} n_k |
| (1/m) Σ_{S_t} w_k | ``weights="uniform"``, as FedCor's and HiCS-FL's experiments average |

Deviations: none. Where fewer are available than wanted, all of them train.
"""

from __future__ import annotations

from typing import Any, Literal

from sortition.core import Cohort, Needs, Round, Selector, State, method
from sortition.core.sampling import draw_uniformly


@method
class Uniform(Selector[State]):
    """Each set of m available clients is equally likely.

    Attributes:
        weights: "size" (FedAvg) or "uniform" (plain mean of the cohort).
    """

    weights: Literal["size", "uniform"] = "size"

    sampling = "without-replacement"
    cite = """@inproceedings{mcmahan2017communication,
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\\"u}era y Arcas, Blaise},
  booktitle = {AISTATS}, year = {2017}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes, where they are the weights."""
        if self.weights == "size":
            return Needs(reads=("sizes",))
        return Needs()

    def select(self, state: State, round: Round) -> Cohort:
        """Draw a random set of clients; its size is the budget."""
        ids = draw_uniformly(round.available, round.budget, round.rng)
        if self.weights == "size":
            return Cohort.by_size(ids, round.population.sizes)
        return Cohort.uniform(ids)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover both weights."""
        return [{"weights": "size"}, {"weights": "uniform"}]
