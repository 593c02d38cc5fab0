"""What is unsound about a selection under the differential privacy of a strategy, said before a run."""

from __future__ import annotations

from logging import WARNING
from typing import Any

from flwr.common.logger import log

from sortition.core.guards.settings import Guards
from sortition.core.selector import Selector
from sortition.flower.strategy_kinds import Kind
from sortition.privacy import Deployment, Promises, lint


def log_findings(selector: Selector[Any], cohort: int, guards: Guards, kind: Kind) -> None:
    """Log what ``sortition lint`` would find; whether secure aggregation is used cannot be seen here."""
    promises = Promises(differential_privacy="central" if kind.equal else "none")
    for finding in lint(selector, promises, Deployment(cohort=cohort, guards=guards)):
        log(WARNING, "privacy: %s", finding)
