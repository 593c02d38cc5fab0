"""Many machines: what is told before anything runs, and a real cluster of two nodes of which one is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import tomli_w
from tests.flower.processes import Process, environment, until
from tests.studies.tables import small

from sortition.core import import_policy
from sortition.core.errors import InputError
from sortition.results import run_folder
from sortition.studies.plan import plan
from sortition.studies.runs import runner
from sortition.studies.workers import ray_cluster

HEAD, OTHER = "127.0.0.2", "127.0.0.3"  # Ray takes 127.0.0.1 for the machine's outer address
SLOW = '''
import json, os, time
from pathlib import Path
from sortition.core import Cohort, Selector, State, method
from sortition.studies.runs import one_run

one_run.CHECKPOINT_SECONDS = 0.3


@method
class Slow(Selector[State]):
    """Takes its time, and leaves a trace of who plays which round of the study.

    Before its first run a process tries a user's method in a scripted world, which has more clients than the study.
    """

    pause: float = 0.0
    trace: str = ""
    memory = State

    def select(self, state, round):
        time.sleep(self.pause)
        if self.trace and round.population.n_clients == 12:
            with Path(self.trace).open("a") as file:
                file.write(json.dumps([os.getpid(), round.index]) + "\\n")
        return Cohort.uniform(round.rng.choice(round.available, min(round.budget, len(round.available)), replace=False))
'''


def test_ray_that_is_not_installed_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"needs Ray.*pip install 'sortition\[ray\]'"):
        runner.execute(plan(small()), tmp_path, on="ray")
    assert not list(tmp_path.rglob("rounds.jsonl"))


@pytest.mark.parametrize("on", ["rye", "ray:/head", "ray://", "tcp://head:1"])
def test_no_address(on):
    with pytest.raises(InputError, match="--on must be ray or ray://host:port"):
        ray_cluster._address(on)


def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"running Ray cluster; got 'ray://{at}'"):
            ray_cluster._address(f"ray://{at}")
        monkeypatch.setenv("RAY_ADDRESS", at)
        with pytest.raises(InputError, match=f"running Ray cluster; got '{at}'"):
            ray_cluster._address("ray")


def test_our_code_and_the_users_go_along(tmp_path, monkeypatch):
    (tmp_path / "my_slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    runs = plan(small(method=[{"name": "my_slow:Slow", "label": "slow"}])).runs
    assert ray_cluster._source_paths(runs) == [tmp_path / "my_slow.py", Path(ray_cluster.__file__).parents[2]]
    with import_policy.allow_only([]), pytest.raises(InputError, match="--allow my_slow"):
        ray_cluster._source_paths(runs)


# -- a real cluster -------------------------------------------------------------------------------------------------


def study(folder, pause=0.05, **changes):
    methods = [{"name": "my_slow:Slow", "label": "slow", "pause": pause, "trace": str(folder / "trace")}]
    table = small(rounds=60, seeds=3, method=methods, **changes)
    (folder / "my_slow.py").write_text(SLOW)
    (folder / "study.toml").write_text(tomli_w.dumps(table))


def command(*arguments):
    return [sys.executable, "-m", "sortition", "run", "study.toml", "--allow", "my_slow", *arguments]


def runs_in_progress(runs):
    """The folders of runs of which a checkpoint has arrived, and that are far from their end."""
    folders = [path.parent for path in runs.rglob(run_folder.CHECKPOINT)]
    return [folder for folder in folders if len((folder / run_folder.ROUNDS).read_bytes().splitlines()) < 40]


def traced(folder):
    return [json.loads(line) for line in (folder / "trace").read_text().splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes with one processor each, in process groups of their own; and the environment of their callers."""
    home = tmp_path_factory.mktemp("r")
    with socket.socket() as one, socket.socket() as two:
        one.bind((HEAD, 0))
        two.bind((HEAD, 0))
        port, door = one.getsockname()[1], two.getsockname()[1]
    quick = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "4"}
    env = environment(home, SORTITION_DATA=str(home / "nowhere"), PYTHONWARNINGS="ignore", **quick)
    limits = ["--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats", "--block"]
    ray = [str(Path(sys.executable).parent / "ray"), "start"]
    inner = [f"--port={port}", f"--ray-client-server-port={door}", "--include-dashboard=false"]
    nodes = []
    try:
        first = [*ray, "--head", f"--node-ip-address={HEAD}", *inner, f"--temp-dir={home}", *limits]
        nodes.append(Process(first, home / "head.log", env))
        until(lambda: "Ray runtime started" in nodes[0].text, 200, "the head")
        second = [*ray, f"--address={HEAD}:{port}", f"--node-ip-address={OTHER}", *limits]
        nodes.append(Process(second, home / "node.log", env))
        until(lambda: "Ray runtime started" in nodes[1].text, 200, "the node")
        yield nodes, f"ray://{HEAD}:{door}", {**env, "RAY_ADDRESS": f"{HEAD}:{port}"}
    finally:
        for node in nodes[::-1]:
            node.kill()


