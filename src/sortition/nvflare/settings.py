"""What both controllers are given, checked before anything runs. All of it goes through JSON, as NVFlare demands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.core import Guards, Selector
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import imported
from sortition.core.validation import is_number, is_whole
from sortition.selectors import find


@dataclass(frozen=True)
class Settings:
    """How sites are selected.

    Attributes:
        selector: a method's name, or ``package.module:Class`` of one that the server can import.
        cohort: sites a round.
        parameters: the method's parameters.
        seed: of all the selector's draws.
        guards: keys of :class:`sortition.Guards`.
        owners: from a site's name to its owner, for ``Guards.quota``; a site that is not named owns itself.
        wait_for: sites that must be connected before the first round.
        patience: seconds with too few sites after which the job stops (before the first round) or a round is skipped.
        answer_timeout: seconds that sites have for a question or their profile.
        train_timeout: seconds that sites have to train; 0 waits for ever.
        overselect: factor on the cohort; a round closes when as many as the cohort have answered.
        checkpoint: file for the selection (and, with ``SelectorController``, the model); empty for none.
        resume: go on from the checkpoint, if there is one.
        audit: file of the audit log; empty for none.
    """

    selector: str
    cohort: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    guards: Mapping[str, Any] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    wait_for: int = 1
    patience: int = 600
    answer_timeout: int = 60
    train_timeout: int = 3600
    overselect: float = 1.0
    checkpoint: str = ""
    resume: bool = False
    audit: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.selector, str):
            raise bad("SelectorController.selector", "the name of a method", self.selector, "Parameters go apart.")
        self._check_types()
        if self.resume and not self.checkpoint:
            raise InputError("SelectorController.checkpoint must be given where resume = True; got nothing.")
        quota, least = self.trust().quota, self.trust().minimum
        if least > self.cohort:
            raise bad("Guards.minimum", f"at most the cohort, {self.cohort}", least)
        if quota and not self.owners and "groups" not in self.method().needs.reads:
            raise bad("Guards.quota", "0 where owners are unknown", quota, "Give owners = {site: owner}.")
        self.method()

    def _check_types(self) -> None:
        whole = {"cohort": 1, "seed": 0, "wait_for": 1, "patience": 1, "answer_timeout": 1, "train_timeout": 0}
        for name, least in whole.items():
            if not is_whole(getattr(self, name), least):
                raise bad(f"SelectorController.{name}", f"a whole number ≥ {least}", getattr(self, name))
        if not (is_number(self.overselect) and math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad("SelectorController.overselect", "finite and ≥ 1", self.overselect)
        kinds = {"parameters": Mapping, "guards": Mapping, "owners": Mapping, "checkpoint": str, "audit": str}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                rule = "a text" if kind is str else "a table"
                raise bad(f"SelectorController.{name}", rule, getattr(self, name))
        if not isinstance(self.resume, bool):
            raise bad("SelectorController.resume", "true or false", self.resume)

    @classmethod
    def of(cls, selector: str, cohort: int, options: Mapping[str, Any] | None) -> Settings:
        """From what a controller is given; an unknown key is met with 'did you mean'."""
        known = [name for name in cls.__dataclass_fields__ if name not in ("selector", "cohort")]
        if options is not None and not isinstance(options, Mapping):
            raise bad("SelectorController.options", "a table", options)
        for name in options or {}:
            if name not in known:
                raise unknown("option", name, known, "SelectorController.options")
        return cls(selector, cohort, **dict(options or {}))

    def method(self) -> Selector[Any]:
        """The selector, with its parameters checked."""
        selector = self._selector_class().load(**dict(self.parameters))
        if own := selector.needs.of_server:
            raise InputError(
                f"{type(selector).__name__} must not need {own[0].name!r} here: the server computes it from single "
                "updates and data of its own, which a controller has not. Use a Registrar in a loop of your own."
            )
        pairs = [signal.name for signal in selector.needs.asks if signal.of == "pairs"]
        if pairs:
            raise InputError(
                f"{type(selector).__name__} must not ask {pairs[0]!r} here: it is a protocol between clients, which "
                "NVFlare's sites have no channel for. Choose a variant that reads label counts."
            )
        return selector

    def _selector_class(self) -> type[Selector[Any]]:
        if ":" not in self.selector:
            return find(self.selector)
        found = imported(self.selector, "SelectorController.selector")
        if not (inspect.isclass(found) and issubclass(found, Selector)):
            raise bad("SelectorController.selector", "a Selector class", self.selector)
        return found

    def trust(self) -> Guards:
        """The guards."""
        try:
            return Guards(**dict(self.guards))
        except TypeError as error:
            raise InputError(f"SelectorController.guards must hold keys of Guards; {error}.") from None

    @property
    def file(self) -> Path | None:
        """The checkpoint's path."""
        return Path(self.checkpoint) if self.checkpoint else None
