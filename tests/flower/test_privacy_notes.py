"""Before a run the log says what a method breaks under the strategy's differential privacy."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from sortition.flower import SelectorStrategy
from sortition.flower import strategy as strategy_module
from sortition.selectors import load


@pytest.fixture
def logged(monkeypatch):
    lines = []
    monkeypatch.setattr(strategy_module, "log", lambda level, text, *values: lines.append(text % values))
    return lines


def test_what_has_no_noise_is_said(logged):
    noisy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, num_sampled_clients=4)
    SelectorStrategy(load("power-of-choice"), cohort=4, strategy=noisy)
    assert any("unsound (beside-the-noise): clients send loss" in line for line in logged)


def test_without_a_promise_nothing_is_said(logged):
    SelectorStrategy(load("power-of-choice"), cohort=4, strategy=FedAvg())
    assert logged == []


def test_the_start_says_all_that_auto_takes_from_nodes(caplog):
    with caplog.at_level("INFO", logger="flwr"):
        SelectorStrategy("auto", cohort=3).summary()
    text = caplog.text
    for line in (
        "reads sizes, label_counts (if all nodes give it)",
        "asks resources (of nodes that can answer)",
        "has reported update-sketch32 (depending on the facts)",
    ):
        assert line in text, text
