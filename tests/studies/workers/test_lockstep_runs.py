"""Runs in lock-step: the bytes of runs that are played one after the other, and as independent of each other."""

import multiprocessing
import os
import signal

import pytest
from tests.studies.tables import small

from sortition.core.errors import InputError
from sortition.learning import stacked
from sortition.selectors.uniform import Uniform
from sortition.studies import lockstep
from sortition.studies.plan import plan
from sortition.studies.runs import runner
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.run_task import OneRun
from sortition.studies.workers import local
from sortition.studies.workers.lockstep_runs import attempt_all
from sortition.studies.workers.scheduler import ENDS

SEVERAL = [{"name": "uniform"}, {"name": "power-of-choice", "d": 6}, {"name": "fedcor", "warmup": 2}, {"name": "hics"}]
STUDIES = {
    "plain": {"clients_every": 2},
    "partitions": {"sweep": {"data.partition": ["iid", {"name": "dirichlet", "alpha": 0.1}]}, "rounds": 3},
    "faults": {"faults": {"before": 0.2, "damaged": 0.2, "lost": 0.1, "crash": 0.4, "leaving": 0.1, "reused": 0.5}},
    "attacks": {"attacks": {"share": 0.3}, "guards": {"winsorise": 3.0}},
    "pace": {"pace": {"overselect": 1.5, "deadline": 3.0}},
    "late": {"devices": {"speed": 20.0, "speed_spread": 1.0}, "pace": {"quorum": 0.5, "late": "use"}},
    "buffered": {"devices": {"speed_spread": 1.0}, "pace": {"kind": "buffered", "concurrency": 4, "buffer": 2}},
    "target": {"stop_at_target": True, "target": {"accuracy": 0.2}},
    "adam, kept": {
        "local": {"epochs": 1, "batch": 8, "lr": 0.01, "optimizer": "adam", "keep_state": True},
        "faults": {"before": 0.2, "damaged": 0.2, "crash": 0.4, "leaving": 0.1, "reused": 0.5},
    },
    "momentum, kept": {"local": {"epochs": 1, "batch": 8, "lr": 0.1, "momentum": 0.5, "keep_state": True}},
    "decay": {"local": {"epochs": 1, "batch": 8, "lr": 0.1, "decay": 0.9, "momentum": 0.5}},
}


def files_of(out):
    """Everything that runs leave but for their timings."""
    found = [path for path in out.rglob("*") if path.is_file() and path.name != "timings.jsonl"]
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


@pytest.fixture
def stacks(monkeypatch):
    """How many clients each stack held."""
    sizes = []
    train_stack = stacked.train_stack

    def counted(layers, job):
        sizes.append(len(job.plans))
        return train_stack(layers, job)

    monkeypatch.setattr(stacked, "train_stack", counted)
    return sizes


@pytest.mark.parametrize("name", STUDIES)
def test_the_bytes_are_those_of_runs_one_by_one(name, tmp_path, stacks):
    table = small(method=SEVERAL, **STUDIES[name])
    assert not runner.execute(plan(table), tmp_path / "together", jobs=1).failed
    most = max(stacks)
    stacks.clear()
    assert not runner.execute(plan({**table, "lockstep": False}), tmp_path / "alone", jobs=1).failed
    assert most > max(stacks)
    assert files_of(tmp_path / "together") == files_of(tmp_path / "alone")


class Stubborn(Uniform):
    """Fails in its third round."""

    def select(self, state, round):
        if round.index == 2:
            raise InputError("x must be y; got z.")
        return super().select(state, round)


def tasks_of(made, out):
    return {at: OneRun(run, runner.place(out, run)) for at, run in enumerate(made.runs)}


