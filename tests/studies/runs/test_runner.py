import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tomli_w
from tests.studies.tables import small

from sortition.core.errors import DataError, InputError, StorageError
from sortition.results import run_folder
from sortition.studies import study
from sortition.studies.plan import plan
from sortition.studies.runs import runner, write_folder


def test_a_study_from_python(tmp_path):
    result = study(small(), out=tmp_path / "runs")
    assert result.curves.height == 2 * 2 * 6
    assert result.curves["method"].unique(maintain_order=True).to_list() == ["uniform", "power-of-choice"]
    assert "<td>power-of-choice</td>" in result._repr_html_()
    assert result.table.height == 4
    assert "| uniform" in str(result)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("rounds.jsonl")}
    study(small(), out=tmp_path / "runs")
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_processes_give_the_bytes_of_one_process(tmp_path):
    made = plan(small(rounds=3))
    runner.execute(made, tmp_path / "one", jobs=1)
    runner.execute(made, tmp_path / "two", jobs=2)
    for run in made.runs:
        one, two = (runner.place(tmp_path / out, run) / run_folder.ROUNDS for out in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_folder_with_runs_needs_resume(tmp_path):
    made = plan(small(rounds=1, seeds=1))
    runner.execute(made, tmp_path, jobs=1)
    with pytest.raises(InputError, match=r"2 of these runs \(2 done\)\. Add --resume"):
        runner.execute(made, tmp_path, jobs=1)
    assert runner.execute(made, tmp_path, jobs=1, resume=True).failed == {}


def test_a_changed_configuration_is_refused_with_the_difference(tmp_path):
    runner.execute(plan(small(rounds=2, seeds=1)), tmp_path, jobs=1)
    changed = plan(small(rounds=2, seeds=1, local={"steps": 4, "batch": 8, "lr": 0.1}))
    with pytest.raises(StorageError, match=r"local.steps was 3, is 4"):
        runner.execute(changed, tmp_path, jobs=1, resume=True)
    with pytest.raises(StorageError, match="rounds was 2, is 1"):
        runner.execute(plan(small(rounds=1, seeds=1)), tmp_path, jobs=1, resume=True)
    # another target changes what is told, not what was run
    runner.execute(plan(small(rounds=2, seeds=1, target={"accuracy": 0.5})), tmp_path, jobs=1, resume=True)


def test_two_plans_of_one_folder_do_the_same_work(tmp_path):
    uniform = [{"name": "uniform"}]
    runner.execute(plan(small(rounds=1, seeds=1, method=uniform)), tmp_path, jobs=1)
    faster = {"steps": 3, "batch": 8, "lr": 0.5}
    with pytest.raises(StorageError, match=r"another cohort, local rule.*local.lr was 0.1, is 0.5.*-o"):
        runner.execute(plan(small(rounds=1, seeds=[1], method=uniform, local=faster)), tmp_path, jobs=1)
    # another method may have its own
    both = [*uniform, {"name": "by-size", "local": {"lr": 0.5}}]
    runner.execute(plan(small(rounds=1, seeds=2, method=both)), tmp_path, jobs=1, resume=True)
    assert len(run_folder.find(tmp_path)) == 4


def test_another_federation_is_refused_though_its_methods_are_others(tmp_path):
    uniform, other = [{"name": "uniform"}], [{"name": "by-size", "cohort": 2, "local": {"lr": 0.2}}]
    runner.execute(plan(small(rounds=1, seeds=1, method=uniform)), tmp_path, jobs=1)
    changed = plan(small(rounds=1, seeds=1, method=other, availability="always"))
    with pytest.raises(StorageError, match=r"another federation.*availability.name was 'lognormal', is 'always'.*-o"):
        runner.execute(changed, tmp_path, jobs=1)
    assert len(run_folder.find(tmp_path)) == 1
    with pytest.raises(StorageError, match="another federation"):  # nor other seeds of the same method
        runner.execute(plan(small(rounds=1, seeds=[1], method=uniform, evaluate_every=2)), tmp_path, jobs=1)
    # what a method may have of its own may differ, and so may rounds and target
    more = plan(small(rounds=2, seeds=1, method=other, target={"accuracy": 0.5}))
    assert runner.execute(more, tmp_path, jobs=1).failed == {}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    runner.execute(plan(small(rounds=1, seeds=1, method=[{"name": "uniform"}])), out, jobs=1)
    return out


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        (run_folder.CONFIG, "rounds = 1\n", "", "rounds was absent, is 1"),
        (run_folder.CONFIG, "rounds = 1\n", f"rounds = 1\n{'a.' * 3000}b = 1\n", "more than 32 tables"),
        (run_folder.MANIFEST, '"format": 1', '"format": 99', "has format 99.* Update Sortition"),
    ],
)
def test_a_folder_that_was_changed_is_refused(finished, tmp_path, name, before, after, told):
    shutil.copytree(finished, tmp_path / "out")
    made = plan(small(rounds=1, seeds=1, method=[{"name": "uniform"}]))
    path = runner.place(tmp_path / "out", made.runs[0]) / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(StorageError, match=told):
        runner.execute(made, tmp_path / "out", jobs=1, resume=True)


