"""python job.py [METHOD] [--export]: six sites, of which a selector chooses two a round, in NVFlare's simulator."""

import argparse
from pathlib import Path

import numpy as np

from sortition.nvflare import selector_job

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("method", nargs="?", default="fedgs")
parser.add_argument("--export", action="store_true", help="write the job into the folder jobs, and run nothing")
args = parser.parse_args()
job = selector_job(
    "digits",
    str(Path(__file__).parent / "train.py"),
    selector=args.method,
    cohort=2,
    num_rounds=5,
    model={"weight": np.zeros((10, 64)), "bias": np.zeros(10)},
    wait_for=6,
    checkpoint=str(Path("nvflare-digits.npz").resolve()),
    resume=True,
)
if args.export:
    job.export_job("jobs")
    print("nvflare simulator -w workspace -n 6 -t 6 jobs/digits")
else:
    job.simulator_run("workspace", n_clients=6, threads=6, log_config="concise")
