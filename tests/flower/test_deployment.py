"""Check 3: a SuperLink and four SuperNodes as processes; one is killed with kill -9 and comes back."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tests.flower.processes import LONGEST

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


def config(method, parameters, history, rounds=500, cohort=3):
    told = {"method": method, "parameters": json.dumps(parameters), "history": str(history)}
    numbers = {"num-server-rounds": rounds, "cohort": cohort, "wait-for": 4, "timeout": 120, "answer-timeout": 120}
    quoted = [f"{key}='{value}'" for key, value in told.items()]
    return " ".join([*quoted, *(f"{key}={value}" for key, value in numbers.items())])


FEDCOR = {"warmup": 3, "interval": 2, "dimension": 2, "steps": 5, "warmup_steps": 10}


def without(victim):
    """Whether a round shows that a client is gone: absent, silent, left out, or a question without its answer."""

    def shows(record):
        lost = victim in record["silent"] or str(victim) in {**record["left_out"], **record["failed"]}
        unanswered = any(question["answered"] < question["asked"] for question in record["questions"])
        return victim not in record["present"] or lost or unanswered

    return shows


def with_all(record):
    """Whether all four clients are there."""
    return record["present"] == [0, 1, 2, 3]


@pytest.mark.parametrize(("method", "parameters"), [("fedcor", FEDCOR), ("fedgs", {})])
def test_a_killed_node_is_missed_and_comes_back_as_the_same_client(deploy, method, parameters, tmp_path):
    history = tmp_path / "history.jsonl"
    with deploy.Deployment(4, tmp_path / "flower") as federation:
        run = federation.run(EXAMPLES / "numpy", config(method, parameters, history))

        def wait_for(what, since):
            """The number of rounds when one shows this, whichever it is."""

            def there():
                assert run.poll() is None, federation.log("run")[-4000:]
                return any(map(what, records(history)[since:]))

            deploy.until(there, LONGEST, f"a round after {since} in which {what.__name__}")
            return len(records(history))

        before = wait_for(with_all, 0)
        federation.kill(f"supernode-{VICTIM}")
        missed = wait_for(without(VICTIM), before)
        federation.start_node(VICTIM)
        wait_for(with_all, missed)
        log, told = federation.log("run"), records(history)
    assert [record["round"] for record in told] == list(range(len(told)))
    assert {record["members"] for record in told} == {4}  # nobody new: who came back is who was there
    assert all(record["answered"] for record in told)
    assert f"Client {VICTIM} came back as node" in log


def test_everything_that_was_started_is_stopped(deploy, tmp_path):
    with deploy.Deployment(1, tmp_path / "flower") as federation:
        started = [process.pid for process in federation.processes.values()]
        deploy.until(lambda: all(deploy.descendants(pid) for pid in started), LONGEST, "the start of their children")
        everything = started + [child for pid in started for child in deploy.descendants(pid)]
    deploy.until(lambda: all(state(pid) == "Z" for pid in everything), 60, "the end of what was killed")


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"
