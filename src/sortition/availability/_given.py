"""Availability that is not a mode of this package: a user's function, or a mode that Python code made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.availability._mode import Facts, Mask, Masks, Mode
from sortition.core.errors import bad, unknown
from sortition.core.import_policy import imported
from sortition.core.streams import stream
from sortition.core.validation import check_takes

Reachable = Callable[[int, int, np.random.Generator], npt.ArrayLike]


class Function(Mode):
    """``function(t, clients, rng)`` is the mask (N,) of round t; ``rng`` depends on the seed and the round alone."""

    function: Any

    def masks(self, facts: Facts) -> Masks:
        """The function, its result checked in every round."""

        def at(t: int) -> Mask:
            mask = np.asarray(self.function(t, facts.clients, stream(facts.seed, "availability", t)))
            if mask.shape != (facts.clients,) or mask.dtype.kind not in "bui" or not np.isin(mask, (0, 1)).all():
                raise bad("availability", f"a mask of {facts.clients} clients", f"{mask.dtype} of shape {mask.shape}")
            return mask.astype(bool)

        return at


def given(path: str, options: dict[str, Any]) -> Mode:
    """The mode behind an import path."""
    found = imported(path, "availability.name")
    if options:
        raise unknown("key", next(iter(options)), (), f"availability {path}")
    if isinstance(found, Mode):
        return found
    if not callable(found):
        raise bad("availability.name", "a function (t, clients, rng) → mask", type(found).__name__)
    check_takes(found, ("t", "clients", "rng"), "availability")
    return Function(function=found)
