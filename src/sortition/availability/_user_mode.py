"""Availability that is not a mode of this package: a user's function, or a mode that Python code made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from sortition.availability._mode import Facts, Mask, Masks, Mode
from sortition.core.errors import bad, unknown
from sortition.core.import_policy import import_named
from sortition.core.streams import stream
from sortition.core.validation import check_parameters

ReachableFunction = Callable[[int, int, np.random.Generator], npt.ArrayLike]


class UserFunction(Mode):
    """Asks ``function(t, clients, rng)`` for the mask (N,) of round t; ``rng`` depends on the seed and round alone."""

    function: ReachableFunction

    def masks(self, facts: Facts) -> Masks:
        """Call the function and check its result in every round."""

        def mask_of_round(t: int) -> Mask:
            mask = np.asarray(self.function(t, facts.clients, stream(facts.seed, "availability", t)))
            if mask.shape != (facts.clients,) or mask.dtype.kind not in "bui" or not np.isin(mask, (0, 1)).all():
                raise bad("availability", f"a mask of {facts.clients} clients", f"{mask.dtype} of shape {mask.shape}")
            return mask.astype(bool)

        return mask_of_round


def user_mode(path: str, options: Mapping[str, object]) -> Mode:
    """Return the mode behind an import path, which takes no options."""
    target = import_named(path, "availability.name")
    if options:
        raise unknown("key", next(iter(options)), (), f"availability {path}")
    if isinstance(target, Mode):
        return target
    if not callable(target):
        raise bad("availability.name", "a function (t, clients, rng) → mask", type(target).__name__)
    check_parameters(target, ("t", "clients", "rng"), "availability")
    return UserFunction(function=target)