def test_a_run_that_fails_leaves_the_others_alone(tmp_path):
    stubborn = {"name": "tests.studies.workers.test_lockstep_runs:Stubborn", "label": "stubborn"}
    both, one = (plan(small(method=[*extra, {"name": "uniform"}])) for extra in ([stubborn], []))
    events = []
    attempt_all(tasks_of(both, tmp_path / "both"), events.append, lambda: False)
    ends = {both.runs[event.index].method.label: event for event in events if event.kind in ENDS}
    assert ends["stubborn"].kind == "failed"
    assert ends["stubborn"].text == "x must be y; got z."
    assert ends["uniform"].kind == "done"
    attempt_all(tasks_of(one, tmp_path / "one"), events.append, lambda: False)
    ours, theirs = (files_of(tmp_path / out / "main" / "uniform") for out in ("both", "one"))
    assert ours == theirs


def test_runs_that_were_stopped_go_on_where_they_were(tmp_path):
    made, ticks = plan(small()), []
    half = tasks_of(made, tmp_path / "half")
    attempt_all(half, lambda event: ticks.append(event.kind), lambda: ticks.count("started") == 4 and len(ticks) > 6)
    assert ticks.count("stopped") == 4
    attempt_all(half, lambda event: None, lambda: False)
    attempt_all(tasks_of(made, tmp_path / "whole"), lambda event: None, lambda: False)
    assert files_of(tmp_path / "half") == files_of(tmp_path / "whole")


def test_where_training_together_fails_each_run_trains_by_itself(tmp_path, monkeypatch):
    def broken(trainings):
        raise MemoryError

    made = plan(small(rounds=2))
    attempt_all(tasks_of(made, tmp_path / "as-ever"), lambda event: None, lambda: False)
    monkeypatch.setattr("sortition.simulation.simulation.train_all", broken)
    attempt_all(tasks_of(made, tmp_path / "broken"), lambda event: None, lambda: False)
    assert files_of(tmp_path / "as-ever") == files_of(tmp_path / "broken")


def shapes(**changes):
    return [lockstep.group_key(run) for run in plan(small(seeds=1, **changes)).runs]


def test_only_small_runs_of_one_shape_are_played_together():
    assert len(set(shapes())) == 1
    assert None not in shapes()
    assert len(set(shapes(sweep={"local.lr": [0.1, 0.2]}))) == 2
    assert set(shapes(model={"name": "mlp", "hidden": [500, 500]})) == {None}
    assert set(shapes(data={"name": "mnist", "clients": 12, "partition": "iid"})) == {None}
    assert set(shapes(engine="sequential")) == {None}
    assert None not in shapes(model={"name": "package.module:Attention"})  # a model of one's own, on small data
    assert set(shapes(model={"name": "package.module:Attention"}, precision="bf16")) == {None}
    assert shapes(method=[{"name": "centralised"}, {"name": "uniform"}])[0] is None


def test_a_group_is_as_large_as_leaves_no_process_idle(tmp_path):
    made = plan(small(seeds=24, method=[{"name": "uniform"}, {"name": "centralised"}]))
    tasks = list(tasks_of(made, tmp_path).values())
    sizes = [len(group) for group in lockstep.groups(tasks, 2)]
    assert sorted(sizes) == [1] * 24 + [12, 12]
    assert max(len(group) for group in lockstep.groups(tasks, 1)) == lockstep.MAX_RUNS
    assert sorted(at for group in lockstep.groups(tasks, 2) for at in group) == list(range(48))
    followed = [OneRun(task.config, task.path, (Callback(),)) for task in tasks]
    assert all(len(group) == 1 for group in lockstep.groups(followed, 2))


def test_a_process_that_dies_fails_the_runs_that_it_played(tmp_path):
    made = plan(small(rounds=5_000, seeds=2))
    events = []

    def on_event(event):
        events.append(event)
        if event.kind == "tick" and not any(one.kind == "failed" for one in events):
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)

    assert local.run(list(tasks_of(made, tmp_path).values()), 2, on_event)
    failed = [event for event in events if event.kind == "failed"]
    assert sorted(event.index for event in failed) == [0, 1, 2, 3]
    assert all("code -9" in event.text for event in failed)
