"""The server's step: from one combined update to the next model (Reddi et al. 2021, Hsu et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.errors import bad, unknown
from sortition.core.validation import is_number, refuse_unknown_keys

RULES = ("plain", "momentum", "adam")
Vector = npt.NDArray[np.float32]
StepState = dict[str, Vector]


@refuse_unknown_keys
@dataclass(frozen=True)
class StepRule:
    """``plain``: w + lr·Δ. ``momentum``: v = βv + Δ, w + lr·v (FedAvgM). ``adam``: FedAdam, without bias correction.

    Attributes:
        name: the rule: ``plain``, ``momentum`` or ``adam``.
        lr: the server's learning rate.
        momentum: β of ``momentum``.
        beta1: β₁ of ``adam``.
        beta2: β₂ of ``adam``.
        epsilon: τ of ``adam``, added to the root of the second moment.
    """

    name: str = "plain"
    lr: float = 1.0
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise unknown("step rule", self.name, RULES)
        for name in ("lr", "epsilon"):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and value > 0):
                raise bad(f"StepRule.{name}", "finite and > 0", value)
        for name in ("momentum", "beta1", "beta2"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < 1):
                raise bad(f"StepRule.{name}", "in [0, 1)", value)

    def init(self, size: int) -> StepState:
        """Return what the rule remembers between rounds, for a model of ``size`` numbers."""
        zeros = {"plain": (), "momentum": ("velocity",), "adam": ("first", "second")}[self.name]
        return {key: np.zeros(size, np.float32) for key in zeros}

    def apply(self, params: Vector, update: Vector, state: StepState) -> tuple[Vector, StepState]:
        """Return the next model and memory; those that were passed stay as they are."""
        lr = np.float32(self.lr)
        if self.name == "plain":
            return params + lr * update, state
        if self.name == "momentum":
            velocity = np.float32(self.momentum) * state["velocity"] + update
            return params + lr * velocity, {"velocity": velocity}
        beta1 = np.float32(self.beta1)
        beta2 = np.float32(self.beta2)
        first = beta1 * state["first"] + (1 - beta1) * update
        second = beta2 * state["second"] + (1 - beta2) * update**2
        scale = (np.sqrt(second) + np.float32(self.epsilon)).astype(np.float32)
        return params + lr * first / scale, {"first": first, "second": second}
