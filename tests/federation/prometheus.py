"""A real Prometheus on this machine, for tests; Debian's package ``prometheus`` brings it and ``promtool``."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sortition.core.record import RoundRecord, answered_ids

EXAMPLES = Path(__file__).parents[2] / "examples" / "metrics"
OF_TARGET = ("job", "instance", "__name__")
COUNTERS = ("rounds", "chosen", "used", "silent", "failed", "standby")
PATIENCE = 60.0  # seconds until Prometheus must have scraped

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: apt-get install prometheus"
)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Prometheus:
    """Answers queries about what it has scraped."""

    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of an instant query, by labels other than those of the target."""
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(address, timeout=10) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        values = {}
        for series in answer["data"]["result"]:
            labels = {key: value for key, value in series["metric"].items() if key not in OF_TARGET}
            values[tuple(sorted(labels.items()))] = float(series["value"][1])
        return values

    def wait_for(self, expression: str, value: float) -> None:
        """Wait until a query has this one value."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if list(self.query(expression).values()) == [value]:
                    return
            except OSError:  # it is not up yet
                pass
            time.sleep(0.2)
        raise AssertionError(f"{expression} did not become {value} in {PATIENCE:g} s")


@contextmanager
def scraping(folder: Path, target: int) -> Iterator[Prometheus]:
    """A Prometheus with the example's configuration that scrapes this port every second."""
    config = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "1s"
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{target}"]
    config["rule_files"] = [str(EXAMPLES / "alerts.yml")]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    log = folder / "prometheus.log"
    command = [
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Prometheus(port)
    except AssertionError as error:
        error.add_note(log.read_text()[-2000:])
        raise
    finally:
        process.terminate()
        process.wait(30)


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
        for name in ("silent", "failed", "standby"):
            assert self.totals[name] == sum(len(record.get(name) or ()) for record in history)
