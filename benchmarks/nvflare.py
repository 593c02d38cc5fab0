"""What the NVFlare adapter costs: seconds per round beside NVFlare's own FedAvg, in one run of NVFlare's simulator.

    python benchmarks/nvflare.py [--rounds 6] [--repeats 3]

All workflows are those of one job and take turns, so that all meet the same sites and the same machine. A round is the
time from one cohort's message to the next one's, so that what a selector asks in between counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

SITES, COHORT = 6, 2
SCRIPT = Path(__file__).parents[1] / "examples" / "nvflare" / "numpy" / "train.py"
FEDAVG = "NVFlare's FedAvg"
METHODS = {  # label: method, and whether it runs in NVFlare's FedAvg (else in our own workflow)
    "uniform in FedAvg": ("uniform", True),
    "uniform": ("uniform", False),
    "fedgs": ("fedgs", False),
    "power-of-choice": ("power-of-choice", False),
}
STARTED, TRAIN = "Beginning model controller run", "Sending task train to"
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")


def controllers(rounds):
    """One workflow of each kind, by label."""
    from nvflare.app_common.workflows.fedavg import FedAvg

    from sortition.nvflare import SelectedFedAvg, SelectorController

    model = {"weight": np.zeros((10, 64)).tolist(), "bias": np.zeros(10).tolist()}
    common = {"num_rounds": rounds, "model": model, "persistor_id": ""}
    yield FEDAVG, FedAvg(num_clients=COHORT, **common)
    for label, (method, inside) in METHODS.items():
        kind = SelectedFedAvg if inside else SelectorController
        yield label, kind(method, COHORT, options={"wait_for": SITES}, **common)


def play(rounds, repeats):
    """Run the job in NVFlare's simulator; its log goes to standard output."""
    from nvflare.job_config.api import FedJob
    from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

    job = FedJob(name="bench", min_clients=SITES)
    for repeat in range(repeats):
        for row, (_, controller) in enumerate(controllers(rounds)):
            job.to_server(controller, id=f"workflow-{repeat}-{row}")
    job.to_clients(ScriptRunner(str(SCRIPT), framework=FrameworkType.NUMPY))
    job.simulator_run("workspace", n_clients=SITES, threads=SITES, log_config="concise")


def rounds_of(log):
    """Seconds of each round, workflow by workflow."""
    sent = []
    for line in log.splitlines():
        if STARTED in line:
            sent.append([])
        elif TRAIN in line and sent and (stamp := STAMP.search(line)):
            sent[-1].append(datetime.strptime(stamp[0], "%Y-%m-%d %H:%M:%S,%f").timestamp())
    return [[after - before for before, after in pairwise(times)] for times in sent]


def table(found, labels):
    """Medians of the repeats; the ratio to FedAvg of the same repeat, with the least and the largest one."""
    medians = np.array([np.median(times) for times in found]).reshape(-1, len(labels))
    ratios = medians / medians[:, :1]
    print("| workflow | seconds per round | rounds per second | × NVFlare's FedAvg |\n|---|---|---|---|")
    for row, label in enumerate(labels):
        seconds, ratio = np.median(medians[:, row]), ratios[:, row]
        spread = f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})"
        print(f"| {label} | {seconds:.2f} | {1 / seconds:.2f} | {spread if row else '1'} |")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        play(*json.loads(options.inside))
        return
    labels, load = [FEDAVG, *METHODS], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-P",
            str(Path(__file__).resolve()),
            "--inside",
        ]  # -P: this file is called like a package
        command.append(json.dumps([options.rounds, options.repeats]))
        env = os.environ | {"HOME": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    found = rounds_of(done.stdout + done.stderr)
    if done.returncode or len(found) != options.repeats * len(labels) or not all(found):
        sys.exit((done.stdout + done.stderr)[-3000:])
    print(f"{SITES} sites, cohorts of {COHORT}, {options.repeats} repeats of {options.rounds} rounds in turn")
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores\n")
    table(found, labels)


if __name__ == "__main__":
    main()
