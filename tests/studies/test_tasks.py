"""Tasks beyond single-label classification, through all doors: Python, TOML, records, checkpoints, reports."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sortition
from sortition.core.errors import InputError, SortitionError
from sortition.core.import_policy import allow_only
from sortition.results import metrics
from sortition.results.task_metric import higher_is_better, metric_of
from sortition.simulation import run_checkpoint, start
from sortition.studies import build_federation
from sortition.studies.plan import plan

SMALL = {"rounds": 3, "cohort": 2, "clients": 5, "progress": False, "jobs": 1}
RATE = {"epochs": 1, "batch": 16, "lr": 0.05}


def regression(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * rng.normal(size=n)
    return x, y


def masks(n=200, labels=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    return x, (x[:, :labels] > 0).astype(np.int64)


def huber(outputs, targets):
    return nn.functional.huber_loss(outputs[:, 0], targets)


def spearman_like(outputs, targets):
    return float(np.corrcoef(outputs[:, 0].numpy(), targets.numpy())[0, 1])


def worst_error(outputs, targets):
    return (outputs[:, 0] - targets).abs().max()


class TwoInputs(nn.Module):
    """Takes a vector and tokens."""

    def __init__(self, outputs=2):
        super().__init__()
        self.embedding = nn.Embedding(10, 3)
        self.head = nn.Linear(4 + 3, outputs)

    def forward(self, vector, tokens):
        return self.head(torch.cat([vector, self.embedding(tokens).mean(dim=1)], dim=1))


class Wrapped(nn.Module):
    """Returns logits and a loss as the modules of transformers do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, vector, labels=None):
        logits = self.head(vector)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SimpleNamespace(logits=logits, loss=loss)


def test_a_regression_learns_and_its_records_hold_loss_and_metric(tmp_path):
    result = sortition.compare(
        ["uniform", "auto"],
        data=regression(),
        loss="mse",
        metric="r2",
        seeds=3,
        local=RATE,
        out=tmp_path,
        **{**SMALL, "rounds": 6},
    )
    run = result.runs[0]
    first = run.records[0]["test"]
    last = run.records[-1]["test"]
    assert set(last) == {"loss", "r2"}
    assert last["r2"] > first["r2"] > -1
    assert last["loss"] < first["loss"]
    assert metric_of(run.config) == "r2"
    assert "label_counts" not in run.federation()
    assert run.summary["figures"]["best-r2"] == max(record["test"]["r2"] for record in run.records)
    assert "Test r2" in str(result)
    assert "r2" in result.curves.columns
    assert result.plot().to_dict()
    assert result.report(tmp_path / "page.html").read_text().count("test r2")
    assert "r2" in result.to_latex() or "last" in result.to_latex()


def test_auto_falls_back_to_sketches_of_updates_and_others_say_what_they_lack(tmp_path):
    result = sortition.run("auto", data=regression(), loss="mse", local=RATE, out=tmp_path, **SMALL)
    assert result.runs[0].manifest["parameters"]["by"] == "updates"
    for method, fact in (("flips", "label_counts"), ("fed-cbs", "label_counts"), ("tifl", "accuracy")):
        with pytest.raises(InputError, match=rf"run on labels \(classification only\), since it needs {fact}; got "):
            sortition.run(method, data=regression(), loss="mse", local=RATE, **SMALL)


def test_clients_of_a_regression_can_attack_where_rounds_overlap():
    result = sortition.run(
        "oort",
        data=regression(),
        loss="mse",
        local=RATE,
        attacks={"kind": "loss", "share": 0.2},
        pace={"kind": "buffered", "concurrency": 4, "buffer": 2},
        **SMALL,
    )
    assert len(result.runs[0].records) == SMALL["rounds"]


def test_lower_is_better_in_verdicts_best_and_worst_tenth(tmp_path):
    result = sortition.compare(
        ["uniform", {"name": "uniform", "label": "slow", "local": {"lr": 0.0001}}],
        data=regression(),
        loss="mse",
        metric="mae",
        seeds=4,
        local=RATE,
        out=tmp_path,
        **{**SMALL, "rounds": 8},
    )
    (row,) = result.comparisons.filter(result.comparisons["figure"] == "last").to_dicts()
    assert row["method"] == "slow"
    assert row["difference"] > 0
    assert row["verdict"] == "worse"
    run = result.runs[0]
    assert run.summary["figures"]["best-mae"] == min(record["test"]["mae"] for record in run.records)
    scores = run.clients()["metric"]
    assert metrics.worst_tenth(run) == scores.max()  # of five clients one is the worst tenth


