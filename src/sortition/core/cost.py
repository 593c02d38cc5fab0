"""What a federation costs, in four currencies, and the limit at which a run ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from sortition.core.arrays import Floats
from sortition.core.errors import InputError, bad
from sortition.core.validation import is_number, refuse_unknown_keys

Currency = Literal["rounds", "seconds", "megabytes", "passes"]
CURRENCIES: tuple[Currency, ...] = get_args(Currency)
BYTES_PER_MEGABYTE = 1e6
BYTES_PER_NUMBER = 4  # of a model, an update or an answer
MOST_ROUNDS = 100_000  # of a run that ends by its cost alone


@refuse_unknown_keys
@dataclass(frozen=True)
class Until:
    """The cost at which a run ends, in one currency; the step that reaches it is the last one.

    Attributes:
        seconds: of the clock, simulated or real.
        megabytes: sent by server and clients together, 10⁶ bytes each.
        passes: examples that clients compute on, in training and for answers.
    """

    seconds: float | None = None
    megabytes: float | None = None
    passes: float | None = None

    def __post_init__(self) -> None:
        limits = {item.name: getattr(self, item.name) for item in fields(self)}
        stated = {currency: limit for currency, limit in limits.items() if limit is not None}
        if len(stated) != 1:
            *currencies, last_currency = limits
            raise InputError(
                f"until must name exactly one of {', '.join(currencies)} or {last_currency}; "
                f"got {' and '.join(stated) or 'none'}. Write until = {{ seconds = 3600 }}."
            )
        for currency, limit in stated.items():
            if not is_number(limit) or not (math.isfinite(limit) and limit > 0):
                raise bad(f"until.{currency}", "finite and > 0", limit)

    @property
    def currency(self) -> Currency:
        """In which currency the limit is."""
        if self.seconds is not None:
            return "seconds"
        return "megabytes" if self.megabytes is not None else "passes"

    @property
    def limit(self) -> float:
        """How much of it may be spent."""
        return float(getattr(self, self.currency))

    def is_reached(self, costs: Mapping[Currency, float]) -> bool:
        """Tell whether a run that has cost so much, by currency, has reached the limit."""
        return costs[self.currency] >= self.limit

    def __str__(self) -> str:
        return f"{self.limit:,.10g} {self.currency}"


def total_bytes(record: Mapping[str, Any]) -> float:
    """Return all bytes that a round moved, up and down."""
    return float(sum((record.get("bytes") or {}).values()))


def total_passes(record: Mapping[str, Any]) -> float:
    """Return how many examples clients computed on in a round. Wasted ones are a part of those of training."""
    passes = record.get("passes") or {}
    return float(passes.get("training", 0) + passes.get("forward", 0))


def cumulative_costs(records: Sequence[Mapping[str, Any]]) -> dict[Currency, Floats]:
    """Return what a run had cost after each of its records, by currency; seconds are NaN where there is no clock."""
    clock = [record.get("clock") for record in records]
    return {
        "rounds": np.array([record["round"] + 1 for record in records], np.float64),
        "seconds": np.array([math.nan if seconds is None else seconds for seconds in clock], np.float64),
        "megabytes": np.cumsum([total_bytes(record) for record in records], dtype=np.float64) / BYTES_PER_MEGABYTE,
        "passes": np.cumsum([total_passes(record) for record in records], dtype=np.float64),
    }


def last_costs(records: Sequence[Mapping[str, Any]]) -> dict[Currency, float]:
    """Return what a run has cost by its records, by currency."""
    if not records:
        return dict.fromkeys(CURRENCIES, 0.0)
    return {currency: float(costs[-1]) for currency, costs in cumulative_costs(records).items()}
