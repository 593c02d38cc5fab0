"""Many updates become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad, unknown

F = TypeVar("F", bound=np.floating[Any])
Vector = npt.NDArray[Any]
Memory = dict[str, npt.NDArray[Any]]
RULES = ("mean",)


def weighted_sum(weights: Floats, updates: npt.NDArray[F]) -> npt.NDArray[F]:
    """Σ a_k Δ_k (P,), of weights (k,) and updates (k, P), in the updates' own precision."""
    combined: npt.NDArray[F] = weights.astype(updates.dtype) @ updates
    return combined


@dataclass(frozen=True)
class CombineRule:
    """``mean``: Σ a_k Δ_k with the weights of the cohort, which the selector gave."""

    name: str = "mean"

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise unknown("combine rule", self.name, RULES)

    def init(self, size: int) -> Memory:
        """What the rule remembers between rounds, for a model of ``size`` numbers."""
        return {}

    def apply(self, ids: Ids, weights: Floats, updates: Vector, memory: Memory) -> tuple[Vector, Memory]:
        """One update (P,) and the next memory; the given memory stays as it is.

        Args:
            ids: (k,) distinct clients whose updates arrived.
            weights: (k,) their aggregation weights, of ``cohort.weights_of(ids)``.
            updates: (k, P) floats.
            memory: of the round before, or of :meth:`init`.
        """
        if updates.ndim != 2 or not ids.shape == weights.shape == (len(updates),):
            got = f"ids {ids.shape}, weights {weights.shape}, updates {updates.shape}"
            raise bad("combine", "given ids (k,), weights (k,) and updates (k, P)", got)
        return weighted_sum(weights, updates), memory