def test_the_loss_is_the_metric_where_none_is_named():
    result = sortition.run("uniform", data=regression(), loss="mae", local=RATE, **SMALL)
    assert set(result.runs[0].records[-1]["test"]) == {"loss"}
    assert metric_of(result.runs[0].config) == "loss"


def test_losses_and_metrics_of_ones_own_are_functions(tmp_path):
    result = sortition.run(
        "oort",
        data=regression(),
        loss=huber,
        metric=worst_error,
        higher_is_better=False,
        clients_every=1,
        local=RATE,
        out=tmp_path,
        **{**SMALL, "cohort": 4},
    )
    run = result.runs[0]
    last = run.records[-1]
    assert set(last["test"]) == {"loss", "worst_error"}
    assert not higher_is_better(run.config, "worst_error")
    assert last["clients"]["max"] >= last["clients"]["worst_tenth"] >= last["clients"]["mean"]
    assert set(run.manifest["python"]) >= {"task.loss", "task.metric"}
    assert any("one after the other" in note for note in result.notes)


def test_a_metric_of_ones_own_needs_its_direction():
    with pytest.raises(InputError, match=r"task\.higher_is_better must be given for a metric of your own; got None"):
        sortition.run("uniform", data=regression(), loss="mse", metric=spearman_like, local=RATE, **SMALL)


def test_multi_label_masks_have_label_counts_and_an_f1(tmp_path):
    result = sortition.compare(
        ["uniform", "auto", "flips"], data=masks(), loss="bce", seeds=1, local=RATE, out=tmp_path, **SMALL
    )
    run = result.runs[0]
    assert set(run.records[-1]["test"]) == {"loss", "f1"}
    counts = run.federation()["label_counts"]
    assert counts.shape == (5, 3)
    assert 0 < counts.sum() < 3 * 160
    assert metric_of(run.config) == "f1"


@pytest.mark.parametrize("kind", ["tuple", "dict", "clients", "dataset"])
def test_two_inputs_reach_the_model_by_position_or_by_name(kind, tmp_path):
    rng = np.random.default_rng(0)
    vector = rng.normal(size=(200, 4)).astype(np.float32)
    tokens = rng.integers(0, 10, size=(200, 6))
    y = (vector[:, 0] > 0).astype(np.int64)
    data = {
        "tuple": ((vector, tokens), y),
        "dict": ({"tokens": tokens, "vector": vector}, y),
        "clients": {k: ((vector[k::5], tokens[k::5]), y[k::5]) for k in range(5)},
        "dataset": [({"vector": vector[i], "tokens": tokens[i]}, y[i]) for i in range(200)],
    }[kind]
    if kind == "dataset":
        data = Items(data)
    options = {**SMALL, "rounds": 8}
    if kind == "clients":
        del options["clients"]
    result = sortition.run("auto", data=data, model=TwoInputs, local={**RATE, "lr": 0.3}, out=tmp_path, **options)
    run = result.runs[0]
    assert set(run.records[-1]["test"]) == {"loss", "accuracy"}
    assert run.records[-1]["test"]["accuracy"] > 0.7
    assert run.manifest["parameters"]["by"] == "labels"


class Items:
    """A Dataset of torch in little."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_a_named_model_takes_one_array():
    x = np.zeros((40, 3), np.float32)
    with pytest.raises(InputError, match=r"model 'mlp' must be given one array of examples; got several: 0, 1"):
        sortition.run("uniform", data=((x, x), np.arange(40) % 2), **SMALL)


def test_outputs_with_logits_and_a_loss_of_the_models_own():
    x, _ = regression()
    y = (x[:, 0] > 0).astype(np.int64)
    plain = sortition.run("uniform", data=(x, y), model=Wrapped, local=RATE, **SMALL)
    own = sortition.run("uniform", data=(x, y), model=Wrapped, loss="model", metric="accuracy", local=RATE, **SMALL)
    assert plain.runs[0].records[-1]["test"] == pytest.approx(own.runs[0].records[-1]["test"], rel=1e-5)
    with pytest.raises(SortitionError, match=r"task\.loss 'model' must be of a model that takes labels=…"):
        sortition.run("uniform", data=(x, y), model="mlp", loss="model", **SMALL)


class WrappedInDict(Wrapped):
    """Returns logits and a loss in a dict."""

    def forward(self, vector, labels=None):
        return vars(super().forward(vector, labels))


@pytest.mark.parametrize("task", [{}, {"loss": "model", "metric": "accuracy"}])
def test_outputs_may_be_a_dict(task):
    x, _ = regression()
    y = (x[:, 0] > 0).astype(np.int64)
    attributes, keys = (
        sortition.run("uniform", data=(x, y), model=model, local=RATE, **task, **SMALL)
        for model in (Wrapped, WrappedInDict)
    )
    assert attributes.runs[0].records[-1]["test"] == keys.runs[0].records[-1]["test"]


class Sequences(nn.Module):
    """Gives a label to every step of a float sequence (n, T, F)."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        assert x.ndim == 3
        return self.head(self.gru(x)[0])


