"""What a signal of the server may use: one round's updates before they are aggregated, and data of the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sortition.core.arrays import Ids


class CohortModels(Protocol):
    """The models that parts of one cohort would give. The simulator implements it; selectors never see it."""

    @property
    def ids(self) -> Ids:
        """The clients whose updates arrived."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """Randomness of this round's signal."""
        ...

    def loss(self, members: Sequence[int]) -> float:
        """Return the mean loss on the server's validation set of the model that these clients' updates alone give.

        Their weights are scaled to the cohort's total; nobody's give the model that the round began with.
        """
        ...
