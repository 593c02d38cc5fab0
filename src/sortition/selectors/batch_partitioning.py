"""Batch partitioning: So et al. 2023, *Securing secure aggregation: mitigating multi-round privacy leakage …*.

Secure aggregation hides single updates in one round. Over many rounds the sums over different sets of clients can be
combined until they isolate one client. If clients always take part in whole batches of T, no combination of sums ever
reaches fewer than T of them.

| paper | here |
|---|---|
| N users, batches of T users each, fixed once | ``batch`` = T; ``state.batch`` (N,), drawn when first met |
| a legal set: a union of K/T whole batches | ``select`` |
| available batches: all T users are available | ``_complete`` |
| ℓ, the least used user; uniformly among legal sets with ℓ | ``rule="with-least-used"`` |
| the legal set with the smallest sum of counts (released code) | ``rule="least-used"``, the default |
| uniformly among legal sets (no fairness) | ``rule="random"`` |
| fewer than K/T available batches: nobody takes part | an empty cohort with the note ``batches_available`` |
| plain mean over the K users | uniform weights |

Deviations: where T does not divide the budget, the places that are left over stay empty. Of N mod T clients that make
no whole batch, all join the last batch, which is then larger, if the budget holds it, else they wait; clients that join
the federation later wait until T of them make a batch. The default rule is the released code's, the paper's is
``rule="with-least-used"``. If ℓ is not available, the least used available batch takes its place. Clients that fall
silent after the selection break the guarantee: run with ``Guards(minimum=cohort)``, so that such a round is discarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad


@dataclass
class Memory(State):
    """The batch of each client (−1: waits for one), and how many batches there are."""

    batch: Ids = per_client(-1, dtype=int)
    picks: Ids = per_client(0, dtype=int)
    batches: int = shared(0)


@method
class BatchPartitioning(Selector[Memory]):
    """Whole fixed batches of clients take part, so that sums over rounds never isolate anybody.

    Attributes:
        batch: T, clients of a batch: the least number that any combination of sums reaches.
        rule: "least-used" (the batches with the fewest picks), "with-least-used" (a random legal set that contains the
            least used batch) or "random" (any legal set).
    """

    batch: Annotated[int, Field(ge=1)] = 2
    rule: Literal["least-used", "with-least-used", "random"] = "least-used"

    memory = Memory
    isolates = False
    cite = """@inproceedings{so2023securing,
  title = {Securing Secure Aggregation: Mitigating Multi-Round Privacy Leakage in Federated Learning},
  author = {So, Jinhyun and Ali, Ramy E. and G{\\"u}ler, Ba{\\c{s}}ak and Jiao, Jiantao and Avestimehr, A. Salman},
  booktitle = {AAAI Conference on Artificial Intelligence}, volume = {37}, year = {2023}, note = {arXiv:2106.03328}
}"""

    @property
    def needs(self) -> Needs:
        """Nothing but who is available."""
        return Needs()

    def select(self, state: Memory, round: Round) -> Cohort:
        """Take as many whole batches as the budget holds, or nobody."""
        if self.batch > round.budget and round.in_flight.size:
            return Cohort.uniform([])  # places are free for less than a batch: it waits for more of them
        if self.batch > round.budget:
            raise bad("BatchPartitioning.batch", f"at most the budget, {round.budget}", self.batch)
        self._form(state, round)
        sizes = np.bincount(state.batch[state.batch >= 0], minlength=state.batches)
        complete = _complete(state.batch[round.available], sizes)
        places = round.budget // self.batch
        if complete.size < places and complete.size < np.count_nonzero(sizes):
            return Cohort.uniform([], notes={"batches_available": int(complete.size), "batches_needed": places})
        used = self._used(state, complete)
        chosen = _within(self._order(complete, used, places, round.rng), sizes, round.budget, places)
        ids = np.flatnonzero(np.isin(state.batch, chosen))
        state.picks[ids] += 1
        notes = {"batches": chosen.tolist(), "batch_size": self.batch}
        return Cohort.uniform(ids, notes=notes)

    def _form(self, state: Memory, round: Round) -> None:
        """Put clients that have no batch into new ones; in the first round the last one takes the rest, if it fits."""
        waiting = np.flatnonzero(state.batch < 0)
        whole = waiting.size // self.batch
        if not whole:
            if not state.batches:
                raise bad("BatchPartitioning.batch", f"at most the number of clients, {round.n_clients}", self.batch)
            return
        order = round.rng.permutation(waiting)
        merge = not state.batches and self.batch + order.size % self.batch <= round.budget
        number = np.minimum(np.arange(order.size) // self.batch, whole - 1 if merge else whole)
        taken = number < whole
        state.batch[order[taken]] = state.batches + number[taken]
        state.batches += whole

    def _used(self, state: Memory, complete: Ids) -> Array:
        """How often each of these batches was picked; its members were picked together."""
        first = np.zeros(state.batches, np.int64)
        first[state.batch[state.batch >= 0]] = state.picks[state.batch >= 0]
        return first[complete]

    def _order(self, complete: Ids, used: Array, places: int, rng: np.random.Generator) -> Ids:
        """The available batches in the order in which they get places; ties by chance."""
        shuffled = rng.permutation(complete.size)
        if self.rule == "random" or not complete.size:
            return complete[shuffled]
        least_first = shuffled[np.argsort(used[shuffled], kind="stable")]
        if self.rule == "least-used":
            return complete[least_first]
        rest = shuffled[shuffled != least_first[0]]
        order: Ids = np.concatenate([least_first[:1], rest])
        return complete[order]

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """All three rules."""
        return [{}, {"batch": 3, "rule": "with-least-used"}, {"batch": 1, "rule": "random"}]


def _complete(here: Ids, sizes: Array) -> Ids:
    """The batches all of whose members are available."""
    there = np.bincount(here[here >= 0], minlength=sizes.size)
    return np.flatnonzero((sizes > 0) & (there == sizes))


def _within(order: Ids, sizes: Array, budget: int, places: int) -> Ids:
    """The first of these batches that fit into the budget; the last batch may be larger than the others."""
    chosen: list[int] = []
    room = budget
    for batch in order.tolist():
        if len(chosen) < places and sizes[batch] <= room:
            chosen.append(batch)
            room -= int(sizes[batch])
    return np.asarray(chosen, np.int64)
