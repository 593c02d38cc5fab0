"""Which clients are reachable when: ``make("lognormal", clients=100, seed=0, beta=0.5).at(t)`` is a mask (N,)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.availability._mode import Facts, Mask, Mode
from sortition.availability._user_mode import user_mode
from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad
from sortition.core.registry import Family
from sortition.core.streams import seed_sequence

__all__ = ["ALIASES", "FAMILY", "Availability", "Mode", "discover", "make", "mode"]

ALIASES = {
    "IDL": "always",
    "MDF": "more-data-first",
    "LDF": "less-data-first",
    "YMF": "label-max-first",
    "YC": "label-cycle",
    "LN": "lognormal",
    "SLN": "sine-lognormal",
}
FAMILY = Family(__name__, "availability", Mode, ALIASES)  # type: ignore[type-abstract]


class Availability:
    """A mode bound to a federation. ``at(t)`` depends on (seed, t) alone: any round, in any order."""

    def __init__(self, mode: Mode, facts: Facts) -> None:
        self.mode = mode
        self.clients = facts.clients
        self.seed = facts.seed
        self._masks = mode.masks(facts)
        self._rates = mode.rates(facts)
        self.notes: tuple[str, ...] = tuple(facts.notes)

    def at(self, t: int) -> Mask:
        """Return who is reachable in round t (0-based), (N,) bool."""
        return self._masks(self._round_of_draw(t))

    def rates(self, t: int) -> Floats | None:
        """Return the probability of being reachable in round t, (N,), before any repetition; None without rates."""
        if self._rates is None:
            return None
        return self._rates(self._round_of_draw(t))

    def _round_of_draw(self, t: int) -> int:
        """Return the round whose draw holds in round t: t itself, or the first of its ``hold`` rounds."""
        if isinstance(t, bool) or not isinstance(t, int | np.integer) or t < 0:
            raise bad("availability.t", "a whole number ≥ 0", t)
        return int(t) - int(t) % self.mode.hold


def discover() -> list[str]:
    """List the names of all modes."""
    return FAMILY.discover()


def mode(name: str, **params: Any) -> Mode:
    """Return a mode with validated parameters, not yet bound to a federation."""
    if ":" in name:
        return user_mode(name, params)
    return FAMILY.make(name, params)


def make(
    name: str,
    *,
    clients: int,
    seed: int,
    sizes: npt.ArrayLike | None = None,
    label_counts: npt.ArrayLike | None = None,
    **params: Any,
) -> Availability:
    """Make a mode by its name or the paper's alias, with the facts that it needs: sizes (N,), label counts (N, L)."""
    chosen_mode = mode(name, **params)
    if isinstance(clients, bool) or not isinstance(clients, int | np.integer) or clients < 1:
        raise bad("availability.clients", "a whole number ≥ 1", clients)
    seed_sequence(seed, "availability")  # refuses a bad seed now, not in the first round
    facts = Facts(
        clients=int(clients),
        seed=int(seed),
        sizes=_checked_fact("sizes", sizes, ndim=1, clients=int(clients)),
        label_counts=_checked_fact("label_counts", label_counts, ndim=2, clients=int(clients)),
    )
    return Availability(chosen_mode, facts)


def _checked_fact(name: str, values: npt.ArrayLike | None, *, ndim: int, clients: int) -> Array | None:
    """Return a fact as an array with one row per client."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim != ndim or len(array) != clients or array.dtype.kind not in "iuf":
        raise bad(f"availability.{name}", f"numbers, one row for each of {clients} clients", array)
    if not np.isfinite(array).all() or array.min(initial=0) < 0:
        raise bad(f"availability.{name}", "finite and ≥ 0", array)
    return array
