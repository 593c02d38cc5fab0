"""What SelectorStrategy is given, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition.aggregation import CombineRule
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.facts import check_names
from sortition.core.guards.settings import Guards
from sortition.core.rounds import with_standby
from sortition.core.selector import Selector
from sortition.core.validation import is_number, is_whole
from sortition.flower.privacy_notes import log_findings
from sortition.flower.strategy_kinds import Kind

Eligible = Collection[str] | Callable[[str, Mapping[str, Array]], bool]


@dataclass(frozen=True)
class Options:
    """The options of a SelectorStrategy, whose docstring explains them."""

    selector: Selector[Any]
    cohort: int
    overselect: float
    guards: Guards
    owner_of: Callable[[str], Hashable] | None
    eligible: Eligible | None
    horizon: int | None
    seed: int
    facts: Sequence[str]
    on_round: Callable[[dict[str, Any]], object] | None
    answer_timeout: float
    profile_timeout: float
    wait_for: int
    patience: float
    checkpoint_every: int
    checkpoint: Path | None
    resume: Path | None
    rule: CombineRule = CombineRule()

    def __post_init__(self) -> None:
        if not isinstance(self.selector, Selector):
            raise bad(
                "SelectorStrategy.selector", "a Selector", self.selector, "Make one with sortition.selectors.load."
            )
        self._check_numbers()
        self._check_functions()
        self._check_guards()
        if own := self.selector.needs.of_server:
            raise InputError(
                f"{type(self.selector).__name__} needs {own[0].name!r}, which the server computes from single updates "
                "and data of its own; a strategy has none. Use a Registrar in a loop of your own, finish(reports=…)."
            )
        for signal in (*self.selector.needs.asks, *self.selector.needs.reports):
            if signal.of == "pairs":
                raise InputError(
                    f"{type(self.selector).__name__} asks for {signal.name!r}, products between pairs of clients, "
                    "which Flower clients cannot exchange. Choose a variant that reads or asks single clients."
                )

    def _check_numbers(self) -> None:
        for name in ("cohort", "wait_for", "checkpoint_every"):
            if not is_whole(getattr(self, name), 1):
                raise bad(f"SelectorStrategy.{name}", "a whole number ≥ 1", getattr(self, name))
        if self.horizon is not None and not is_whole(self.horizon, 1):
            raise bad("SelectorStrategy.horizon", "a whole number ≥ 1 or None", self.horizon)
        if not is_whole(int(self.seed) if isinstance(self.seed, np.integer) else self.seed, 0):
            raise bad("SelectorStrategy.seed", "a whole number ≥ 0", self.seed)
        for name in ("answer_timeout", "profile_timeout"):
            if not (is_number(getattr(self, name)) and getattr(self, name) > 0):
                raise bad(f"SelectorStrategy.{name}", "seconds > 0", getattr(self, name))
        if not (is_number(self.patience) and self.patience >= 0):
            raise bad("SelectorStrategy.patience", "seconds ≥ 0", self.patience, "math.inf waits without end.")
        if not (is_number(self.overselect) and math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad("SelectorStrategy.overselect", "finite and ≥ 1", self.overselect)

    def _check_functions(self) -> None:
        for name in ("owner_of", "on_round"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise bad(f"SelectorStrategy.{name}", "a function or None", getattr(self, name))
        if not (self.eligible is None or callable(self.eligible) or _is_several(self.eligible)):
            raise bad("SelectorStrategy.eligible", "names, tags or a function (name, facts) → bool", self.eligible)
        if not (_is_several(self.facts) and all(isinstance(fact, str) for fact in self.facts)):
            raise bad("SelectorStrategy.facts", "a list of names", self.facts)
        check_names(self.facts, "SelectorStrategy.facts: Population")

    def _check_guards(self) -> None:
        if not isinstance(self.guards, Guards):
            raise bad("SelectorStrategy.guards", "Guards or None", self.guards, "Write Guards(explore=0.1).")
        if self.guards.minimum > self.cohort:
            raise bad("Guards.minimum", f"at most the cohort, {self.cohort}", self.guards.minimum)
        if self.guards.quota and self.owner_of is None and "groups" not in self.selector.needs.reads:
            raise bad("Guards.quota", "0 where owners are unknown", self.guards.quota, "Give owner_of=….")

    def check_strategy(self, name: str, kind: Kind) -> None:
        """Refuse combinations with a strategy that cannot work; log what breaks a promise of privacy."""
        if kind.equal and (kind.equal != self.cohort or self.overselect > 1):
            raise bad(
                f"{name}.num_sampled_clients",
                f"the cohort, {self.cohort}, without overselect: its noise is of that many equal weights",
                kind.equal,
            )
        if self.cohort < kind.least:
            raise bad(
                "SelectorStrategy.cohort",
                f"at least {kind.least}: of fewer updates {name} makes no model",
                self.cohort,
            )
        if self.rule.name != "mean" and not kind.linear:
            raise InputError(
                f"SelectorStrategy.combine = {self.rule.name!r} makes one update of all, and {name} aggregates by a "
                "rule of its own. Use FedAvg, FedProx, FedAvgM, FedAdam, FedAdagrad or FedYogi with it."
            )
        if kind.trees and self.selector.needs.individual:
            raise InputError(
                f"{type(self.selector).__name__} compares updates, and {name} trains trees, which have none. "
                "Choose a method that reads facts or losses."
            )
        log_findings(self.selector, self.cohort, self.guards, kind)

    def is_eligible(self, name: str, tags: Collection[str], facts: Mapping[str, Array]) -> bool:
        """Whether a client may be chosen."""
        if self.eligible is None:
            return True
        if callable(self.eligible):
            try:
                return bool(self.eligible(name, facts))
            except Exception as error:  # the operator's function, on what a client says of itself
                raise InputError(
                    f"SelectorStrategy.eligible must give true or false of client {name!r}, whose facts are "
                    f"{', '.join(facts) or 'none'}; got {type(error).__name__}: {error}. Facts that the selector does "
                    "not read are asked for with facts=[…]."
                ) from error
        return name in self.eligible or any(tag in self.eligible for tag in tags)

    @property
    def asked_to_train(self) -> int:
        """Clients per round, with those that stand by for the late."""
        return with_standby(self.cohort, self.overselect)


def _is_several(value: object) -> bool:
    """Whether it is a collection; a text, which is one of letters, is meant as one name."""
    return isinstance(value, Collection) and not isinstance(value, str)


def as_path(name: str, value: str | Path) -> Path:
    """The path that an option gives."""
    if not isinstance(value, str | Path):
        raise bad(f"SelectorStrategy.{name}", "a path", value)
    if Path(value).is_dir():
        raise bad(f"SelectorStrategy.{name}", "the path of a file", f"the folder {value}")
    return Path(value)


def paths(checkpoint: str | Path | None, resume: str | Path | bool | None) -> tuple[Path | None, Path | None]:
    """The checkpoint to write and the one to go on from; ``resume=True`` means the same file."""
    if resume is True and checkpoint is None:
        raise bad("SelectorStrategy.resume", "a path where no checkpoint is given", resume)
    written = None if checkpoint is None else as_path("checkpoint", checkpoint)
    return written, written if resume is True else as_path("resume", resume) if resume else None


def named_selector(selector: Selector[Any] | str) -> Selector[Any]:
    """The selector itself, or the one that has this name."""
    if not isinstance(selector, str):
        return selector
    from sortition.selectors import load

    return load(selector)
