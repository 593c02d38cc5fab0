"""python job.py [METHOD]: six sites, of which a selector chooses two a round, in NVFlare's simulator."""

import sys
from pathlib import Path

import numpy as np

from sortition.nvflare import selector_job

method = sys.argv[1] if len(sys.argv) > 1 else "fedgs"
job = selector_job(
    "digits",
    str(Path(__file__).parent / "train.py"),
    selector=method,
    cohort=2,
    num_rounds=5,
    model={"weight": np.zeros((10, 64)), "bias": np.zeros(10)},
    wait_for=6,
    checkpoint=str(Path("nvflare-digits.npz").resolve()),
    resume=True,
)
if "--export" in sys.argv:
    job.export_job("jobs")
    print("nvflare simulator -w workspace -n 6 -t 6 jobs/digits")
else:
    job.simulator_run("workspace", n_clients=6, threads=6, log_config="concise")
