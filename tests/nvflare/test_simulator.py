"""Jobs in NVFlare's own simulator, with processes: `make test-nvflare`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sortition.core.storage import snapshot
from sortition.selectors import discover, find

pytestmark = pytest.mark.nvflare
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "nvflare" / "numpy" / "train.py"
JOB = """
import sys, json
from pathlib import Path
import numpy as np
from sortition.nvflare import selector_job
options = json.loads(sys.argv[1])
job = selector_job("digits", sys.argv[2], model={"weight": np.zeros((10, 64)), "bias": np.zeros(10)}, **options)
job.simulator_run("workspace", n_clients=6, threads=6, log_config="concise")
"""
RECIPE = """
import sys, json
import numpy as np
from nvflare.job_config.api import FedJob
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner
from sortition.nvflare import select_clients
job = FedJob(name="stock", min_clients=6)
model = {"weight": np.zeros((10, 64)).tolist(), "bias": np.zeros(10).tolist()}
job.to_server(FedAvg(num_clients=6, num_rounds=3, persistor_id="", model=model))
job.to_clients(ScriptRunner(sys.argv[2], framework=FrameworkType.NUMPY))
select_clients(job, "fedgs", cohort=2, wait_for=6, **json.loads(sys.argv[1]))
job.simulator_run("workspace", n_clients=6, threads=6, log_config="concise")
"""


def start(code, options, folder):
    command = [sys.executable, "-c", code, json.dumps(options), str(SCRIPT)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with (folder / "output.txt").open("a") as out:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=out, start_new_session=True)


def run(code, options, folder):
    process = start(code, options, folder)
    assert process.wait(240) == 0, (folder / "output.txt").read_text()[-3000:]
    arrays, header = snapshot.load(folder / "selection.npz")
    return arrays, header["nvflare"]["history"]


def rounds(folder):
    return len(snapshot.load(folder / "selection.npz")[1]["nvflare"]["history"])


def options(folder, selector="uniform", **more):
    base = {"cohort": 2, "num_rounds": 3, "wait_for": 6, "checkpoint": str(folder / "selection.npz"), "seed": 4}
    return {**base, "selector": selector, **more}


def runnable():
    return [name for name in discover() if not any(s.of == "pairs" for s in find(name).load().needs.asks)]


@pytest.mark.parametrize("name", runnable())
def test_every_method_in_the_simulator(name, tmp_path):
    from tests.nvflare.test_selection import NEEDS_PARAMETERS

    arrays, history = run(JOB, options(tmp_path, name, parameters=NEEDS_PARAMETERS.get(name, {})), tmp_path)
    assert len(history) == 3
    assert any(record["answered"] for record in history)
    assert np.abs(arrays["model.0"]).sum() > 0


def test_a_server_that_was_killed_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    expected, history = run(JOB, options(whole, "fedgs", num_rounds=6), whole)
    wanted = options(killed, "fedgs", num_rounds=6, resume=True)
    process = start(JOB, wanted, killed)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        if (killed / "selection.npz").exists() and rounds(killed) >= 2:
            break
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert rounds(killed) < 6
    arrays, again = run(JOB, wanted, killed)
    assert [record["cohort"] for record in again] == [record["cohort"] for record in history]
    assert np.allclose(arrays["model.0"], expected["model.0"], atol=1e-6)


def test_an_existing_fedavg_job_with_another_selection(tmp_path):
    arrays, history = run(RECIPE, {"checkpoint": str(tmp_path / "selection.npz"), "seed": 4}, tmp_path)
    assert [len(record["cohort"]) for record in history] == [2, 2, 2]
    assert np.abs(arrays["model.0"]).sum() > 0
