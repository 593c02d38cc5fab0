"""The local rule: how a client trains, by SGD or Adam, for some steps or epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sortition.core.errors import bad, unknown
from sortition.core.validation import is_number, refuse_unknown_keys

OPTIMIZERS = ("sgd", "adam")
ADDED = {"optimizer": "sgd", "keep_state": False}  # configurations leave out these keys where they have these values


@refuse_unknown_keys
@dataclass(frozen=True)
class LocalRule:
    """SGD or Adam on F_k(w) + (proximal / 2) ‖w − w_t‖², with torch's meaning of weight decay and momentum.

    Exactly one of ``steps`` and ``epochs`` is given; ``batch=None`` takes all of a client's data at once. Learning
    rate of round t (0-based): lr · decay^⌊t / decay_every⌋ · drop^(number of milestones ≤ t).

    Attributes:
        lr: the learning rate of the first round.
        steps: SGD steps of a round, each on one mini-batch.
        epochs: passes over a client's data, in place of steps.
        batch: examples of a mini-batch.
        decay: factor on the learning rate after every ``decay_every`` rounds.
        decay_every: rounds between two such factors.
        milestones: rounds from which the learning rate is multiplied by ``drop``.
        drop: the factor at a milestone.
        weight_decay: coefficient of the squared norm of the weights, as in PyTorch.
        momentum: of the local steps of SGD.
        proximal: μ of FedProx.
        optimizer: ``sgd`` or ``adam``, with PyTorch's β₁ = 0.9, β₂ = 0.999, ε = 1e-8 and bias correction.
        keep_state: whether a client keeps momentum, or Adam's moments, from one participation to the next; otherwise
            they start anew in every round.
    """

    lr: float
    steps: int | None = None
    epochs: int | None = None
    batch: int | None = 64
    decay: float = 1.0
    decay_every: int = 1
    milestones: tuple[int, ...] = ()
    drop: float = 0.5
    weight_decay: float = 0.0
    momentum: float = 0.0
    proximal: float = 0.0
    optimizer: str = "sgd"
    keep_state: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, list | tuple):
            raise bad("LocalRule.milestones", "a list of rounds", self.milestones)
        object.__setattr__(self, "milestones", tuple(self.milestones))
        if (self.steps is None) == (self.epochs is None):
            raise bad("LocalRule", "given either steps or epochs", f"steps={self.steps} and epochs={self.epochs}")
        numbers = ("lr", "decay", "drop", "weight_decay", "momentum", "proximal")
        self._check(numbers, "a number", is_number)
        counts = ("steps", "epochs", "batch", "decay_every")
        self._check(counts, "a whole number ≥ 1", lambda value: value is None or _is_whole(value, minimum=1))
        self._check(("lr", "decay", "drop"), "finite and > 0", lambda value: math.isfinite(value) and value > 0)
        self._check(("weight_decay", "proximal"), "finite and ≥ 0", lambda value: math.isfinite(value) and value >= 0)
        self._check(("momentum",), "in [0, 1)", lambda value: 0 <= value < 1)
        rounds = "rounds ≥ 0"
        self._check(("milestones",), rounds, lambda value: all(_is_whole(round_, minimum=0) for round_ in value))
        self._check_optimizer()

    def _check_optimizer(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS, "LocalRule")
        if self.optimizer == "adam" and self.momentum:
            raise bad("LocalRule.momentum", "0 with optimizer = 'adam'", self.momentum, "Adam has its own.")
        self._check(("keep_state",), "true or false", lambda value: isinstance(value, bool))
        if self.keep_state and self.n_moments == 0:
            hint = "Give momentum, or optimizer = 'adam'."
            raise bad("LocalRule.keep_state", "false where the optimizer has no state", True, hint)

    def _check(self, names: tuple[str, ...], rule: str, holds: Callable[[Any], bool]) -> None:
        for name in names:
            if not holds(value := getattr(self, name)):
                raise bad(f"LocalRule.{name}", rule, value)

    @property
    def n_moments(self) -> int:
        """Return how many numbers the optimizer remembers of each weight: none, a velocity, or Adam's two."""
        if self.optimizer == "adam":
            return 2
        return 1 if self.momentum > 0 else 0

    @property
    def decay_coefficient(self) -> float:
        """Return the factor of the weights in the gradient: of the weight decay, and of the proximal term."""
        return self.weight_decay + self.proximal

    def lr_at(self, t: int) -> float:
        """Return the learning rate of round t."""
        drops = sum(milestone <= t for milestone in self.milestones)
        return self.lr * self.decay ** (t // self.decay_every) * self.drop**drops

    def steps_of(self, n: int) -> int:
        """Return how many SGD steps a client with n examples takes."""
        if self.steps is not None:
            return self.steps
        return (self.epochs or 0) * self.batches_per_epoch(n)

    def examples_of(self, n: int) -> int:
        """Return how many examples pass forward and backward at a client with n examples."""
        full_epochs, steps_beyond = divmod(self.steps_of(n), self.batches_per_epoch(n))
        return full_epochs * n + steps_beyond * self.rows_per_batch(n)

    def batches_per_epoch(self, n: int) -> int:
        """Return the number of batches in one epoch over n examples; the last one may be smaller."""
        return -(-n // self.rows_per_batch(n))

    def rows_per_batch(self, n: int) -> int:
        """Return the number of rows of a full batch of a client with n examples."""
        if self.batch is None:
            return n
        return min(self.batch, n)


def _is_whole(value: object, *, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum
