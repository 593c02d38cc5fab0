"""Stock apps with two lines more, and models of every kind: methods and strategies run on them as they stand."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")
pytest.importorskip("torch")

from tests.flower import matrix
from tests.flower.in_process import client_app, grid_of
from tests.flower.kinds import KINDS, cnn_start, config

from sortition.flower import SelectorStrategy
from sortition.selectors import load

REFUSED = {  # (kind, method): the words in which what cannot work is refused
    ("regression", "label_counts"): "label_counts must be asked of labels that are whole numbers",
    ("regression", "accuracy"): "accuracy must be asked of labels that are whole numbers",
    ("multi-label", "accuracy"): "accuracy must be asked of labels that are whole numbers",
    ("quick-start scikit-learn", "step-gradient"): "must return a metric 'steps'",
    ("quick-start NumPy", "rms-loss"): "must return a metric 'train_loss'",
    **{(kind, "resources"): "does not answer resources" for kind in KINDS if kind.startswith("quick-start")},
    ("quick-start NumPy", "accuracy"): "does not answer accuracy",
}
EVERYWHERE = {  # what no app here gives
    "dispersion": "must return a metric",
    "shapley": "which the server computes from single updates and data of its own",
}


def expected(method, kind):
    needs = load(method, **matrix.SMALL.get(method, {})).needs
    wanted = {*needs.reads, *(signal.name for signal in (*needs.asks, *needs.reports))}
    of_kind = [words for (of, what), words in REFUSED.items() if of == kind and what in wanted]
    return next(iter([*of_kind, *(words for what, words in EVERYWHERE.items() if what in wanted)]), "")


def check(found):
    for key, sentence in found.items():
        method, kind, _ = key.split(" | ")
        words = expected(method, kind)
        assert words in sentence if words else not sentence, f"{key}: {sentence}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_runs_with_a_method_that_asks_nothing_and_one_that_asks(kind, tmp_path):
    app = KINDS[kind].make(tmp_path)
    for method in ("uniform", "power-of-choice"):
        assert matrix.outcome(method, kind, "FedAvg", app) == ""


@pytest.mark.parametrize("strategy", matrix.STRATEGIES)
def test_every_strategy_runs_on_the_stock_network(strategy, tmp_path):
    app = client_app("pytorch", tmp_path)
    assert matrix.outcome("power-of-choice", matrix.STOCK, strategy, app) == ""


def test_a_method_that_asks_nothing_loads_the_data_no_oftener_than_the_app(tmp_path, monkeypatch):
    app = client_app("pytorch", tmp_path)
    import pytorchexample.client_app as module

    loads = []
    original = module.load_data
    monkeypatch.setattr(module, "load_data", lambda *a: loads.append(a) or original(*a))
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=3, strategy=matrix.STRATEGIES["FedAvg"]())
    made.start(grid_of(app), cnn_start(), 4, train_config=config())
    assert len(loads) == 12  # three clients, four rounds


def test_answers_of_the_stock_network_are_those_of_the_network(tmp_path):
    import torch
    from torch.nn import functional

    app, start = client_app("pytorch", tmp_path), cnn_start()
    import pytorchexample.task as task

    grid = grid_of(app)
    made = SelectorStrategy(load("power-of-choice", d=6), cohort=2, strategy=matrix.STRATEGIES["FedAvg"]())
    made.start(grid, start, 1, train_config=config())
    net = task.Net()
    net.load_state_dict(start.to_torch_state_dict())
    losses = []
    for k in range(6):
        batches = list(task.load_data(k, 6)[0])
        images, labels = torch.cat([b["img"] for b in batches]), torch.cat([b["label"] for b in batches])
        losses.append(functional.cross_entropy(net(images), labels).item())
    worst = sorted(range(6), key=lambda k: -losses[k])[:2]
    assert sorted(made.history[0]["cohort"]) == sorted(worst)


@pytest.mark.flower
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_runs_on_every_kind_of_model(kind):
    check(matrix.run("few", kind))
