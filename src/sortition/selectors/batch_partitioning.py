"""Batch partitioning: So et al. 2023, *Securing secure aggregation: mitigating multi-round privacy leakage …*.

Secure aggregation hides single updates in one round. Over many rounds the sums over different sets of clients can be
combined until they isolate one client. If clients always take part in whole batches of T, no combination of sums ever
reaches fewer than T of them.

| paper | here |
|---|---|
| N users, batches of T users each, fixed once | ``batch`` = T; ``state.batch_of`` (N,), drawn when first met |
| a legal set: a union of K/T whole batches | ``select`` |
| available batches: all T users are available | ``_find_complete`` |
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
    """The batch of each client, how often each was picked, and how many batches there are."""

    batch_of: Ids = per_client(-1, dtype=int)  # −1: the client waits for a batch
    picks: Ids = per_client(0, dtype=int)
    n_batches: int = shared(0)


@method
class BatchPartitioning(Selector[Memory]):
    """Lets whole fixed batches of clients take part, so that sums over rounds never isolate anybody.

    Attributes:
        batch: T, clients of a batch: the least number that any combination of sums reaches.
        rule: "least-used" (the batches with the fewest picks), "with-least-used" (a random legal set that contains the
            least used batch) or "random" (any legal set).
    """

    batch: Annotated[int, Field(ge=1)] = 2
    rule: Literal["least-used", "with-least-used", "random"] = "least-used"

    memory = Memory
    can_isolate_a_client = False
    cite = """@inproceedings{so2023securing,
  title = {Securing Secure Aggregation: Mitigating Multi-Round Privacy Leakage in Federated Learning},
  author = {So, Jinhyun and Ali, Ramy E. and G{\\"u}ler, Ba{\\c{s}}ak and Jiao, Jiantao and Avestimehr, A. Salman},
  booktitle = {AAAI Conference on Artificial Intelligence}, volume = {37}, year = {2023}, note = {arXiv:2106.03328}
}"""

    @property
    def needs(self) -> Needs:
        """Need nothing but who is available."""
        return Needs()

    def select(self, state: Memory, round: Round) -> Cohort:
        """Take K/T whole batches, or nobody where fewer are complete.

        Where all batches are complete and still fewer than K/T, all of them take part.
        """
        if self.batch > round.budget and round.in_flight.size:
            return Cohort.uniform([])  # places are free for less than a batch: it waits for more of them
        if self.batch > round.budget:
            raise bad("BatchPartitioning.batch", f"at most the budget, {round.budget}", self.batch)
        self._form_batches(state, round)
        sizes = np.bincount(state.batch_of[state.batch_of >= 0], minlength=state.n_batches)
        complete = _find_complete(state.batch_of[round.available], sizes)
        places = round.budget // self.batch  # K/T
        if complete.size < places and complete.size < np.count_nonzero(sizes):
            return Cohort.uniform([], notes={"batches_available": int(complete.size), "batches_needed": places})
        order = self._order_batches(complete, self._picks_of(state, complete), round.rng)
        chosen = _take_fitting(order, sizes, round.budget, places)
        ids = np.flatnonzero(np.isin(state.batch_of, chosen))
        state.picks[ids] += 1
        return Cohort.uniform(ids, notes={"batches": chosen.tolist(), "batch_size": self.batch})

    def _form_batches(self, state: Memory, round: Round) -> None:
        """Put clients without a batch into new ones.

        In the first round the last batch takes those who are left over, if the budget holds it.
        """
        waiting = np.flatnonzero(state.batch_of < 0)
        n_new = waiting.size // self.batch
        if not n_new:
            if not state.n_batches:
                raise bad("BatchPartitioning.batch", f"at most the number of clients, {round.n_clients}", self.batch)
            return
        order = round.rng.permutation(waiting)
        batch_id = np.arange(order.size) // self.batch
        leftover = order.size % self.batch
        if not state.n_batches and self.batch + leftover <= round.budget:
            batch_id = np.minimum(batch_id, n_new - 1)
        has_batch = batch_id < n_new
        state.batch_of[order[has_batch]] = state.n_batches + batch_id[has_batch]
        state.n_batches += n_new

    def _picks_of(self, state: Memory, batches: Ids) -> Array:
        """Return how often each of these batches was picked; its members were picked together."""
        assigned = state.batch_of >= 0
        picks = np.zeros(state.n_batches, np.int64)
        picks[state.batch_of[assigned]] = state.picks[assigned]
        return picks[batches]

    def _order_batches(self, complete: Ids, picks: Array, rng: np.random.Generator) -> Ids:
        """Return the available batches in the order in which they get places; ties are broken by chance."""
        shuffled = rng.permutation(complete.size)
        if self.rule == "random" or not complete.size:
            return complete[shuffled]
        least_used_first = shuffled[np.argsort(picks[shuffled], kind="stable")]
        if self.rule == "least-used":
            return complete[least_used_first]
        least_used = least_used_first[0]
        order: Ids = np.append(least_used, shuffled[shuffled != least_used])
        return complete[order]

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all three rules."""
        return [{}, {"batch": 3, "rule": "with-least-used"}, {"batch": 1, "rule": "random"}]


def _find_complete(batch_of_available: Ids, sizes: Array) -> Ids:
    """Return the batches all of whose members are available."""
    assigned = batch_of_available[batch_of_available >= 0]
    n_available = np.bincount(assigned, minlength=sizes.size)
    return np.flatnonzero((sizes > 0) & (n_available == sizes))


def _take_fitting(order: Ids, sizes: Array, budget: int, places: int) -> Ids:
    """Return the first of these batches that fit into the budget; the last batch may be larger than the others."""
    chosen: list[int] = []
    room = budget
    for batch_id in order.tolist():
        if len(chosen) < places and sizes[batch_id] <= room:
            chosen.append(batch_id)
            room -= int(sizes[batch_id])
    return np.asarray(chosen, np.int64)
