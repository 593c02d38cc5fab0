"""REFL: Abdelmoniem et al. 2023, *Resource-efficient federated learning*.

Clients that will soon be gone are asked first: those that stay can be asked later. Who has taken part rests for some
rounds, so that the work is spread.

| paper | here |
|---|---|
| probability of being available in the window [μ_t, 2μ_t] | the chance of being available in the next round |
| the N_t least likely clients, ties shuffled | ``select`` |
| a participant is not eligible again for 5 rounds | ``cooldown`` |
| equal weights of fresh updates | uniform weights |

This is the selection of the paper (IPS). Its second part, the aggregation of late updates with weights by staleness
(SAA), is not part of a selector: late updates are dropped by the driver.

Deviations: in the paper each client forecasts its own availability from its own history and answers with one
probability; here the server forecasts it from the rounds in which it saw the client
(``_parts.availability_forecast``), so nothing is asked. ``period`` gives the forecast phases, such as hours of a day.
The adaptive target N_t, which counts stragglers, is off, as in the released configuration. While fewer than the budget
are eligible, places stay empty; the cohort's notes say how many clients rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Ids
from sortition.core.sampling import top
from sortition.selectors._parts.availability_forecast import chance, count, grown

NEVER = -(2**40)


@dataclass
class Memory(State):
    """When each client took part last, and how often it stayed available from one round to the next."""

    last: Ids = per_client(NEVER, dtype=int)
    before: Array = per_client(0, dtype=bool)  # available in the last round that was seen
    stayed: Array = per_client(0, dtype=int, width=0)  # (N, phases)
    seen: Array = per_client(0, dtype=int, width=0)
    index: int = shared(-1)  # the last round that was seen


@method
class REFL(Selector[Memory]):
    """The clients that are least likely to be available soon go first; who took part rests.

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
        """Nothing but who is available."""
        return Needs()

    def select(self, state: Memory, round: Round) -> Cohort:
        """Learn from who stayed, then take the least likely of those that do not rest."""
        self._learn(state, round)
        rested = round.index - state.last[round.available] > self.cooldown
        ids = round.available[rested]
        likely = np.round(chance(state.stayed, state.seen, ids, self._phase(round.index)), 12)
        chosen = top(ids, -likely, round.budget, round.rng)
        state.last[chosen] = round.index
        notes: dict[str, Any] = {"resting": int(round.available.size - ids.size)}
        return Cohort.uniform(chosen, notes=notes)

    def _learn(self, state: Memory, round: Round) -> None:
        """Count who of the last round is still available; a round that was skipped breaks the chain."""
        phases = 1 if self.period is None else min(self.phases, self.period)
        state.stayed = grown(state.stayed, state.n_clients, phases)
        state.seen = grown(state.seen, state.n_clients, phases)
        now = np.zeros(state.n_clients, dtype=bool)
        now[round.available] = True
        if state.index == round.index - 1:
            count(state.stayed, state.seen, state.before, now, self._phase(state.index))
        state.before, state.index = now, round.index

    def _phase(self, index: int) -> int:
        """The part of the period to which a round belongs."""
        if self.period is None:
            return 0
        return index % self.period * min(self.phases, self.period) // self.period

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The default, and a period in phases."""
        return [{}, {"cooldown": 2, "period": 4, "phases": 2}]