def test_sequences_of_floats_stay_as_they_are_and_labels_may_be_sequences():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 7, 3)).astype(np.float32)
    y = x.argmax(axis=2)
    y[:, 0] = -100  # counts for nothing
    result = sortition.run(
        "uniform", data=(x, y), model=Sequences, loss="cross-entropy", local={**RATE, "lr": 0.5}, **SMALL
    )
    records = result.runs[0].records
    assert set(records[-1]["test"]) == {"loss", "accuracy"}
    assert records[-1]["test"]["loss"] < records[0]["test"]["loss"]


def test_whole_numbers_as_targets_of_a_regression_are_numbers():
    x, y = regression()
    ages = np.abs(np.rint(10 * y)).astype(np.int64)
    result = sortition.run("uniform", data=(x, ages), loss="mse", local={**RATE, "lr": 0.001}, **SMALL)
    assert result.runs[0].manifest["targets"] == "numbers (float32), one per example"
    assert result.runs[0].manifest["classes"] == 0


# -- what is refused, before anything runs -----------------------------------------------------------------------------


def not_scalar(outputs, targets):
    return (outputs[:, 0] - targets).square()


def not_differentiable(outputs, targets):
    return (outputs.argmax(dim=1) - targets).abs().mean()


def no_tensor(outputs, targets):
    return 1.0


def broadcast(outputs, targets):
    return (outputs - targets).square().mean()


def broadcast_by_torch(outputs, targets):
    return nn.functional.mse_loss(outputs, targets)


def wrong_shape(outputs, targets):
    return (outputs.reshape(7, 9) - targets).square().mean()


def negative(outputs, targets):
    return outputs.mean() - 1e6


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (not_scalar, r"got a tensor of shape \(2,\)\. The model gets float32 of shape \(4,\)"),
        (not_differentiable, "got a loss that is not differentiable"),
        (no_tensor, "got a float, not a tensor"),
        (broadcast, "every output meets every target"),
        (broadcast_by_torch, "Using a target size"),
        (wrong_shape, "RuntimeError"),
        (negative, r"got '-999999"),
    ],
)
def test_a_bad_loss_is_refused_in_one_sentence(loss, words, tmp_path):
    with pytest.raises(InputError, match=words) as caught:
        sortition.run("uniform", data=regression(), loss=loss, local=RATE, out=tmp_path / "runs", **SMALL)
    assert str(caught.value).startswith(f"task.loss '{loss.__name__}' must be a function (outputs, targets) that")
    assert "their targets are float32 of shape (2,)" in str(caught.value)
    assert not list((tmp_path / "runs").rglob("rounds.jsonl"))


def test_other_refusals_before_anything_runs():
    x, y = regression()
    with pytest.raises(InputError, match=r"data\.y must be labels.*\(classification only\); got .*Give loss='mse'"):
        sortition.run("uniform", data=(x, y), **SMALL)
    with pytest.raises(InputError, match=r"Unknown loss 'msee'; task has .* Did you mean 'mse'"):
        sortition.run("uniform", data=(x, y), loss="msee", **SMALL)
    with pytest.raises(InputError, match=r"partition 'dirichlet' must be given labels \(classification only\)"):
        sortition.run("uniform", data=(x, y), loss="mse", partition="dirichlet", **SMALL)
    with pytest.raises(InputError, match=r"data\.y must be labels, whole numbers, where the loss is 'cross-entropy'"):
        sortition.run("uniform", data=(x, y), loss="cross-entropy", **SMALL)
    with pytest.raises(InputError, match=r"target must be given as loss = … where a study is judged by r2"):
        sortition.run("uniform", data=(x, y), loss="mse", metric="r2", target={"accuracy": 0.5}, **SMALL)
    for loss in ("mse", "mae"):
        with pytest.raises(InputError, match=rf"task\.metric must not be 'accuracy' here: .*; got loss = '{loss}'"):
            sortition.run("uniform", data=(x, y), loss=loss, metric="accuracy", **SMALL)
    with pytest.raises(InputError, match=r"accuracy needs class labels; got targets such as .*, not 0 and 1"):
        sortition.run("uniform", data=(x, y[:, None]), loss=nn.SmoothL1Loss(), metric="accuracy", **SMALL)
    with pytest.raises(InputError, match=r"loss must be a name or a function .*nn\.MSELoss\(\)"):
        sortition.run("uniform", data=(x, y), loss=nn.MSELoss, **SMALL)
    with pytest.raises(InputError, match=r"outputs of shape \(2, 4\) for targets of shape \(2,\)"):
        sortition.run("uniform", data=(x, y), loss="mse", model=lambda: nn.Linear(4, 4), **SMALL)
    with pytest.raises(
        InputError, match=r"engine must be 'auto', 'vmapped' or 'sequential' for a loss other than cross-entropy"
    ):
        sortition.run("uniform", data=(x, y), loss="mse", engine="stacked", **SMALL)


