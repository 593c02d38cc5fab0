"""REFL: Abdelmoniem et al. 2023, *Resource-efficient federated learning*.

Clients that will soon be gone are chosen first: those that stay can be chosen later. A client that has taken part rests
for some rounds, so that the work is spread.

| paper | here |
|---|---|
| probability of being available in the window [μ_t, 2μ_t] | the chance of being available in the next round |
| the N_t least likely clients, ties shuffled | ``select`` |
| a participant is not eligible again for 5 rounds | ``cooldown`` |
| equal weights of fresh updates | uniform weights |

This is the selection of the paper (IPS). Its second part, the aggregation of late updates with weights by staleness
(SAA), is a pace: ``late = "use"`` with ``staleness = "saa"``.

Deviations: in the paper each client forecasts its own availability from its own history and answers with one
probability; here the server forecasts it from the rounds in which it saw the client (:func:`staying_probability`), so
nothing is asked. ``period`` gives the forecast phases, such as hours of a day. The adaptive target N_t, which counts
stragglers, is off, as in the released configuration. While fewer than the budget are eligible, places stay empty; the
cohort's notes say how many clients rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Floats, Ids, fix_width
from sortition.core.sampling import take_largest

NEVER = -(2**40)


@dataclass
class Memory(State):
    """When each client took part last, and how often it stayed available from one round to the next."""

    last_participation: Ids = per_client(NEVER, dtype=int)  # index of the round
    was_available: Array = per_client(0, dtype=bool)  # in the last round that the server saw
    stayed: Array = per_client(0, dtype=int, width=0)  # (N, phases) rounds after which it was available again
    counted: Array = per_client(0, dtype=int, width=0)  # (N, phases) rounds in which it was available
    index: int = shared(-1)  # the last round that the server saw


@method
class REFL(Selector[Memory]):
    """Takes the clients that are least likely to be available soon; a client that took part rests.

    Attributes:
        cooldown: rounds in which a participant is not eligible again.
        period: rounds after which availability repeats itself, such as those of a day; None for no such pattern.
        phases: parts of the period that are counted apart.
    """

    cooldown: Annotated[int, Field(ge=0)] = 5
    period: Annotated[int, Field(ge=2)] | None = None
    phases: Annotated[int, Field(ge=1)] = 24

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{abdelmoniem2023refl,
  title = {{REFL}: Resource-Efficient Federated Learning},
  author = {Abdelmoniem, Ahmed M. and Sahu, Atal Narayan and Canini, Marco and Fahmy, Suhaib A.},
  booktitle = {European Conference on Computer Systems (EuroSys)}, pages = {215--232}, year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Need nothing but who is available."""
        return Needs()

    def select(self, state: Memory, round: Round) -> Cohort:
        """Learn from who stayed, then choose those that do not rest and are least likely to be available soon."""
        self._learn(state, round)
        rested = round.index - state.last_participation[round.available] > self.cooldown
        ids = round.available[rested]
        probability = staying_probability(state.stayed, state.counted, ids, self._phase(round.index))
        chosen = take_largest(ids, -probability, round.budget, round.rng)
        state.last_participation[chosen] = round.index
        notes = {"resting": int(round.available.size - ids.size)}
        return Cohort.uniform(chosen, notes=notes)

    def _learn(self, state: Memory, round: Round) -> None:
        """Count who of the last round is still available; a round that was skipped breaks the chain."""
        state.stayed = fix_width(state.stayed, self._n_phases)
        state.counted = fix_width(state.counted, self._n_phases)
        is_available = np.zeros(state.n_clients, dtype=bool)
        is_available[round.available] = True
        if state.index == round.index - 1:
            phase = self._phase(state.index)
            state.counted[state.was_available, phase] += 1
            state.stayed[state.was_available & is_available, phase] += 1
        state.was_available = is_available
        state.index = round.index

    @property
    def _n_phases(self) -> int:
        """How many parts of the period are counted apart; 1 without a period."""
        return 1 if self.period is None else min(self.phases, self.period)

    def _phase(self, index: int) -> int:
        """Return the part of the period to which a round belongs."""
        if self.period is None:
            return 0
        return index % self.period * self._n_phases // self.period

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the default, and a period in phases."""
        return [{}, {"cooldown": 2, "period": 4, "phases": 2}]


def staying_probability(stayed: Array, counted: Array, ids: Ids, phase: int) -> Floats:
    """Estimate P(available in the next round | available in this one) of these clients.

    Each client is taken for a chain of two states, whose steps out of "available" are counted in tables (N, phases).
    The estimate is the mean of the posterior with the prior Beta(1, 1): 1/2 for a client that was never counted.
    """
    return np.asarray((stayed[ids, phase] + 1.0) / (counted[ids, phase] + 2.0))
