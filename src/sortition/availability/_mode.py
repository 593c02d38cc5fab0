"""What an availability mode is: typed parameters and a function that says who is reachable in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

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
GroupedBy = Literal["label", "block", "random"]
REPETITIONS = 100  # of a draw in which nobody is reachable, before one client is drawn directly


@dataclass(frozen=True, eq=False)
class Facts:
    """The federation as a mode sees it.

    Attributes:
        clients: N, the number of clients.
        seed: of the run.
        sizes: (N,) examples of each client; None where they are not known.
        label_counts: (N, L) examples of each client by label; None where they are not known.
        notes: what a mode repaired in its input, in sentences.
    """

    clients: int
    seed: int
    sizes: Array | None = None
    label_counts: Array | None = None
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
        """Return the function t ↦ (N,) bool; its value depends on (seed, t) alone, whatever was asked earlier."""

    def rates(self, facts: Facts) -> Rates | None:
        """Return the function t ↦ (N,) probability of being reachable, where the mode has one."""
        return None


class Chances(Mode):
    """A mode in which clients are reachable independently, each with its rate of the round.

    Attributes:
        repeat: whether the draw is repeated while nobody is reachable, as in FedGS's released code.
    """

    repeat: bool = True

    @abstractmethod
    def rates(self, facts: Facts) -> Rates:
        """Return the function t ↦ (N,) rates."""

    def masks(self, facts: Facts) -> Masks:
        """Draw independently for each client, with one stream per round."""
        rates = self.rates(facts)
        return lambda t: draw_mask(rates(t), stream(facts.seed, "availability", t), repeat=self.repeat)


def draw_mask(rates: Floats, rng: np.random.Generator, *, repeat: bool) -> Mask:
    """Draw independently for each client (N,); with ``repeat`` again while all fail, if somebody can succeed."""
    mask = np.asarray(rng.random(len(rates)) < rates)
    if not repeat or mask.any() or not np.any(rates > 0):
        return mask
    for _ in range(REPETITIONS):
        mask = np.asarray(rng.random(len(rates)) < rates)
        if mask.any():
            return mask
    # with rates this small, given that somebody is reachable it is one client, in proportion to its rate
    mask[np.searchsorted(np.cumsum(rates), rng.random() * rates.sum(), side="right")] = True
    return mask


def require_fact(facts: Facts, name: str, mode: str) -> Array:
    """Return a fact that the mode needs, or say that it is missing."""
    value: Array | None = getattr(facts, name)
    if value is None:
        raise InputError(f"availability {mode} needs {name}; got none. Give {name}=… to make().")
    return value


def group_of_clients(by: GroupedBy, groups: int, facts: Facts, mode: str) -> Ids:
    """Return each client's group (N,): by its commonest label (label mod groups), in blocks of ids, or at random."""
    if by == "label":
        counts = require_fact(facts, "label_counts", f"{mode} by label")
        return np.asarray(np.argmax(counts, axis=1) % groups)
    if by == "block":
        return np.arange(facts.clients) * groups // facts.clients
    return stream(facts.seed, "availability groups").integers(groups, size=facts.clients)
