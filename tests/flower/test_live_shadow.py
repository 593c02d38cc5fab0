"""Shadows in a Flower federation: the same messages, the same cohorts, and a promotion at the next start."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import FedAvg
from tests.federation.test_shadow import PLACES, LeastTrained, live_part, raising
from tests.flower.loopback import MODEL, Loopback, node

from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

REPORT = {"num-examples": 10, "train_loss": 1.0}


def played(rounds=4, **options):
    """A run, and what was sent in it."""
    grid = Loopback({number: node(f"phone-{number}", w=(number, 1.0), metrics=REPORT) for number in range(8)})
    selector = load("uniform", weights="uniform")
    strategy = SelectorStrategy(selector, cohort=3, strategy=FedAvg(fraction_evaluate=0.0), **options)
    strategy.start(grid, codec.to_record(MODEL), rounds, timeout=5.0)
    return strategy, [(m.metadata.message_type, m.metadata.dst_node_id) for m in grid.sent]


def test_the_live_method_does_not_notice_its_shadows():
    plain, messages = played()
    shadow = {"least": LeastTrained(), "oort": "oort", **{where: raising(where) for where in PLACES[:7]}}
    shadowed, with_shadows = played(shadow=shadow)
    assert with_shadows == messages
    assert live_part(shadowed.history) == live_part(plain.history)
    assert all(record["shadows"]["least"]["chosen"] == 3 for record in shadowed.history)


def test_a_shadow_is_promoted_at_the_next_start(tmp_path):
    options = {"shadow": {"least": LeastTrained()}, "checkpoint": tmp_path / "run.npz", "resume": True}
    first, _ = played(3, horizon=6, **options)
    state = first.driver.shadows.shadows[0].registrar.state.trained.copy()
    second, _ = played(6, promote="least", **options)
    assert second.history[3]["cohort"] == state.argsort(kind="stable")[:3].tolist()
    assert list(second.history[3]["shadows"]) == ["Uniform"]
