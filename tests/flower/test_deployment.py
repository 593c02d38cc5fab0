"""Check 3: a SuperLink and four SuperNodes as processes; one is killed with kill -9 and comes back."""

import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.flower
EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"
VICTIM = 2


@pytest.fixture(scope="module")
def deploy():
    spec = importlib.util.spec_from_file_location("deploy", EXAMPLES / "deploy.py")
    module = sys.modules["deploy"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["deploy"]


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def config(method, parameters, history, rounds=5, cohort=3):
    told = {"method": method, "parameters": json.dumps(parameters), "history": str(history)}
    numbers = {"num-server-rounds": rounds, "cohort": cohort, "wait-for": 4, "timeout": 60, "answer-timeout": 40}
    quoted = [f"{key}='{value}'" for key, value in told.items()]
    return " ".join([*quoted, *(f"{key}={value}" for key, value in numbers.items())])


FEDCOR = {"warmup": 3, "interval": 2, "dimension": 2, "steps": 5, "warmup_steps": 10}


@pytest.mark.parametrize(("method", "parameters"), [("fedcor", FEDCOR), ("fedgs", {})])
def test_a_killed_node_is_missed_and_comes_back_as_the_same_client(deploy, method, parameters, tmp_path):
    history = tmp_path / "history.jsonl"
    with deploy.Deployment(4, tmp_path / "flower") as federation:
        run = federation.run(EXAMPLES / "numpy", config(method, parameters, history))

        def reached(count):
            def there():
                assert run.poll() is None, federation.log("run")[-4000:]
                return len(records(history)) >= count

            deploy.until(there, 300, f"round {count}")

        reached(1)
        federation.kill(f"supernode-{VICTIM}")  # in the second round
        reached(2)
        federation.start_node(VICTIM)
        assert run.wait(500) == 0, federation.log("run")[-4000:]
        log = federation.log("run")
    told = records(history)
    assert [record["round"] for record in told] == list(range(5))
    assert told[0]["available"] == [0, 1, 2, 3]
    assert {record["clients"] for record in told} == {4}  # nobody new: who came back is who was there
    assert told[-1]["available"] == [0, 1, 2, 3]
    assert all(record["answered"] for record in told)
    assert f"Client {VICTIM} came back as node" in log
    missed = any(record["silent"] or record["left_out"] or len(record["available"]) == 3 for record in told)
    asked = any(answered < count for record in told for _, count, answered in record["asked"])
    assert missed or asked


def test_everything_that_was_started_is_stopped(deploy, tmp_path):
    with deploy.Deployment(1, tmp_path / "flower") as federation:
        started = [process.pid for process in federation.processes.values()]
        deploy.until(lambda: all(deploy.descendants(pid) for pid in started), 30, "the start of their children")
        everything = started + [child for pid in started for child in deploy.descendants(pid)]
    time.sleep(0.5)
    alive = [pid for pid in everything if Path(f"/proc/{pid}/stat").exists() and "Z" not in state(pid)]
    assert not alive


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"
