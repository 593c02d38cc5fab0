import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from sortition.core.errors import InputError
from sortition.studies.workers import local


@dataclass
class Task:
    deed: str = "finish"

    def __call__(self, on_round, stopping):
        on_round(1, 0.5)
        match self.deed:
            case "die":
                os._exit(3)
            case "raise":
                raise InputError("x must be y; got z.")
            case "threads":
                assert os.environ["OMP_NUM_THREADS"] == "1"
            case "sleep":
                time.sleep(600)
            case "wait":
                while not stopping():
                    time.sleep(0.01)
                return False
        return True


def played(tasks, jobs):
    events = []
    finished = local.run(tasks, jobs, events.append)
    return finished, {event.index: event for event in events if event.kind in ("done", "failed", "stopped")}, events


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_does_not_stop_the_others(jobs):
    finished, ends, events = played([Task("raise"), Task(), Task()], jobs)
    assert finished
    assert [ends[at].kind for at in range(3)] == ["failed", "done", "done"]
    assert ends[0].text == "x must be y; got z."
    assert any(event.kind == "tick" and event.value == 0.5 for event in events)


def test_a_dead_worker_fails_its_run_only():
    _, ends, _ = played([Task("die"), Task("threads"), Task()], 2)
    assert [ends[at].kind for at in range(3)] == ["failed", "done", "done"]
    assert "code 3" in ends[0].text


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_the_rounds_in_progress_and_starts_no_more(jobs):
    started, before = threading.Event(), signal.getsignal(signal.SIGINT)  # ignored in a job of a script
    events = []

    def on_event(event):
        events.append(event)
        if sum(e.kind == "started" for e in events) == jobs and not started.is_set():
            started.set()
            os.kill(os.getpid(), signal.SIGINT)

    assert not local.run([Task("wait")] * 4, jobs, on_event)
    assert sum(event.kind == "stopped" for event in events) == jobs
    assert sum(event.kind == "started" for event in events) == jobs
    assert signal.getsignal(signal.SIGINT) is before


SLOW = """
from sortition.studies.workers import local
from tests.studies.workers.test_local import Task
if __name__ == "__main__":
    local.run([Task("sleep"), Task("sleep")], 2, lambda event: print(event.kind, flush=True))
"""


def test_sigterm_ends_the_workers_before_the_process(tmp_path):
    """They were left in the middle of a round, which may take minutes."""
    (tmp_path / "slow.py").write_text(SLOW)
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "slow.py")],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    ticks = 0
    while ticks < 2:  # until both workers are in a round
        ticks += parent.stdout.readline() == "tick\n"
    children = [int(k) for k in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 128 + signal.SIGTERM
    parent.stdout.close()
    workers = [k for k in children if Path(f"/proc/{k}/cmdline").exists() and b"spawn_main" in cmdline(k)]
    assert workers == []


def cmdline(process):
    return Path(f"/proc/{process}/cmdline").read_bytes()
