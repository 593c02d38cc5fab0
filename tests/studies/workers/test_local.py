import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w
from tests.studies.tables import small

from sortition.core.errors import InputError, SortitionError
from sortition.studies.plan import plan
from sortition.studies.runs import runner
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


def missing(runs, objects):
    raise InputError(f"{len(runs)} runs must have data; got {os.environ['NOTED']}.")


def broken(runs, objects):
    raise ValueError("a defect")


def killed(runs, objects):
    os._exit(7)


def noted(runs, objects):
    raise InputError(f"{os.getpid()}")


def test_a_check_in_another_process_raises_here(monkeypatch):
    monkeypatch.setenv("NOTED", "none")  # also where the fork server is older than this variable
    runs, machine = plan(small()).runs, local.ThisMachine(2)
    with pytest.raises(InputError, match=r"^4 runs must have data; got none\.$"):
        machine.call(missing, runs, {})
    with pytest.raises(RuntimeError, match="ValueError: a defect"):
        machine.call(broken, runs, {})
    with pytest.raises(SortitionError, match="ended with code 7"):
        machine.call(killed, runs, {})
    machine.call(runner.check_runs, runs, {})


@pytest.mark.parametrize(
    ("jobs", "changes", "here"),
    [(2, {}, False), (1, {}, True), (2, {"model": "pack.age:Model"}, True), (None, {"data": {"name": "a:b"}}, True)],
)
def test_a_study_that_names_code_is_checked_in_this_process(jobs, changes, here):
    """Code is imported under this process's policy: the other one has none."""
    runs = plan(small(**changes)).runs
    with pytest.raises(InputError) as raised:
        local.ThisMachine(jobs).call(noted, runs, {})
    assert (str(raised.value) == str(os.getpid())) is here


def test_the_process_that_plans_and_shows_needs_no_pytorch(tmp_path):
    (tmp_path / "study.toml").write_text(tomli_w.dumps(small(rounds=1, seeds=1)))
    code = (
        "import sys\n"
        "if __name__ == '__main__':\n"
        "    from sortition.cli import main\n"
        "    sys.argv = ['sortition', 'run', 'study.toml', '-o', 'runs', '--jobs=2']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        "    assert not {'torch', 'scipy.stats', 'sklearn'} & set(sys.modules)\n"
    )
    (tmp_path / "program.py").write_text(code)
    subprocess.run([sys.executable, "program.py"], check=True, capture_output=True, cwd=tmp_path)
    assert len(list((tmp_path / "runs").rglob("summary.json"))) == 2
