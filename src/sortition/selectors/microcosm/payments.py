"""Payments that are guaranteed: a slow client is passed over for a while, never forgotten.

N clients, M places, p_k client k's share of all data, D = ⌈2N/M⌉. **While client k is available D times it gets at
least N·p_k/M**: where it is available in half of 4N/M rounds, a quarter of its due weight in them. (Where p_k is above
8/N, its due is as if it were 8/N.) This holds while chosen clients answer in time, and N, M and p stay as they are:
where dropouts, over-selection or a quorum lose updates of clients that were chosen, a client can get less.

Client k has s_k = ⌈N·min(p_k, 8/N)⌉ units. A weight a_k pays ⌊a_k / v_k⌋ of them, those that waited longest, with
v_k = N·min(p_k, 8/N) / (M·s_k) ≤ 1/M. Every unit must be paid again before its client has been available D times. Its
*slack* is how many more times that is. docs/methods/microcosm.md proves that the invariant

    for every x ≥ 0:  the units with slack ≤ x are at most M·x

holds at the start and after every round in which the M available units with the least slack are paid. So nobody is
forced into a cohort while the invariant survives without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

MOST_UNITS = 8
ROUNDING = 1e-9


@dataclass(frozen=True)
class Payments:
    """What every client must be paid, in units of weight.

    Attributes:
        units: (N,) s_k, how many units a client has.
        value: (N,) v_k, the weight that pays one of them.
        patience: D, how many times a client may be available before each unit is paid again.
        places: M.
    """

    units: Ids
    value: Floats
    patience: int
    places: int

    def units_paid(self, ids: Ids, weights: Floats) -> Ids:
        """Return how many units these weights pay (n,)."""
        value = self.value[ids]
        payable = np.divide(weights, value, out=np.zeros(ids.size), where=value > 0)
        return np.asarray(np.floor(payable + ROUNDING), np.int64)

    def waits_after(self, waits: Array, available: Ids, ids: Ids, weights: Floats) -> Array:
        """Return how long every unit has waited (N, 8) after a round with these clients available, and these paid.

        A client's units stand in the order of their waits, the longest first; entries behind its s_k mean nothing.
        """
        longer = waits.copy()
        longer[available] += 1
        for client, n_paid in zip(ids, self.units_paid(ids, weights), strict=True):
            n_units = self.units[client]
            unpaid = longer[client, n_paid:n_units].copy()
            longer[client, : unpaid.size] = unpaid
            longer[client, unpaid.size : n_units] = 0
        return longer

    def find_forced(self, waits: Array, available: Ids) -> tuple[Ids, Floats]:
        """Return who must be chosen among the available, and the least weight of each.

        They own the fewest units with the least slack whose payment keeps the invariant.
        """
        slack = self.patience - waits
        is_unit = np.arange(MOST_UNITS) < self.units[:, None]
        is_available = np.zeros(len(waits), bool)
        is_available[available] = True
        is_available_unit = is_unit & is_available[:, None]
        slack_after = np.where(is_available[:, None], slack - 1, slack)[is_unit]
        n_due_within = np.cumsum(np.bincount(np.maximum(slack_after, 0), minlength=self.patience + 1))
        excess = n_due_within - self.places * np.arange(n_due_within.size)
        n_forced = int(min(max(excess.max(initial=0), 0), is_available_unit.sum(), self.places))
        if n_forced == 0:
            return available[:0], np.zeros(0)
        clients_of_units, _ = np.nonzero(is_available_unit)
        urgent = np.argsort(slack[is_available_unit], kind="stable")[:n_forced]
        clients, n_units = np.unique(clients_of_units[urgent], return_counts=True)
        return clients, n_units * self.value[clients]


def make_payments(p: Floats, places: int) -> Payments:
    """Return the units of clients with these shares of all data (N,), for cohorts of ``places``."""
    due = np.minimum(p.size * p, MOST_UNITS)
    units = np.ceil(due - ROUNDING).astype(np.int64)
    value = np.divide(due, places * units, out=np.zeros(p.size), where=units > 0)
    return Payments(units=units, value=value, patience=-(-2 * p.size // places), places=places)
