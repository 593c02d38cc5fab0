"""Who is reachable when: ``make("lognormal", clients=100, seed=0, beta=0.5).at(t)`` is a mask over clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.availability._given import given
from sortition.availability._mode import Facts, Mask, Mode
from sortition.core.arrays import Floats
from sortition.core.errors import bad
from sortition.core.registry import Family
from sortition.core.streams import sequence

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
        self.mode, self.clients, self.seed = mode, facts.clients, facts.seed
        self._masks, self._rates = mode.masks(facts), mode.rates(facts)
        self.notes: tuple[str, ...] = tuple(facts.notes)

    def at(self, t: int) -> Mask:
        """(N,) bool: who is reachable in round t (0-based)."""
        return self._masks(self._drawn_in(t))

    def rates(self, t: int) -> Floats | None:
        """(N,) probability of being reachable in round t, before any repetition; None where the mode has none."""
        return None if self._rates is None else self._rates(self._drawn_in(t))

    def _drawn_in(self, t: int) -> int:
        """The round whose draw holds in round t: t itself, or the first of its ``hold`` rounds."""
        if isinstance(t, bool) or not isinstance(t, int | np.integer) or t < 0:
            raise bad("availability.t", "a whole number ≥ 0", t)
        return int(t) - int(t) % self.mode.hold


def discover() -> list[str]:
    """The names of all modes."""
    return FAMILY.discover()


def mode(name: str, **params: Any) -> Mode:
    """The validated parameters of a mode, before a federation is at hand."""
    return given(name, params) if ":" in name else FAMILY.make(name, params)


def make(
    name: str,
    *,
    clients: int,
    seed: int,
    sizes: npt.ArrayLike | None = None,
    label_counts: npt.ArrayLike | None = None,
    **params: Any,
) -> Availability:
    """A mode by name or by the paper's alias, with the facts that it needs: sizes (N,), label counts (N, L)."""
    chosen = mode(name, **params)
    if isinstance(clients, bool) or not isinstance(clients, int | np.integer) or clients < 1:
        raise bad("availability.clients", "a whole number ≥ 1", clients)
    sequence(seed, "availability")  # refuses a bad seed now, not in the first round
    known = {"sizes": (sizes, 1), "label_counts": (label_counts, 2)}
    return Availability(chosen, Facts(int(clients), int(seed), **_facts(known, int(clients))))


def _facts(given: Mapping[str, tuple[npt.ArrayLike | None, int]], clients: int) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, (value, ndim) in given.items():
        if value is None:
            continue
        array = np.asarray(value)
        if array.ndim != ndim or len(array) != clients or array.dtype.kind not in "iuf":
            raise bad(f"availability.{name}", f"numbers, one row for each of {clients} clients", array)
        if not np.isfinite(array).all() or array.min(initial=0) < 0:
            raise bad(f"availability.{name}", "finite and ≥ 0", array)
        checked[name] = array
    return checked
