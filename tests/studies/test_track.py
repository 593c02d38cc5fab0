"""Trackers, offline: each test reads back what a tracker wrote, and is skipped where its package is absent."""

import json
import sys

import pytest
from tests.studies.tables import small

import sortition as so
from sortition.core.errors import InputError
from sortition.studies import study, track
from sortition.studies.config import Named

TABLE = small(rounds=3, seeds=2, method=[{"name": "uniform"}])


def test_figures_of_a_round_are_flat_numbers():
    record = {"round": 0, "cohort": [1, 2], "available": 9, "bytes": {"model_up": 8, "model_down": 4}}
    record |= {"test": {"accuracy": 0.5, "loss": None}, "train_loss": 1.5, "clock": None}
    assert track.round_figures(record) == {
        "test/accuracy": 0.5,
        "train/loss": 1.5,
        "selection/cohort": 2.0,
        "selection/available": 9.0,
        "cost/bytes": 12.0,
    }


def test_a_tracker_that_is_unknown_or_not_installed_is_refused_before_anything_runs(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"Unknown tracker 'tensorbord'.*Did you mean 'tensorboard'"):
        study({**TABLE, "track": "tensorbord"}, out=tmp_path)
    with pytest.raises(InputError, match="Unknown key 'dir'; track tensorboard has folder"):
        track.make_trackers([Named(name="tensorboard", dir="x")])

    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(track.importlib, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'sortition\[mlflow\]'"):
        track.make_trackers([Named(name="mlflow")])
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_tensorboard_event_files_are_read_back(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is absent: pip install 'sortition[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = study({**TABLE, "track": {"name": "tensorboard", "folder": str(tmp_path / "tb")}}, out=tmp_path / "runs")
    for run in result.runs:
        events = EventAccumulator(str(tmp_path / "tb" / "main" / "uniform" / f"seed-{run.seed}")).Reload()
        read = [(event.step, event.value) for event in events.Scalars("test/accuracy")]
        assert [step for step, _ in read] == [1, 2, 3]
        assert [value for _, value in read] == pytest.approx(run.curve()[1].tolist())
        assert "configuration/text_summary" in events.Tags()["tensors"]


def test_mlflow_runs_in_a_local_store(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is absent: pip install 'sortition[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    result = so.run(
        "uniform", data="digits", clients=6, cohort=2, rounds=2, model="softmax", callbacks=[so.track.MLflow(uri)]
    )
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("sortition")
    found = client.search_runs([experiment.experiment_id])[0]
    assert found.data.tags["method"] == "uniform"
    assert found.data.params["local.lr"] == "0.1"
    history = [metric.value for metric in client.get_metric_history(found.info.run_id, "test/accuracy")]
    assert history == pytest.approx(result.runs[0].curve()[1].tolist())
    assert found.info.status == "FINISHED"


def test_wandb_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is absent: pip install 'sortition[wandb]'")
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracker = so.track.WandB("test", mode="offline", folder=tmp_path)
    done = so.run("uniform", data="digits", clients=6, cohort=2, rounds=2, model="softmax", callbacks=[tracker])
    wandb.teardown()  # ends its writer, which flushes the file
    (file,) = tmp_path.rglob("run-*.wandb")
    written = file.read_bytes()
    for text in ("main/uniform/0", "method:uniform", "seed:0", "local.lr", "accuracy"):
        assert text.encode() in written, text
    for value in done.curves["accuracy"]:
        assert json.dumps(value).encode() in written


class Fake(so.Callback):
    """What a tracker does, written to a file."""

    def __init__(self, path):
        self.path = path

    def on_round(self, run, record):
        with self.path.open("a") as file:
            file.write(json.dumps({**track.run_tags(run), **track.round_figures(record)}) + "\n")


def test_callbacks_work_in_other_processes(tmp_path):
    study(TABLE, out=tmp_path / "runs", jobs=2, callbacks=[Fake(tmp_path / "log.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert sorted(row["seed"] for row in rows) == ["0"] * 3 + ["1"] * 3


def test_a_missing_tracker_is_reported_before_the_first_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"track wandb needs wandb\. Try: pip install 'sortition\[wandb\]'"):
        so.run(
            "uniform", data="digits", clients=6, rounds=1, cohort=2, model="softmax", out=tmp_path / "runs",
            callbacks=[so.track.WandB("project")], progress=False,
        )  # fmt: skip
    assert not list(tmp_path.rglob("failure.log"))
