"""Combine the updates of a round into one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sortition.aggregation import robust
from sortition.aggregation.memory import UpdateMemory, fedvarp, mifa
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad, unknown
from sortition.core.validation import is_number, is_whole

F = TypeVar("F", bound=np.floating[Any])
Vector = Array
CENTRES = ("median", "trimmed-mean", "geometric-median")
ROBUST = (*CENTRES, "norm-bound")
REMEMBERING = {"fedvarp": fedvarp, "mifa": mifa}
RULES = ("mean", *ROBUST, *REMEMBERING)
SCALES = ("rate", "raw")
GIB = 1 << 30


def weighted_sum(weights: Floats, updates: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return Σ a_k Δ_k (P,) of weights (k,) and updates (k, P), in the updates' precision; whole numbers in float64."""
    updates = _as_floats(updates)
    combined: npt.NDArray[F] = weights.astype(updates.dtype) @ updates
    return combined


@dataclass(frozen=True)
class CombineRule:
    """How the updates of a round become one; parameters that a rule does not have are ignored.

    Attributes:
        name: ``mean``: Σ a_k Δ_k with the cohort's weights. ``median``, ``trimmed-mean``: per number.
            ``geometric-median``: RFA. ``norm-bound``: the mean of updates cut to a multiple of their median norm.
            ``fedvarp``, ``mifa``: the last update of absent clients takes part; the server keeps one update a client.
        trim: share of the weight that the trimmed mean cuts from each end.
        passes: Weiszfeld passes of the geometric median.
        smoothing: ν of these passes: distances below count as this.
        bound: longest update, in median norms.
        remember: whether remembered updates are divided by the learning rate of their round (``rate``) or ``raw``.
        memory_limit: GiB that remembered updates may take.
    """

    name: str = "mean"
    trim: float = 0.2
    passes: int = 3
    smoothing: float = 1e-6
    bound: float = 2.0
    remember: str = "rate"
    memory_limit: float = 2.0

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise unknown("combine rule", self.name, RULES)
        if not (is_number(self.trim) and 0 <= self.trim < 0.5):
            raise bad("CombineRule.trim", "a share in [0, 0.5)", self.trim)
        if not is_whole(self.passes, 1):
            raise bad("CombineRule.passes", "a whole number ≥ 1", self.passes)
        for name in ("smoothing", "bound", "memory_limit"):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and value > 0):
                raise bad(f"CombineRule.{name}", "finite and > 0", value)
        if self.remember not in SCALES:
            raise unknown("remember", self.remember, SCALES, "CombineRule")

    @property
    def remembers(self) -> bool:
        """Whether the server keeps the last update of every client."""
        return self.name in REMEMBERING

    @property
    def individual(self) -> bool:
        """Whether the rule looks at single updates, which secure aggregation hides."""
        return self.name != "mean"

    def memory_bytes(self, size: int, clients: int) -> int:
        """Return bytes that remembered updates take, in memory and in a checkpoint, when every client has been seen."""
        if not self.remembers:
            return 0
        return 4 * size * clients + 8 * size

    def init(self, size: int, clients: int = 0) -> UpdateMemory | None:
        """Return what the rule remembers before the first round, for a model of ``size`` numbers and N clients."""
        needed = self.memory_bytes(size, clients) / GIB
        if needed > self.memory_limit:
            rule = f"at least {math.ceil(1000 * needed) / 1000} GiB for {clients:,} updates of {size:,} numbers"
            raise bad("CombineRule.memory_limit", rule, self.memory_limit, "Raise it if the server has that memory.")
        if not self.remembers:
            return None
        return UpdateMemory.empty(size)

    def apply(
        self,
        ids: Ids,
        weights: Floats,
        updates: Vector,
        memory: UpdateMemory | None = None,
        *,
        clients: int = 0,
        rate: float = 1.0,
        mass: str = "one",
    ) -> tuple[Vector, UpdateMemory | None]:
        """Return one update (P,) and the next memory; the memory that was passed stays as it is.

        Args:
            ids: (k,) distinct clients whose updates arrived, at least one.
            weights: (k,) their aggregation weights, of ``cohort.weights_of(ids)``.
            updates: (k, P) finite floats; whole numbers count as float64.
            memory: of the round before, or of :meth:`init`.
            clients: N, which rules that remember need.
            rate: the clients' learning rate of this round, where it changes.
            mass: of the cohort; a centre of weights that sum to 1 in expectation only has no meaning.
        """
        _check(ids, weights, updates)
        if self.individual:
            updates = np.asarray(updates)  # those of an accelerator come to the host: these rules look at each
        updates = _as_floats(updates)
        if self.remembers:
            if memory is None:
                raise bad("combine", f"given the memory of {self.name}", None, "Begin with init(size, clients).")
            if clients < len({*memory.rows, *ids.tolist()}):
                raise bad("combine", f"given the number of clients, {self.name} averages over them all", clients)
            return REMEMBERING[self.name](
                ids=ids,
                weights=weights,
                updates=updates,
                memory=memory,
                clients=clients,
                rate=rate if self.remember == "rate" else 1.0,
            )
        if self.name == "mean":
            return weighted_sum(weights, updates), memory
        return self._robust(weights, updates, mass), memory

    def check_mass(self, mass: str) -> None:
        """Refuse weights that sum to 1 in expectation only, of which a centre has no meaning."""
        if mass == "expected" and self.name in CENTRES:
            hint = "Use norm-bound, or a selector whose weights sum to 1 in every round."
            raise bad(f"combine = {self.name!r}", "given weights that sum to 1", "weights of mass 'expected'", hint)

    def _robust(self, weights: Floats, updates: Vector, mass: str) -> Vector:
        if not np.isfinite(updates).all():
            raise bad("combine", "given finite updates", "NaN or infinity", "Leave out the clients that sent them.")
        if self.name == "norm-bound":
            return weighted_sum(weights * robust.norm_factors(updates, self.bound), updates)
        self.check_mass(mass)
        if weights.sum() <= 0:
            return weighted_sum(weights, updates)
        if self.name == "median":
            return robust.coordinate_median(weights, updates)
        if self.name == "trimmed-mean":
            return robust.trimmed_mean(weights, updates, self.trim)
        return robust.geometric_median(weights, updates, self.passes, self.smoothing)


def _as_floats(updates: Vector) -> Vector:
    """Return the updates as floats: weights take their type, and as whole numbers weights below 1 would all be 0."""
    if updates.dtype.kind == "f":
        return updates
    if updates.dtype.kind not in "iu":
        raise bad("combine", "given updates of real numbers", f"{updates.dtype}")
    return updates.astype(np.float64)


def _check(ids: Ids, weights: Floats, updates: Vector) -> None:
    if updates.ndim != 2 or not ids.shape == weights.shape == (len(updates),):
        shapes = f"ids {ids.shape}, weights {weights.shape}, updates {updates.shape}"
        raise bad("combine", "given ids (k,), weights (k,) and updates (k, P)", shapes)