# -- TOML, resuming, lock-step -----------------------------------------------------------------------------------------


def study_table(path, **task):
    return {
        "rounds": 4,
        "cohort": 2,
        "seeds": 1,
        "data": {"name": str(path), "clients": 5, "partition": "iid"},
        "model": "mlp",
        "local": RATE,
        "task": task,
        "method": [{"name": "uniform"}, {"name": "auto"}],
    }


def test_a_file_names_losses_by_import_path_and_runs_repeat_themselves(tmp_path, monkeypatch):
    x, y = regression()
    np.savez(tmp_path / "own.npz", x=x, y=y)
    (tmp_path / "my_task.py").write_text(
        "def loss(outputs, targets):\n    return (outputs[:, 0] - targets).abs().mean()\n\n\n"
        "def closeness(outputs, targets):\n    return 1 / (1 + (outputs[:, 0] - targets).abs().mean())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    task = {"loss": "my_task:loss", "metric": "my_task:closeness", "higher_is_better": True}
    table = study_table(tmp_path / "own.npz", **task)
    result = sortition.study(table, out=tmp_path / "a", jobs=1, progress=False)
    again = sortition.study(table, out=tmp_path / "b", jobs=1, progress=False)
    for run, twin in zip(result.runs, again.runs, strict=True):
        assert (run.path / "rounds.jsonl").read_bytes() == (twin.path / "rounds.jsonl").read_bytes()
        assert set(run.records[-1]["test"]) == {"loss", "closeness"}
        assert set(run.manifest["python"]) == {"task.loss", "task.metric"}
    named = sortition.study(study_table(tmp_path / "own.npz", loss="mae"), out=tmp_path / "c", jobs=1, progress=False)
    for run, twin in zip(result.runs, named.runs, strict=True):
        assert run.records[-1]["test"]["loss"] == pytest.approx(twin.records[-1]["test"]["loss"], rel=1e-5)
    with (
        allow_only(()),
        pytest.raises(InputError, match=r"task\.(loss|metric) 'my_task:\w+' would import .* --allow my_task"),
    ):
        sortition.study(table, out=tmp_path / "d", jobs=1, progress=False)


def test_a_checkpoint_of_a_task_goes_on_to_the_same_records(tmp_path):
    x, y = regression()
    np.savez(tmp_path / "own.npz", x=x, y=y)
    config = plan(study_table(tmp_path / "own.npz", loss="mse", metric="mae")).runs[0]
    setup = build_federation.setup(config)[1]
    simulation = start(setup)
    whole = [simulation.play_round() for _ in range(4)]
    first_half = start(setup)
    records = [first_half.play_round() for _ in range(2)]
    run_checkpoint.save(tmp_path / "checkpoint.npz", first_half)
    second_half = run_checkpoint.load(tmp_path / "checkpoint.npz", setup)
    records += [second_half.play_round() for _ in range(2)]
    assert json.dumps(records) == json.dumps(whole)


def test_a_classification_by_another_metric_keeps_the_bits_of_its_training(tmp_path):
    plain = {"data": "digits", "model": "softmax", "local": RATE, **SMALL}
    result = sortition.run("uniform", out=tmp_path / "a", **plain)
    judged = sortition.run("uniform", metric=first_class_recall, higher_is_better=True, out=tmp_path / "b", **plain)
    loss = [record["train_loss"] for record in result.runs[0].records]
    assert loss == [record["train_loss"] for record in judged.runs[0].records]
    assert set(judged.runs[0].records[-1]["test"]) == {"loss", "first_class_recall"}


def first_class_recall(outputs, targets):
    chosen = targets == 0
    return float((outputs.argmax(1) == targets)[chosen].float().mean()) if chosen.any() else 0.0


def test_steps_of_a_simulation_show_the_metric():
    steps = list(
        sortition.simulate(
            "uniform", data=regression(), clients=5, loss="mse", metric="rmse", local=RATE, rounds=2, cohort=2
        )
    )
    scores = steps[-1].record["test"]
    assert scores["rmse"] == pytest.approx(scores["loss"] ** 0.5, rel=1e-5)
