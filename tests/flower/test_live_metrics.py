"""The numbers of a Flower federation on its endpoint are those of its records."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")
pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: pip install 'sortition[metrics]'")

from campaign.prometheus import free_port, scraping
from flwr.serverapp.strategy import FedAvg
from tests.federation.prometheus import AtTheEnd, needs_prometheus
from tests.federation.scraping import LastPage, samples
from tests.flower.loopback import MODEL, Loopback, node

from sortition.core.round_record import answered_ids
from sortition.federation import Metrics
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

REPORT = {"num-examples": 10, "train_loss": 1.0}


def raises_in_training(answer):
    """A node that says who it is, and whose program raises when it is to train."""

    def handle(message):
        if message.metadata.message_type == "train":
            raise RuntimeError("no memory left")
        return answer(message)

    return handle


def flower_federation(rounds, **options):
    """A run of eight nodes, of which one cannot train."""
    nodes = {number: node(f"phone-{number}", w=(number, 1.0), metrics=REPORT) for number in range(8)}
    nodes[7] = raises_in_training(nodes[7])
    strategy = SelectorStrategy(
        load("uniform", weights="uniform"), cohort=5, strategy=FedAvg(fraction_evaluate=0.0), **options
    )
    strategy.start(Loopback(nodes), codec.to_record(MODEL), rounds, timeout=5.0)
    return strategy


def test_counters_equal_the_records():
    endpoint = Metrics(0)
    watcher = LastPage(lambda: endpoint.port)
    strategy = flower_federation(6, metrics=[endpoint, watcher])
    assert len(watcher.pages) == 6
    assert "phone-" not in watcher.pages[-1]
    shown = {name: value for (name, labels), value in samples(watcher.pages[-1]).items() if not labels}
    history = strategy.history
    failed = sum(len(record["failed"]) for record in history)
    assert failed > 0
    assert shown["sortition_failed_total"] == failed
    assert shown["sortition_chosen_total"] == 30
    assert shown["sortition_used_total"] == sum(len(answered_ids(record)) for record in history)
    by_direction = {
        dict(labels)["direction"]: value
        for (name, labels), value in samples(watcher.pages[-1]).items()
        if name == "sortition_array_bytes_total"
    }
    assert by_direction == {"down": 30 * 8, "up": (30 - failed) * 8}


@needs_prometheus
@pytest.mark.prometheus
def test_prometheus_scrapes_a_flower_federation(tmp_path):
    target = free_port()
    with scraping(tmp_path, {"sortition": target}) as prometheus:
        at_the_end = AtTheEnd(prometheus, 4)
        strategy = flower_federation(4, metrics=[Metrics(target), at_the_end])
    at_the_end.check(strategy.history)
    assert at_the_end.totals["failed"] > 0
