"""What tests with a real Prometheus share."""

from __future__ import annotations

import shutil

import pytest
from campaign.prometheus import Prometheus

from sortition.core.round_record import RoundRecord, answered_ids

FATES = ("silent", "failed", "standby", "late", "withdrawn")
COUNTERS = ("rounds", "chosen", "used", *FATES)

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: apt-get install prometheus"
)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


class AtTheEnd:
    """A sink that lets Prometheus scrape the last round before the endpoint closes, and asks it for the counters."""

    def __init__(self, prometheus: Prometheus, rounds: int) -> None:
        self.prometheus = prometheus
        self.rounds = rounds
        self.totals: dict[str, float] = {}

    def begin(self, series, played: int) -> None:
        """Nothing to do."""

    def show(self, series) -> None:
        """After the last round, wait for the scrape."""
        if series.last["round"] + 1 == self.rounds:
            self.prometheus.wait_for("sortition_round", self.rounds - 1)
            for name in COUNTERS:
                self.totals[name] = sum(self.prometheus.query(f"sortition_{name}_total").values())

    def end(self, completed: bool) -> None:
        """Nothing to do."""

    def check(self, history: list[RoundRecord]) -> None:
        """What Prometheus has scraped is what the records say."""
        assert len(history) == self.rounds
        assert self.totals["rounds"] == self.rounds
        assert self.totals["chosen"] == sum(len(record["cohort"]) for record in history) > 0
        assert self.totals["used"] == sum(len(answered_ids(record)) for record in history) > 0
        for name in FATES:
            assert self.totals[name] == sum(len(record.get(name) or ()) for record in history)
