"""The example apps run as they stand, in simulation, and a stock app has changed two lines."""

import json
import statistics
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from tests.flower.processes import LONGEST

from sortition.federation.server_checkpoint import HISTORY, beside

pytestmark = pytest.mark.flower
EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"


APPS = [("pytorch", "fedgs", ()), ("numpy", "divfl", ()), ("jax", "divfl", ("jax",))]
APPS += [("transformers", "power-of-choice", ("transformers", "peft"))]


PACES = {"late": {"quorum": 0.5, "late": "use"}, "buffered": {"kind": "buffered", "buffer": 2}}
SLOW_SECONDS = 30.0  # of a training on a slow node


@pytest.mark.parametrize("pace", PACES)
def test_steps_do_not_wait_for_slow_nodes_where_a_pace_is_set(pace, tmp_path):
    history = tmp_path / "history.jsonl"
    numbers = f"cohort=4 wait-for=8 num-server-rounds=8 slow-nodes=2 seconds={SLOW_SECONDS / 10}"
    texts = f"method='uniform' pace='{json.dumps(PACES[pace])}' history='{history}'"
    command = [sys.executable, EXAMPLES / "deploy.py", EXAMPLES / "pytorch", "--nodes", "8", "--simulate"]
    done = subprocess.run(
        [*command, "--at-once", "6", "--folder", tmp_path / "flower", "--config", f"{numbers} {texts}"],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    records = [json.loads(line) for line in history.read_text().splitlines()]
    clocks = [record["clock"] for record in records]
    assert len(clocks) == 8
    assert statistics.median(after - before for before, after in pairwise(clocks)) < SLOW_SECONDS
    assert any(record.get("in_flight") for record in records)


@pytest.mark.parametrize(("app", "method", "needs"), APPS, ids=[app for app, *_ in APPS])
def test_apps_run_in_simulation(app, method, needs, tmp_path):
    if missing := [name for name in needs if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    checkpoint = tmp_path / "run.npz"
    config = f"checkpoint='{checkpoint}' cohort=3 num-server-rounds=2 method='{method}'"
    command = [sys.executable, EXAMPLES / "deploy.py", EXAMPLES / app, "--nodes", "6", "--simulate"]
    done = subprocess.run(
        [*command, "--folder", tmp_path / "flower", "--config", config],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    told = [json.loads(line) for line in beside(checkpoint, HISTORY).read_text().splitlines()]
    assert [len(record["answered"]) for record in told] == [3, 3]
