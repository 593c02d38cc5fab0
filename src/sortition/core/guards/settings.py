"""How far clients are trusted: bounds on reports, quarantine, caps, an exploration floor, quotas, a least cohort.

Guards act at three moments: who is eligible (:mod:`~sortition.core.guards.eligibility_and_quarantine`), which answers
reach the selector (:mod:`~sortition.core.guards.answer_screening`, and :meth:`Guards.find_absurd` for models),
and who is added to the cohort (:mod:`~sortition.core.guards.exploration`). Zero turns each one off;
``turn.guarded`` holds what they did.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Strict

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.population import LARGEST_COUNT
from sortition.core.validation import refuse_unknown_keys

Number = Annotated[float, Strict()]  # in a study's file, true is not 1
Whole = Annotated[int, Strict()]
REWEIGHT = ("own", "size", "uniform", "fitted", "fedau")


def _check_number(option: str, value: object) -> float:
    """Return a number ≥ 0; ``option`` names it in messages."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value >= 0:
        raise bad(option, "a number ≥ 0", value, "0 turns it off.")
    if value > sys.float_info.max:
        raise bad(option, "finite", value, "0 turns it off.")
    return float(value)


def _check_whole(option: str, value: object) -> int:
    """Return a whole number ≥ 0; ``option`` names it in messages."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not value >= 0:
        raise bad(option, "a whole number ≥ 0", value, "0 turns it off.")
    if value > LARGEST_COUNT:  # it is added to a round's index
        raise bad(option, "at most 2**53", value, "0 turns it off.")
    return int(value)


@refuse_unknown_keys
@dataclass(frozen=True)
class Guards:
    """How far clients are trusted; the defaults never touch an honest run.

    Attributes:
        bound: the largest Euclidean norm of a report or update; 0: any finite one.
        norm: a report or update is refused when its norm exceeds this many times the scale that is remembered
            (``remember``), or the median of its reading where none is; 0: never.
        remember: rounds over which the norms that clients send are remembered; each client's last one is a vote, and
            their median is the scale; 0: nothing is remembered.
        clip: updates longer than this many times the remembered scale are shortened to that, and so is their
            combination: no round moves the model further; 0: never.
        returning: the share of a cohort that clients may have that are new, or back after an absence; 0: any.
        strikes: rounds with an unsound report or update after which a client is quarantined.
        quarantine: rounds for which it is then kept out; 0: none.
        winsorise: non-negative numbers (losses, durations) are clipped at median + this many standard deviations,
            estimated by the median absolute deviation of the same reading; 0: never.
        size_cap: sizes and label counts are shown to the selector as at most this many times the median; 0: as given.
        size_limit: sizes and label counts are shown as at most this many examples; 0: as given.
        explore: ε, the share of the cohort that is drawn uniformly from the eligible clients.
        quota: places an owner (``Population.groups``) can have in a round: a number, or below 1 a share; 0: all.
        ceiling: places a client can have over all rounds, as a multiple of its fair share (that of a uniform draw);
            0: all.
        reweight: the cohort's weights in place of the method's own, by "size", "uniform", "fitted" (to the population's
            labels, where the method reads label counts), or "fedau": mean intervals of participation over N, which sum
            to 1 in expectation only; "own" keeps them. With it methods are compared by whom they choose alone.
        cutoff: K of FedAU: rounds after which an interval of participation is closed; 0: never.
        minimum: with fewer eligible clients a round is skipped, with fewer completed ones nothing is aggregated.
    """

    bound: Number = 1e15
    norm: Number = 1e6
    strikes: Whole = 3
    quarantine: Whole = 0
    winsorise: Number = 0.0
    size_cap: Number = 0.0
    size_limit: Whole = 0
    explore: Number = 0.0
    quota: Number = 0.0
    ceiling: Number = 0.0
    remember: Whole = 0
    clip: Number = 0.0
    returning: Number = 0.0
    minimum: Whole = 0
    reweight: Literal["own", "size", "uniform", "fitted", "fedau"] = "own"
    cutoff: Whole = 50

    def __post_init__(self) -> None:
        if self.reweight not in REWEIGHT:
            raise bad("Guards.reweight", " or ".join(map(repr, REWEIGHT)), self.reweight)
        for item in (item for item in fields(self) if item.name != "reweight"):
            check = _check_number
            if item.type == "Whole":
                check = _check_whole
            object.__setattr__(self, item.name, check(f"Guards.{item.name}", getattr(self, item.name)))
        if self.strikes < 1:
            raise bad("Guards.strikes", "≥ 1", self.strikes, "quarantine = 0 turns quarantine off.")
        for name, lowest in (("norm", 2), ("size_cap", 1), ("ceiling", 1)):
            if 0 < getattr(self, name) < lowest:
                raise bad(f"Guards.{name}", f"0 (off) or ≥ {lowest}", getattr(self, name))
        for name in ("explore", "returning"):
            if getattr(self, name) > 1:
                raise bad(f"Guards.{name}", "a share in [0, 1]", getattr(self, name))
        if self.clip and not self.remember:
            raise bad("Guards.clip", "0 where nothing is remembered", self.clip, "Write remember = 50 beside it.")
        if self.quota > 1 and self.quota != int(self.quota):
            raise bad("Guards.quota", "a whole number of places, or a share below 1", self.quota)

    def changed(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults: what a snapshot and a run's configuration hold."""
        return {f.name: getattr(self, f.name) for f in fields(Guards) if getattr(self, f.name) != f.default}

    def find_absurd(self, norms: Array) -> dict[int, str]:
        """Find norms (n,) that are absurd by themselves; return the reason against each by its position."""
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(norms)
            high = norms > (self.bound or np.inf)
        reasons = dict.fromkeys(np.flatnonzero(~finite).tolist(), "not finite")
        return reasons | dict.fromkeys(np.flatnonzero(high & finite).tolist(), f"norm above {self.bound:g}")

    def find_too_far(self, norms: Array, scale: float | None = None) -> dict[int, str]:
        """Find finite norms (n,) that are far above the scale, or above their own median where there is none.

        Returns the reason against each by its position.
        """
        finite = np.isfinite(norms)
        if not self.norm or not finite.any():
            return {}
        usual = float(np.median(norms[finite])) if scale is None else scale
        if usual <= 0:
            return {}
        reference = "the median" if scale is None else "what clients usually send"
        too_long = np.flatnonzero(finite & (norms > self.norm * usual))
        return dict.fromkeys(too_long.tolist(), f"norm above {self.norm:g} times {reference}")

    def find_refused(self, norms: Array, scale: float | None = None) -> dict[int, str]:
        """Find norms (n,) that are absurd or far above the scale; return the reason against each by its position."""
        return self.find_too_far(norms, scale) | self.find_absurd(norms)

    def places_per_owner(self, budget: int) -> int:
        """Return how many places one owner can have of a budget; at least one."""
        if self.quota >= 1:
            return int(self.quota)
        return max(1, int(self.quota * budget))
