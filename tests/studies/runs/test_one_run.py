import json

import numpy as np
import pytest
from tests.helpers.playing import play_run
from tests.studies.tables import small

from sortition.core.errors import InputError, StorageError
from sortition.results import metrics, run_folder
from sortition.simulation.world import Evaluator
from sortition.studies import build_federation
from sortition.studies.config import Target
from sortition.studies.plan import plan
from sortition.studies.runs.one_run import StopRule
from sortition.studies.runs.run_task import OneRun
from sortition.studies.runs.runner import place


def config(**changes):
    return plan(small(**changes)).runs[-1]


def test_a_finished_run_has_all_its_files(tmp_path):
    done, path, ticks = play_run(config(), tmp_path)
    run = run_folder.Run(path)
    assert done
    assert run.done
    assert [tick[0] for tick in ticks] == [1, 2, 3, 4, 5, 6]
    assert len(run.records) == len(run.timings) == 6
    assert run.manifest["needs"]["asks"] == {"loss": "mean loss of the current model"}
    assert run.federation()["availability"].shape == (6, 12)
    counts = run.clients()
    assert counts["selected"].sum() == sum(len(record["cohort"]) for record in run.records)
    assert (counts["available"] == run.federation()["availability"].sum(axis=0)).all()
    assert (counts["selected"] <= counts["available"]).all()
    assert np.isfinite(counts["accuracy"]).all()
    assert run.summary["figures"]["final-accuracy"] == run.records[-1]["test"]["accuracy"]
    assert "time" not in json.dumps(run.records)


def test_the_largest_seed_of_a_study_is_read_back(tmp_path):
    _, path, _ = play_run(config(seeds=[2**63 - 1], rounds=1), tmp_path)
    assert run_folder.Run(path).config["seed"] == 2**63 - 1
    with pytest.raises(InputError, match=r"seeds\.0 must be <"):
        config(seeds=[2**63])


def test_a_server_that_remembers_is_declared_and_resumed_to_the_same_bytes(tmp_path):
    run = config(server={"combine": "fedvarp", "step": "momentum"})
    _, whole, _ = play_run(run, tmp_path / "whole")
    assert not play_run(run, tmp_path / "parts", 2)[0]
    done, path, _ = play_run(run, tmp_path / "parts")
    assert done
    assert (path / run_folder.ROUNDS).read_bytes() == (whole / run_folder.ROUNDS).read_bytes()
    declared = run_folder.Run(path).manifest["aggregation"]
    size = run_folder.Run(path).manifest["model"]["parameters"]
    assert declared == {"combine": "fedvarp", "individual_updates": True, "memory_bytes": 4 * size * 12 + 8 * size}


def test_stopped_and_resumed_gives_the_same_bytes(tmp_path):
    run = config(server={"name": "momentum"})
    _, whole, _ = play_run(run, tmp_path / "whole")
    done, path, _ = play_run(run, tmp_path / "cut", stop_after=2)
    assert not done
    assert not (path / run_folder.SUMMARY).exists()
    with (path / run_folder.ROUNDS).open("ab") as file:  # what a crash may leave: a round after the checkpoint, torn
        file.write(b'{"round":2,"cohort":[1]}\n{"rou')
    assert play_run(run, tmp_path / "cut")[0]
    for name in (run_folder.ROUNDS, run_folder.FEDERATION, run_folder.CONFIG, run_folder.MANIFEST):
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name


def test_more_rounds_go_on_where_the_run_ended(tmp_path):
    play_run(config(rounds=4), tmp_path / "grown")
    _, grown, ticks = play_run(config(rounds=6), tmp_path / "grown")
    _, whole, _ = play_run(config(rounds=6), tmp_path / "whole")
    assert [tick[0] for tick in ticks] == [5, 6]
    assert (grown / run_folder.ROUNDS).read_bytes() == (whole / run_folder.ROUNDS).read_bytes()


def test_methods_share_everything_random(tmp_path):
    first, second = (config(method=[{"name": name}]) for name in ("uniform", "full"))
    one, two = (build_federation.setup(run)[0] for run in (first, second))
    assert one is two  # within a process, not even built twice
    assert play_run(first, tmp_path)[0]
    assert play_run(second, tmp_path)[0]
    runs = run_folder.find(tmp_path)
    assert runs[0].manifest["data"] == runs[1].manifest["data"]


