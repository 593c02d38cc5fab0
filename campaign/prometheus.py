"""A real Prometheus on this machine; Debian's package ``prometheus`` brings it and ``promtool``."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

EXAMPLES = Path(__file__).parents[1] / "examples" / "metrics"
OF_TARGET = ("job", "instance", "__name__")
PATIENCE = 60.0  # seconds until Prometheus must have scraped


def free_port() -> int:
    """A port of this machine that nobody listens on."""
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

    def wait_for(self, expression: str, value: float, *, patience: float = PATIENCE) -> None:
        """Wait until a query has this one value."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                if list(self.query(expression).values()) == [value]:
                    return
            except OSError:  # it is not up yet
                pass
            time.sleep(0.2)
        raise AssertionError(f"{expression} did not become {value} in {patience:g} s")


@contextmanager
def scraping(folder: Path, targets: Mapping[str, int]) -> Iterator[Prometheus]:
    """A Prometheus with the example's configuration that scrapes these ports every second, by the names of jobs."""
    config = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "1s"
    config["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]} for job, target in targets.items()
    ]
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