def same_as_here(folder, out, env):
    """Played here without pauses, the records have the same bytes."""
    local = ["-o", "local", "--jobs=1", "-q", "--set", "method.slow.pause=0", "--set", "method.slow.trace=none"]
    subprocess.run(command(*local), cwd=folder, env=env, check=True)
    found = sorted(path.relative_to(folder / "local") for path in (folder / "local").rglob(run_folder.ROUNDS))
    assert len(found) == 3
    for path in found:
        assert (folder / "local" / path).read_bytes() == (folder / out / path).read_bytes()


@pytest.mark.ray
def test_a_node_is_killed_and_the_study_ends_as_if_it_had_not_been(cluster, tmp_path):
    nodes, _, env = cluster
    study(tmp_path, pause=0.2)  # on a busy machine one node begins seconds after the other
    caller = Process(command("-o", "runs", "--on", "ray"), tmp_path / "log", env, tmp_path)
    runs = tmp_path / "runs" / "main" / "slow"
    try:
        # both nodes play a run of which something has arrived, and whose end is seconds away
        until(lambda: len(runs_in_progress(runs)) == 2 or caller.popen.poll() is not None, 200, "rounds")
        nodes[1].kill()
        assert caller.popen.wait(300) == 0, caller.text
    finally:
        caller.kill()
    assert caller.text.count("lost the worker of main/slow") == 1, caller.text
    assert caller.text.count("done main/slow") == 3
    played = {}
    for pid, index in traced(tmp_path):
        played.setdefault(pid, []).append(index)
    jumps = [later for rounds in played.values() for now, later in pairwise([-1, *rounds]) if later not in (now + 1, 0)]
    assert len(jumps) == 1, "the lost run goes on from a checkpoint, not from its beginning"
    same_as_here(tmp_path, "runs", env)


@pytest.mark.ray
def test_stopped_and_resumed_on_the_cluster(cluster, tmp_path):
    _, _, env = cluster
    study(tmp_path)
    where = ["-o", "runs", "--on", "ray"]
    caller = Process(command(*where), tmp_path / "log", env, tmp_path)
    try:
        until(lambda: list((tmp_path / "runs").rglob(run_folder.CHECKPOINT)), 200, "a checkpoint")
        time.sleep(1)
        os.kill(caller.popen.pid, signal.SIGINT)
        assert caller.popen.wait(120) == 130, caller.text
    finally:
        caller.kill()
    assert not all(run.done for run in run_folder.find(tmp_path / "runs"))
    subprocess.run(command(*where, "--resume", "-q"), cwd=tmp_path, env=env, check=True, timeout=300)
    times_played = Counter(index for _, index in traced(tmp_path))
    assert times_played == dict.fromkeys(range(60), 3)  # the rounds in progress ended: nothing was played twice
    same_as_here(tmp_path, "runs", env)


@pytest.mark.ray
def test_data_that_the_machines_lack_are_told_in_one_sentence(cluster, tmp_path):
    _, address, env = cluster
    study(tmp_path, data={"name": "cifar100", "clients": 12, "partition": "iid"})
    done = subprocess.run(
        command("--on", address), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("sortition: ")
    assert done.stderr.count("\n") == 1
    assert "sortition data get cifar100" in done.stderr
    assert "Each machine of the cluster reads its own copy." in done.stderr
