"""Power-of-choice: Cho, Wang and Joshi 2020, *Client selection in federated learning: convergence analysis …*.

| paper | here |
|---|---|
| d, m ≤ d ≤ K | ``d``; None means 2m, the setting that FedCor compares with |
| p_k, data fraction | ``population.sizes`` |
| F_k(w), local loss | the question ``LOSS`` (pow-d) or ``BATCH_LOSS`` (cpow-d) |
| last accumulated loss (rpow-d) | the report ``TRAINING_LOSS``, +∞ for who never trained |

Variants: pow-d asks the candidates for F_k(w_t); cpow-d for the loss of one mini-batch; rpow-d asks nobody and uses the
loss that each client reported when it last trained.

Deviations: a candidate that does not answer is chosen only where too few answered, and then at random. d is cut
to the number of available clients and raised to m. In rpow-d a client that was chosen and has never answered counts
with the mean loss of its round: at +∞ it would win whenever it is a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    BATCH_LOSS,
    LOSS,
    TRAINING_LOSS,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
)
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import draw_uniformly, draw_weighted, take_largest
from sortition.core.selector import Asking


@dataclass
class Memory(State):
    """The loss that each client last reported, for rpow-d."""

    loss: Floats = per_client(np.inf)  # +∞: never chosen; of who never reported, the mean of a round
    has_reported: Array = per_client(False, dtype=bool)


@method
class PowerOfChoice(Selector[Memory]):
    """Chooses, of d candidates drawn by size, the m with the largest local loss.

    Attributes:
        d: number of candidates; None for twice the budget. A d below the budget m counts as m: all candidates train.
        variant: "pow-d" (asks for the loss), "cpow-d" (of one mini-batch), "rpow-d" (asks nothing, last reported).
    """

    d: Annotated[int, Field(ge=1)] | None = None
    variant: Literal["pow-d", "cpow-d", "rpow-d"] = "pow-d"

    memory = Memory
    cite = """@article{cho2020client,
  title = {Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection Strategies},
  author = {Cho, Yae Jee and Wang, Jianyu and Joshi, Gauri},
  journal = {arXiv preprint arXiv:2010.01243}, year = {2020}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; ask the candidates for their losses, or take the cohort's reports (rpow-d)."""
        if self.variant == "rpow-d":
            return Needs(reads=("sizes",), reports=(TRAINING_LOSS,))
        return Needs(reads=("sizes",), asks=(self._question,))

    @property
    def _question(self) -> Signal:
        """What the candidates of pow-d and cpow-d are asked for."""
        return LOSS if self.variant == "pow-d" else BATCH_LOSS

    def select(self, state: Memory, round: Round) -> Asking:
        """Follow steps 1 to 3 of the paper's section 4."""
        d = max(self.d or 2 * round.budget, round.budget)
        notes = {}
        if self.d is not None and self.d < d:  # too few candidates to fill the cohort
            notes["candidates"] = d
        sizes = round.population.sizes[round.available]
        candidates = draw_weighted(round.available, sizes, d, round.rng)  # step 1: d candidates, p_k ∝ n_k
        if self.variant == "rpow-d":
            chosen = take_largest(candidates, state.loss[candidates], round.budget, round.rng)
            return Cohort.uniform(chosen, notes=notes)
        loss = yield Measure(self._question, candidates)  # step 2: F_k(w_t)
        chosen = loss.largest(round.budget, round.rng)  # step 3: the clients that the model serves worst
        silent = np.setdiff1d(candidates, loss.ids)
        n_missing = min(round.budget, candidates.size) - chosen.size
        substitutes = draw_uniformly(silent, n_missing, round.rng)
        return Cohort.uniform(np.concatenate([chosen, substitutes]), notes=notes)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember the reported losses; who was chosen and has never answered gets the round's mean (rpow-d)."""
        if self.variant != "rpow-d":
            return
        losses = feedback.report(TRAINING_LOSS)
        losses.scatter(state.loss)
        state.has_reported[losses.ids] = True
        silent = np.setdiff1d(feedback.cohort.ids, losses.ids)
        if len(losses):
            state.loss[silent[~state.has_reported[silent]]] = losses.values.mean()

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all variants."""
        return [{"d": 12}, {"variant": "cpow-d"}, {"variant": "rpow-d", "d": 8}]