def test_clients_are_evaluated_once_after_the_last_round(tmp_path, monkeypatch):
    evaluations = []
    evaluate = Evaluator.client_scores
    monkeypatch.setattr(
        Evaluator, "client_scores", lambda self, params: evaluations.append(params) or evaluate(self, params)
    )
    _, path, _ = play_run(config(rounds=6, clients_every=3), tmp_path)
    run = run_folder.Run(path)
    assert len(evaluations) == 2
    assert run.clients()["accuracy"].mean() == pytest.approx(run.records[-1]["clients"]["mean"])


def test_a_run_stops_at_its_target(tmp_path):
    _, path, _ = play_run(config(rounds=40, stop_at_target=True), tmp_path)
    run = run_folder.Run(path)
    accuracies = [record["test"]["accuracy"] for record in run.records]
    assert run.done
    assert run.summary["rounds"] == len(accuracies) < 40
    assert accuracies[-1] >= 0.3 > max(accuracies[:-1])


def test_a_smoothed_target_needs_a_whole_window():
    goal = StopRule(Target(loss=1.0, smooth=2), [])
    for t, (loss, reached) in enumerate(((0.5, False), (1.6, False), (0.4, True))):
        goal.observe({"round": t, "test": {"loss": loss}})
        assert goal.reached is reached


def test_a_smoothed_target_counts_rounds_and_not_evaluations():
    goal = StopRule(Target(accuracy=0.5, smooth=5), [])
    for t, (accuracy, reached) in {0: (0.9, False), 9: (0.4, False), 19: (0.6, True)}.items():
        goal.observe({"round": t, "test": {"accuracy": accuracy}})
        assert goal.reached is reached


@pytest.mark.parametrize("every", [1, 3])
def test_a_run_stops_in_the_round_whose_mean_reaches_the_target_by_its_figure(every):
    values = np.full(40, 0.1)  # whose sum, added up one by one, is below 10 × 0.1
    rounds = np.arange(every, 40 * every + 1, every)
    smooth = 10 * every
    stop = StopRule(Target(accuracy=0.1, smooth=smooth), [])
    for played, accuracy in zip(rounds, values, strict=True):
        stop.observe({"round": int(played) - 1, "test": {"accuracy": float(accuracy)}})
        if stop.reached:
            break
    assert played == metrics.first_crossing(rounds, values, 0.1, higher=True, smooth=smooth) == smooth


def test_a_loss_that_is_not_finite_reaches_no_target():
    goal = StopRule(Target(loss=0.5, smooth=2), [])
    for t, loss in enumerate((1.0, None, 0.4)):
        goal.observe({"round": t, "test": {"loss": loss}})
    assert not goal.reached


def test_figures_that_are_not_finite_are_null_in_the_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "summarise", lambda run: {"last-loss": float("nan")})
    _, path, _ = play_run(config(rounds=1), tmp_path)
    assert '"last-loss": null' in (path / run_folder.SUMMARY).read_text()


def test_a_failure_leaves_its_log_and_nothing_else_broken(tmp_path):
    run = config()
    path = place(tmp_path, run)

    def tell(*_):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        OneRun(run, path)(tell, lambda: False)
    assert "boom" in (path / run_folder.FAILURE).read_text()
    assert play_run(run, tmp_path)[0]
    assert not (path / run_folder.FAILURE).exists()


def test_other_data_are_refused(tmp_path):
    run = config()
    _, path, _ = play_run(run, tmp_path, stop_after=2)
    manifest = run_folder.read_document(path / run_folder.MANIFEST)
    manifest["data"]["digest"] = "another"
    (path / run_folder.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(StorageError, match="other data"):
        play_run(run, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"name": "digits", "clients": 12}}, "data.partition must be given"),
        ({"data": {"name": "digits", "partition": "iid"}}, "data.clients must be given"),
        ({"data": {"name": "synthetic"}, "cohort": 31}, "at most the number of clients, 30"),
        ({"data": {"name": "digts", "clients": 12, "partition": "iid"}}, "Did you mean 'digits'"),
        ({"model": {"name": "mlp", "hiden": [3]}}, "Did you mean 'hidden'"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_what_only_the_data_can_tell(change, message):
    with pytest.raises(InputError, match=message):
        build_federation.setup(config(**change))
