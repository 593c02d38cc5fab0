"""What a federation promises its clients, and what else of it the rules look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sortition.core.errors import bad
from sortition.core.guards.settings import Guards
from sortition.core.validation import refuse_unknown_keys

KINDS = ("none", "central", "local")


@refuse_unknown_keys
@dataclass(frozen=True)
class Promises:
    """What a federation promises its clients. The simulator computes nothing of it: ``sortition lint`` reads it.

    Attributes:
        secure_aggregation: the server sees sums of updates only.
        differential_privacy: noise is added to the sum ("central"), by each client ("local"), or not at all ("none").
        amplification: the privacy budget is computed with amplification by sampling.
    """

    secure_aggregation: bool = False
    differential_privacy: Literal["none", "central", "local"] = "none"
    amplification: bool = False

    def __post_init__(self) -> None:
        if self.differential_privacy not in KINDS:
            raise bad("privacy.differential_privacy", " or ".join(map(repr, KINDS)), self.differential_privacy)
        if self.amplification and not self.private:
            raise bad("privacy.amplification", "false without differential_privacy", True)

    @property
    def private(self) -> bool:
        """Whether any noise is promised."""
        return self.differential_privacy != "none"


@dataclass(frozen=True)
class Deployment:
    """The rest of a federation, as far as rules depend on it.

    Attributes:
        clients: how many there are, where known.
        cohort: how many train in a round, where known.
        rounds: how many rounds there are, where known.
        guards: how far clients are trusted.
        combine: what becomes of the updates, by the name of the rule.
    """

    clients: int | None = None
    cohort: int | None = None
    rounds: int | None = None
    guards: Guards = field(default_factory=Guards)
    combine: str = "mean"
