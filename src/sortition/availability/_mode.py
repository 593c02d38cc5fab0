"""What an availability mode is: typed parameters that, given the federation's facts, say who is reachable when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import InputError
from sortition.core.registry import Rule
from sortition.core.streams import stream

Mask = npt.NDArray[np.bool_]
Masks = Callable[[int], Mask]
Rates = Callable[[int], Floats]


@dataclass(frozen=True, eq=False)
class Facts:
    """The federation as a mode sees it; ``notes`` collects what a mode repaired."""

    clients: int
    seed: int
    sizes: Ids | None = None
    label_counts: Ids | None = None
    notes: list[str] = field(default_factory=list)


class Mode(Rule, ABC):
    """One way of coming and going. Subclasses are final.

    Attributes:
        hold: rounds for which who is reachable stays the same. What the mode says of round 0 holds in rounds 0 to
            ``hold`` − 1, what it says of round ``hold`` in the ``hold`` rounds after that; its other parameters keep
            their units.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    hold: int = Field(1, ge=1)

    @abstractmethod
    def masks(self, facts: Facts) -> Masks:
        """The function t ↦ (N,) bool; its value depends on (seed, t) alone, whatever was asked before."""

    def rates(self, facts: Facts) -> Rates | None:
        """The function t ↦ (N,) probability of being reachable, where the mode has one."""
        return None


class Chances(Mode):
    """A mode in which clients are reachable independently, each with its rate of the round.

    ``repeat``: while nobody is reachable the draw is made again, as in FedGS's released code.
    """

    repeat: bool = True

    @abstractmethod
    def rates(self, facts: Facts) -> Rates:
        """The function t ↦ (N,) rates."""

    def masks(self, facts: Facts) -> Masks:
        """Bernoulli draws, one stream per round."""
        rates = self.rates(facts)
        return lambda t: drawn(rates(t), stream(facts.seed, "availability", t), self.repeat)


def drawn(rates: Floats, rng: np.random.Generator, repeat: bool) -> Mask:
    """(N,) independent draws; with ``repeat`` again while all fail, given that somebody can succeed."""
    mask = np.asarray(rng.random(len(rates)) < rates)
    if not repeat or mask.any() or not np.any(rates > 0):
        return mask
    for _ in range(100):
        mask = np.asarray(rng.random(len(rates)) < rates)
        if mask.any():
            return mask
    # with rates this small, given that somebody is there it is one client, in proportion to its rate
    mask[np.searchsorted(np.cumsum(rates), rng.random() * rates.sum(), side="right")] = True
    return mask


def fact(facts: Facts, name: str, mode: str) -> Array:
    """A fact that the mode cannot do without."""
    value: Array | None = getattr(facts, name)
    if value is None:
        raise InputError(f"availability {mode} needs {name}; got none. Give {name}=… to make().")
    return value
