"""A worker's side of a cluster, without a cluster: orders in, events and pieces out."""

import time

import pytest
from tests.studies.tables import small

from sortition.results import run_folder
from sortition.studies.plan import plan
from sortition.studies.runs import one_run, resume
from sortition.studies.runs.run_task import OneRun
from sortition.studies.workers import folder_sync, ray_worker
from sortition.studies.workers.ray_worker import RayWorker


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(ray_worker, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(one_run, "CHECKPOINT_SECONDS", 0.0)


def first(**changes):
    return plan(small(seeds=1, **changes)).runs[0]


def take(worker, path, *, until=("done", "stopped", "failed"), stop_at=None):
    """The last event; what arrives is put down in ``path``, if there is one."""
    deadline = time.monotonic() + 30
    stop = False
    while time.monotonic() < deadline:
        events, pieces = worker.updates(stop)
        if path is not None:
            folder_sync.put(path, pieces)
        for event in events:
            stop |= stop_at is not None and event.round >= stop_at
            if event.kind in until:
                return event
    raise TimeoutError


def test_a_run_lands_at_the_caller_as_if_played_there(tmp_path):
    run = first()
    worker = RayWorker()
    worker.submit(0, OneRun(run, tmp_path / "there"), [])
    assert take(worker, tmp_path / "there").kind == "done"
    OneRun(run, tmp_path / "here")(lambda *_: None, lambda: False)
    files = {path.name for path in (tmp_path / "here").iterdir()} - {".lock"}
    assert {path.name for path in (tmp_path / "there").iterdir()} == files
    for name in files - {run_folder.TIMINGS}:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert resume.run_state(run, tmp_path / "there") == "done"


class Slow(OneRun):
    """So slow that it cannot end before somebody looks; its rounds are noted."""

    def __call__(self, tell, stopping):
        def on_round(*told):
            PLAYED.append(told[0])
            tell(*told)
            time.sleep(0.02)

        return super().__call__(on_round, stopping)


PLAYED = []  # the rounds of all workers of a test, which are threads of its process


@pytest.mark.parametrize("asked", [True, False], ids=["stopped", "died"])
def test_another_worker_goes_on_from_what_arrived(tmp_path, asked):
    run, there = first(rounds=40), tmp_path / "there"
    PLAYED.clear()
    worker = RayWorker()
    worker.submit(0, Slow(run, there), [])
    if asked:
        assert take(worker, there, stop_at=1).kind == "stopped"
    else:  # all that it plays after this news is lost
        while not (there / run_folder.CHECKPOINT).exists():
            folder_sync.put(there, worker.updates()[1])
        take(worker, None, stop_at=0)
    assert 0 < len(run_folder.read_records(there / run_folder.ROUNDS)) < 40
    assert resume.run_state(run, there) == "started"
    other, seen = RayWorker(), []
    other.submit(0, Slow(run, there), folder_sync.pack(there))
    while not seen or seen[-1].kind != "done":
        events, pieces = other.updates()
        folder_sync.put(there, pieces)
        seen += events
    assert next(event.round for event in seen if event.kind == "tick") > 1
    if asked:
        assert list(range(1, 41)) == PLAYED, "the rounds in progress ended: nothing was played twice"
    OneRun(run, tmp_path / "here")(lambda *_: None, lambda: False)
    assert (tmp_path / "here" / run_folder.ROUNDS).read_bytes() == (there / run_folder.ROUNDS).read_bytes()
    assert [line["round"] for line in run_folder.read_records(there / run_folder.TIMINGS)] == list(range(40))


def test_a_failure_tells_the_machine_and_leaves_its_log(tmp_path, monkeypatch):
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr("platform.node", lambda: "machine-7")
    run = first(data={"name": "cifar100", "clients": 12, "partition": "iid"})
    worker = RayWorker()
    worker.submit(3, OneRun(run, tmp_path / "there"), [])
    event = take(worker, tmp_path / "there")
    assert event.kind == "failed"
    assert event.index == 3
    assert "sortition data get cifar100" in event.text
    assert event.text.endswith("(on machine-7)")
    assert (tmp_path / "there" / run_folder.FAILURE).exists()