def test_a_summary_without_rounds(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    made = plan(small(rounds=1, seeds=1, method=[{"name": "uniform"}]))
    (runner.place(tmp_path / "out", made.runs[0]) / run_folder.SUMMARY).write_text('{"status": "done"}')
    assert not runner.execute(made, tmp_path / "out", jobs=1, resume=True).failed


def test_a_method_with_a_schedule_cannot_be_extended(tmp_path):
    methods = [{"name": "hics"}]
    runner.execute(plan(small(rounds=2, seeds=1, method=methods)), tmp_path, jobs=1)
    with pytest.raises(StorageError, match="plans for its horizon"):
        runner.execute(plan(small(rounds=3, seeds=1, method=methods)), tmp_path, jobs=1, resume=True)


def test_two_runners_on_one_folder(tmp_path):
    with write_folder.locked(tmp_path), pytest.raises(StorageError, match="another runner"):
        runner.execute(plan(small(rounds=1)), tmp_path, jobs=1)


def test_missing_data_are_told_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path / "nowhere"))
    data = {"name": "cifar100", "clients": 12, "partition": "iid"}
    with pytest.raises(DataError, match="cifar100"):
        runner.execute(plan(small(data=data)), tmp_path / "runs", jobs=1)
    assert not list((tmp_path / "runs").rglob("rounds.jsonl"))


def test_failed_runs_are_listed_and_the_others_go_on(tmp_path):
    made = plan(small(rounds=2, seeds=1))
    broken = runner.place(tmp_path, made.runs[0])
    broken.mkdir(parents=True)
    (broken / run_folder.ROUNDS).mkdir()  # a folder where a file should be
    outcome = runner.execute(made, tmp_path, jobs=1)
    assert list(outcome.failed) == [str(broken)]
    assert run_folder.Run(runner.place(tmp_path, made.runs[1])).done


def test_killed_in_the_middle_and_resumed_gives_the_same_bytes(tmp_path):
    table = small(rounds=200, seeds=1, method=[{"name": "power-of-choice"}])
    file = tmp_path / "study.toml"
    file.write_text(tomli_w.dumps(table))
    code = (
        "import sys; from sortition.studies import study; from sortition.studies.runs import one_run;"
        "one_run.CHECKPOINT_SECONDS = 0.05;"
        "study(sys.argv[1], out=sys.argv[2])"
    )
    worker = subprocess.Popen([sys.executable, "-c", code, str(file), str(tmp_path / "killed")])
    path = runner.place(tmp_path / "killed", plan(table).runs[0])
    deadline = time.monotonic() + 60
    while not (path / run_folder.CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert 0 < len(run_folder.read_records(path / run_folder.ROUNDS)) < 200
    study(table, out=tmp_path / "killed")
    study(table, out=tmp_path / "whole")
    whole = runner.place(tmp_path / "whole", plan(table).runs[0])
    assert (path / run_folder.ROUNDS).read_bytes() == (whole / run_folder.ROUNDS).read_bytes()
    assert json.loads((path / run_folder.SUMMARY).read_text()) == json.loads((whole / run_folder.SUMMARY).read_text())


def test_finished_runs_take_a_new_target(tmp_path):
    def play(seeds, accuracy):
        made = plan(small(rounds=3, seeds=seeds, method=[{"name": "uniform"}], target={"accuracy": accuracy}))
        assert not runner.execute(made, tmp_path, jobs=1, resume=True).failed
        return run_folder.find(tmp_path)

    assert play(1, 0.01)[0].summary["figures"]["rounds-to-target"] == 1
    before = (run := play(1, 0.99)[0]).summary
    assert before["figures"]["rounds-to-target"] is None
    assert run.config["target"]["accuracy"] == 0.99
    assert {run.config["target"]["accuracy"] for run in play(2, 0.99)} == {0.99}
    assert before.keys() == play(2, 0.5)[0].summary.keys()
