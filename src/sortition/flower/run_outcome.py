"""Whether a run leads anywhere: one in which no update can be used must not look like success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import WARNING
from typing import Any

from flwr.common.logger import log

from sortition.core.errors import InputError
from sortition.core.rounds import Cohort
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.exchange import Replies

IN_VAIN = 3  # cohorts in a row that are too small, after which a run that has no model yet ends


@dataclass
class RunOutcome:
    """Whether the model has moved, and the errors of a run in which it cannot."""

    moved: bool = False
    _too_small: int = 0  # cohorts in a row

    def check_cohort(self, cohort: Cohort, available: int, base: BaseStrategy, owner: str) -> None:
        """Refuse a selector that keeps choosing fewer clients than the strategy needs, before they train."""
        least, size = base.kind.least, cohort.ids.size
        if not size or size >= least or available < least:
            self._too_small = 0
            return
        self._too_small += 1
        why = (
            f"{owner} chose {size} of {available} clients, and {type(base.strategy).__name__} makes no model of fewer "
        )
        why += f"than {least} updates."
        if self.moved or self._too_small < IN_VAIN:
            log(WARNING, "This round leaves the model as it is: %s", why)
            return
        raise InputError(
            f"{why} Let {owner} choose more at a time (a larger cohort, or fewer groups of clients), or use another "
            "strategy."
        )

    def check_replies(self, sent: int, found: Replies, faults: Mapping[int, str], names: Sequence[str]) -> None:
        """That no client at all can train is a mistake of the app: said at once, not after the last round."""
        failed = {k: reason for k, reason in found.failed.items() if k not in found.lost} | dict(faults)
        if sent and len(failed) == sent and not self.moved:
            client, reason = next(iter(failed.items()))
            raise InputError(
                f"None of the {len(failed)} chosen clients can train; client {names[client]}: {reason.strip()}"
            )

    def check_end(self, rounds: int, history: Sequence[Mapping[str, Any]], base: BaseStrategy) -> None:
        """Raise where none of these rounds moved the model."""
        if self.moved or not rounds:
            return
        most, least = max((len(record["answered"]) for record in history), default=0), base.kind.least
        why = "The log says of every round who was left out and why."
        if not history:
            why = f"{type(base.strategy).__name__}.start must call self.configure_train, where the selector chooses."
        if 0 < most < least:
            why = f"{type(base.strategy).__name__} needs {least} usable updates in a round, and at most {most} came. "
            why += "Let the selector choose more clients at a time, or use another strategy."
        raise InputError(
            f"None of {rounds} rounds brought an update that could be used: the model is the one that was given. {why}"
        )
