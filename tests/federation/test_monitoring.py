"""The endpoint of a running federation: its counters are the sums of the records, and it names nobody unasked."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest
from tests.federation import tiny
from tests.federation.fleet import serving
from tests.federation.scraping import LastPage, page, samples

from sortition.core import Guards
from sortition.core.errors import InputError
from sortition.core.round_record import answered_ids
from sortition.federation import Federation, Mailbox, Metrics, Reply
from sortition.federation import monitoring as metrics_module
from sortition.studies import track

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: pip install 'sortition[metrics]'")


def broken(work):
    """A device whose model is not finite."""
    if work.ask.kind != "train":
        return tiny.devices(8)["device-7"].handle(work)
    return Reply(work.handle, model={"w": np.full(tiny.SIZE, np.nan, np.float32)})


def played(rounds=4, selector="power-of-choice", replaced=None, **options):
    mailbox = Mailbox()
    devices = {name: device.handle for name, device in tiny.devices(8).items()} | (replaced or {})
    federation = Federation(
        mailbox, tiny.model(), selector, **{"cohort": 3, "wait_for": len(devices), "deadline": 20, **options}
    )
    with serving(mailbox, devices):
        federation.run(rounds)
    return federation


def scraped(rounds=4, endpoint=None, **options):
    """A federation, and what its endpoint showed after the last round."""
    endpoint = endpoint or Metrics(0)
    watcher = LastPage(lambda: endpoint.port)
    federation = played(rounds, metrics=[endpoint, watcher], **options)
    assert len(watcher.pages) == rounds - federation.files.played
    return federation, watcher.pages[-1]


def value(shown, name, **labels):
    return shown[f"sortition_{name}", tuple(sorted(labels.items()))]


def check_counters(shown, history):
    """Counters are sums over the records."""
    assert value(shown, "chosen_total") == sum(len(record["cohort"]) for record in history)
    assert value(shown, "used_total") == sum(len(answered_ids(record)) for record in history)
    assert value(shown, "silent_total") == sum(len(record["silent"]) for record in history)
    assert value(shown, "failed_total") == sum(len(record["failed"]) for record in history)
    assert value(shown, "round") == len(history) - 1
    rounds = sum(count for (name, _), count in shown.items() if name == "sortition_rounds_total")
    assert rounds == len(history)
    asked = sum(question["asked"] for record in history for question in record["questions"])
    assert value(shown, "questions_total", signal="loss") == asked


def test_counters_equal_the_records():
    federation, text = scraped(5, replaced={"device-7": broken}, cohort=8)
    shown = samples(text)
    check_counters(shown, federation.history)
    refused = sum(len(record["left_out"]) for record in federation.history)
    assert refused > 0
    assert value(shown, "refused_total", what="update", reason="not-finite") == refused
    assert value(shown, "info", backend="server", method="PowerOfChoice", version=metrics_module.__version__) == 1
    assert value(shown, "selection_seconds_count") == 5


def test_counters_equal_the_records_after_a_restart(tmp_path):
    options = {"checkpoint": tmp_path / "run.npz", "resume": True}
    scraped(3, **options)
    federation, text = scraped(6, **options)
    assert len(federation.history) == 6
    shown = samples(text)
    check_counters(shown, federation.history)
    assert 0 <= value(shown, "checkpoint_age_seconds") < 60


def test_array_bytes_are_those_of_the_models_and_answers():
    federation, text = scraped(3, selector="uniform")
    shown = samples(text)
    model = tiny.model()["w"].nbytes
    trained = sum(len(record["cohort"]) for record in federation.history)
    assert value(shown, "array_bytes_total", direction="down") == trained * model
    assert value(shown, "array_bytes_total", direction="up") == trained * model


def test_quarantine_and_exclusion_are_shown():
    guards = Guards(quarantine=50, strikes=1)
    _, text = scraped(8, selector="full", replaced={"device-7": broken}, guards=guards)
    shown = samples(text)
    assert value(shown, "quarantined") == 1
    assert value(shown, "excluded_total", rule="quarantine") == 7
    assert (value(shown, "available"), value(shown, "eligible")) == (8, 7)


def test_nobody_is_named_unless_asked():
    owners = {"owner_of": lambda name: f"company-{int(name.split('-')[1]) % 2}"}
    _, text = scraped(2, selector="fedgs", **owners)
    assert "device-" not in text
    assert "company" not in text
    assert "label_counts" not in text
    assert "sortition_owner_largest_share" in text
    federation, text = scraped(2, Metrics(0, owners=True, clients=True), **owners)
    places = {f"company-{side}": 0 for side in (0, 1)}
    for record in federation.history:
        for name in record["names"]:
            places[owners["owner_of"](name)] += 1
    shown = samples(text)
    for owner, count in places.items():
        assert value(shown, "owner_places_total", owner=owner) == count
    assert value(shown, "client_places_total", client=federation.history[0]["names"][0]) >= 1


def test_records_are_the_same_with_metrics_and_without():
    def without_clock(history):
        return [{**record, "clock": 0} for record in history]

    plain = played(4, seed=5)
    federation, _ = scraped(4, seed=5)
    assert without_clock(federation.history) == without_clock(plain.history)


def test_the_endpoint_also_speaks_prometheus_text_and_closes_with_the_federation():
    endpoint = Metrics(0, linger=0)
    texts = []
    played(2, metrics=endpoint, on_round=lambda record: texts.append(page(endpoint.port, "text/plain")))
    assert "# TYPE sortition_chosen_total counter" in texts[-1]
    assert "# EOF" not in texts[-1]
    with pytest.raises(OSError, match="refused"):
        page(endpoint.port)


def test_a_port_in_use_is_refused_before_the_first_round():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Metrics.port must be free on 127.0.0.1; got {port}"):
            played(1, metrics=port)


@pytest.mark.parametrize("given", ["9464", True, object(), [None]])
def test_something_else_than_metrics_is_refused(given):
    with pytest.raises(InputError, match=r"Federation.metrics must be a port"):
        Federation(Mailbox(), tiny.model(), "uniform", cohort=2, metrics=given)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(InputError, match=r"Metrics.port must be a whole number from 0 to 65535"):
        Federation(Mailbox(), tiny.model(), "uniform", cohort=2, metrics=port)


def test_without_the_package_the_message_says_how_to_install_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(metrics_module.importlib, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'sortition\[metrics\]'"):
        Metrics(0)


class Remembering(track.Tracker):
    """A tracker that keeps what it is told."""

    package = "numpy"

    def __init__(self):
        self.told = []

    def open(self, tags, options, played):
        self.told.append(("open", dict(tags), played))

    def log(self, values, step):
        self.told.append((step, dict(values)))

    def close(self, completed):
        self.told.append(("close", completed))


def test_a_studys_tracker_follows_a_live_federation():
    tracker = Remembering()
    federation = played(3, metrics=tracker)
    opened, *rounds, closed = tracker.told
    assert opened == ("open", {"backend": "server", "method": "PowerOfChoice"}, 0)
    assert [step for step, _ in rounds] == [1, 2, 3]
    assert rounds[-1][1]["selection/chosen"] == len(federation.history[-1]["cohort"])
    assert "selection/evenness" in rounds[-1][1]
    assert closed == ("close", True)


def test_a_sink_that_raises_ends_nothing(caplog):
    class Raising(Remembering):
        def log(self, values, step):
            raise RuntimeError("no network")

        def close(self, completed):
            raise RuntimeError("no network")

    behind = Remembering()
    federation = played(2, metrics=[Raising(), behind])
    assert len(federation.history) == 2
    assert len(behind.told) == 4
    assert "raised RuntimeError: no network" in caplog.text


class ScrapesBeforeTheLastRound:
    """A sink that scrapes an endpoint after each round but the last, as Prometheus may, and once again at the end."""

    def __init__(self, endpoint, rounds):
        self.endpoint = endpoint
        self.rounds = rounds
        self.pages = []
        self.late = threading.Timer(0.3, self.scrape)

    def scrape(self):
        self.pages.append(page(self.endpoint.port))

    def begin(self, series, played):
        """Nothing is shown yet."""

    def show(self, series):
        """Scrape, or have it done after the federation has ended."""
        if series.last["round"] + 1 < self.rounds:
            self.scrape()
        else:
            self.late.start()

    def end(self, completed):
        """Nothing to do."""


def test_the_endpoint_stays_open_until_the_last_round_is_scraped(caplog):
    caplog.set_level("INFO")
    endpoint = Metrics(0)
    scraper = ScrapesBeforeTheLastRound(endpoint, 3)
    federation = played(3, metrics=[endpoint, scraper])
    assert scraper.late.finished.is_set(), "run() returned before the last scrape"
    check_counters(samples(scraper.pages[-1]), federation.history)
    assert "stays open until the last one has been scraped, for 60 seconds at most" in caplog.text
    with pytest.raises(OSError, match="refused"):
        page(endpoint.port)


def test_the_endpoint_waits_no_longer_than_it_may():
    endpoint = Metrics(0, linger=0.2)
    scraper = ScrapesBeforeTheLastRound(endpoint, 3)
    scraper.late = threading.Timer(0.0, lambda: None)
    began = time.monotonic()
    played(3, metrics=[endpoint, scraper])
    assert time.monotonic() - began < 30
    assert endpoint.awaits_scrape


def test_the_endpoint_waits_for_nobody_who_never_scraped():
    endpoint = Metrics(0, linger=3600)
    played(2, metrics=endpoint)
    assert not endpoint.awaits_scrape


@pytest.mark.parametrize("linger", [-1, float("nan"), float("inf"), True, "60"])
def test_a_wrong_linger_is_refused(linger):
    with pytest.raises(InputError, match=r"Metrics\.linger must be a number of seconds from 0 to 3600"):
        Metrics(0, linger=linger)


def test_a_stopped_federation_closes_its_sinks_at_once_and_as_not_completed():
    endpoint = Metrics(0, linger=60)
    tracker = Remembering()
    mailbox = Mailbox()

    def scrape_and_stop(record):
        page(endpoint.port)
        federation.stop()

    federation = Federation(
        mailbox,
        tiny.model(),
        "uniform",
        cohort=3,
        wait_for=8,
        deadline=20,
        metrics=[endpoint, tracker],
        on_round=scrape_and_stop,
    )
    began = time.monotonic()
    with serving(mailbox, {name: device.handle for name, device in tiny.devices(8).items()}):
        federation.run(9)
    assert time.monotonic() - began < 50
    assert len(federation.history) == 1
    assert endpoint.awaits_scrape
    assert tracker.told[-1] == ("close", False)
