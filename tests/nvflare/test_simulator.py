"""Every method in NVFlare's own simulator, with processes: `make test-nvflare`."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from tests.nvflare.loopback_controllers import NEEDS_PARAMETERS
from tests.nvflare.processes import EXAMPLES, history, kill, run, start_with_all_sites
from tests.nvflare.test_rounds import runnable

from sortition.core.storage import snapshot
from sortition.studies.audit.audit_run import examine_log

pytestmark = pytest.mark.nvflare
ROUNDS, SITES = 3, 6
ALL_SITES = {"wait_for": SITES, "profile_timeout": 600}  # no round begins without a site that is slow to start
MODEL = 'model = {"weight": np.zeros((10, 64)).tolist(), "bias": np.zeros(10).tolist()}'
EVERY = f"""
import sys, json
import numpy as np
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner
from sortition.nvflare import SelectorController
{MODEL}
job = FedJob(name="every", min_clients={SITES})
for name, options in json.loads(sys.argv[1]).items():
    job.to_server(SelectorController(name, 2, {ROUNDS}, model, persistor_id="", options=options), id=name)
job.to_clients(ScriptRunner(sys.argv[2], framework=FrameworkType.NUMPY))
sys.exit(job.simulator_run("workspace", n_clients={SITES}, threads={SITES}, log_config="concise"))
"""
ONE = f"""
import sys, json
import numpy as np
from sortition.nvflare import selector_job
{MODEL}
job = selector_job("digits", sys.argv[2], model=model, **json.loads(sys.argv[1]))
sys.exit(job.simulator_run("workspace", n_clients={SITES}, threads={SITES}, log_config="concise"))
"""


def command(code, options):
    return [sys.executable, "-c", code, json.dumps(options), str(EXAMPLES / "numpy" / "train.py")]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """One job whose workflows are the methods, one after the other."""
    folder = tmp_path_factory.mktemp("every")
    options = {
        name: {
            "parameters": NEEDS_PARAMETERS.get(name, {}),
            **ALL_SITES,
            "checkpoint": str(folder / f"{name}.npz"),
            "audit": str(folder / f"{name}.jsonl"),
        }
        for name in runnable()
    }
    run(command(EVERY, options), folder, 900)
    return folder


@pytest.mark.parametrize("name", runnable())
def test_every_method_in_the_simulator(name, played):
    arrays, header = snapshot.load(played / f"{name}.npz")
    rounds = history(played / f"{name}.npz")
    assert header["federation"]["members"]["names"] == [f"site-{number}" for number in range(1, SITES + 1)]
    assert len(rounds) == ROUNDS
    assert any(record["answered"] for record in rounds)
    assert all(record["answered"] == record["cohort"] and not record["left_out"] for record in rounds)
    assert all(asked["asked"] == asked["answered"] for record in rounds for asked in record["questions"])
    assert np.abs(arrays["model.0"]).sum() > 0
    assert examine_log(played / f"{name}.jsonl").faults == []


def test_a_server_that_was_killed_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    common = {"selector": "fedgs", "cohort": 2, "num_rounds": 8, "seed": 4, "resume": True, **ALL_SITES}
    for folder in (whole, killed):
        folder.mkdir()
    run(command(ONE, common | {"checkpoint": str(whole / "run.npz")}), whole)
    again = command(ONE, common | {"checkpoint": str(killed / "run.npz")})
    process = start_with_all_sites(again, killed, until=lambda: len(history(killed / "run.npz")) >= 2)
    kill(process)
    assert len(history(killed / "run.npz")) >= 2
    assert len(history(killed / "run.npz")) < 8
    run(again, killed)
    cohorts = [[record["cohort"] for record in history(folder / "run.npz")] for folder in (killed, whole)]
    assert cohorts[0] == cohorts[1]
    models = [snapshot.load(folder / "run.npz")[0]["model.0"] for folder in (killed, whole)]
    assert np.allclose(*models, atol=1e-6)
