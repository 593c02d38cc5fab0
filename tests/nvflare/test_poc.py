"""A federation of processes: one site is killed, then the server; the job goes on, and is resumed with all sites."""

from __future__ import annotations

import json
import sys

import pytest
from tests.nvflare.poc import Poc
from tests.nvflare.processes import EXAMPLES, history, run, wait_for

from sortition.audit.encoding import decode_ids
from sortition.studies.audit.audit_run import examine_log

pytestmark = pytest.mark.nvflare
EXPORT = """
import sys, json
import numpy as np
from sortition.nvflare import selector_job
model = {"weight": np.zeros((10, 64)), "bias": np.zeros(10)}
job = selector_job("digits", sys.argv[1], selector="full", cohort=4, model=model, **json.loads(sys.argv[2]))
job.export_job("jobs")
"""


def exported(folder, rounds):
    files = {"checkpoint": str(folder / "run.npz"), "resume": True, "audit": str(folder / "audit.jsonl")}
    options = {"num_rounds": rounds, "wait_for": 3, "deadline": 20, "answer_timeout": 20, **files}
    run([sys.executable, "-c", EXPORT, EXAMPLES / "numpy" / "train.py", json.dumps(options)], folder)
    return folder / "jobs" / "digits"


def answered(folder):
    return [record["answered"] for record in history(folder / "run.npz")]


def test_a_killed_site_is_dropped_and_a_killed_server_goes_on(tmp_path):
    with Poc(tmp_path, 4) as poc:
        poc.submit(exported(tmp_path, 1000), 4)
        assert wait_for(lambda: len(answered(tmp_path)) >= 2), poc.log("server")
        assert answered(tmp_path)[0] == [0, 1, 2, 3]

        poc.kill("site-3")
        assert wait_for(lambda: answered(tmp_path).count([0, 1, 3]) >= 4), poc.log("server")
        rounds = history(tmp_path / "run.npz")
        lost = next(record["round"] for record in rounds if record["answered"] == [0, 1, 3])
        assert rounds[lost]["cohort"] == [0, 1, 2, 3]  # it was chosen, and dropped
        assert rounds[lost]["silent"] == [2]
        assert all(
            decode_ids(record["present"]).tolist() == record["cohort"] == [0, 1, 3] for record in rounds[lost + 1 :]
        )

        poc.kill("server")
        before = history(tmp_path / "run.npz")
        poc.start("site-3")
        poc.start("server")
        poc.submit(exported(tmp_path, len(before) + 3), 4)
        assert wait_for(lambda: len(answered(tmp_path)) == len(before) + 3), poc.log("server")
        assert history(tmp_path / "run.npz")[: len(before)] == before
        assert answered(tmp_path)[-1] == [0, 1, 2, 3]  # the site that came back has its old id
        assert wait_for(lambda: not examine_log(tmp_path / "audit.jsonl").unchecked_because, 60)
    found = examine_log(tmp_path / "audit.jsonl")
    assert (found.faults, found.n_recomputed) == ([], len(before) + 3)
