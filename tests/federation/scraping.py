"""Reads the endpoint of a federation as Prometheus does."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def page(port: int, accept: str = OPEN_METRICS) -> str:
    """What the endpoint answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310  (a loopback address)
        return response.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The numbers of a page, by name and labels; the page must be OpenMetrics."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class LastPage:
    """Scrapes an endpoint after every round: ``on_round`` comes before the numbers of its round are shown."""

    def __init__(self, metrics: Callable[[], int]) -> None:
        self.port = metrics
        self.pages: list[str] = []

    def begin(self, series, played: int) -> None:
        """Nothing is shown yet."""

    def show(self, series) -> None:
        """Scrape; this sink stands behind the endpoint."""
        self.pages.append(page(self.port()))

    def end(self, completed: bool) -> None:
        """The endpoint is gone."""
