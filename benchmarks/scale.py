"""A federation of 100,000 clients through the real lab: set-up, rounds a second, memory, what the run folder holds.

    python benchmarks/scale.py [--methods uniform fedss] [--rounds 50] [--markdown]

Cohorts of 100, everybody reachable with probability 0.3 or so (``lognormal``), test set of 2,000. The federations:
`synthetic`, 100,000 and 1,000 clients of 5 examples (30 numbers, 10 labels, label shards), and `fashion-mnist`, 30,000
clients of 2 examples each (60,000 examples do not go round among more; two shards of one example). One process a row,
one thread. `set-up` and `round` are processor time; a round includes selection, training, evaluation and records.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
FEDERATIONS = {"synthetic": (1_000, 100_000), "fashion-mnist": (1_000, 30_000)}
HEADER = ("data", "clients", "method", "set-up s", "round ms", "rounds / s", "end s", "memory MB", "folder MB")


def synthetic(path: Path, clients: int) -> None:
    """Five examples a client around the centre of their label."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=5 * clients + 2_000)
    x = (rng.normal(size=(10, 30))[y] + rng.normal(size=(y.size, 30))).astype(np.float32)
    np.savez(path, x_train=x[2_000:], y_train=y[2_000:], x_test=x[:2_000], y_test=y[:2_000])


def measure(data: str, clients: int, method: str, rounds: int) -> dict[str, float]:
    """One run in this process: the same code as ``sortition run``."""
    from sortition.studies import build_federation
    from sortition.studies.plan import plan
    from sortition.studies.runs.run_task import OneRun

    with tempfile.TemporaryDirectory() as folder:
        name = data
        if data == "synthetic":
            name = str(Path(folder) / "synthetic.npz")
            synthetic(Path(name), clients)
        table = {
            "rounds": rounds,
            "cohort": 100,
            "data": {"name": name, "clients": clients, "partition": {"name": "shards", "per_client": 2}},
            "model": {"name": "softmax"} if data == "synthetic" else {"name": "mlp", "hidden": [64, 30]},
            "local": {"steps": 5, "batch": 5, "lr": 0.05},
            "availability": {"name": "lognormal", "beta": 0.5},
            "evaluate_every": 10,
            "method": [{"name": method}],
        }
        config = plan(table).runs[0]
        marks: list[float] = []
        begun = time.process_time()
        build_federation.build_federation(config)
        ready = time.process_time()
        path = Path(folder) / "run"
        path.mkdir()
        OneRun(config, path)(lambda t, _: marks.append(time.process_time()), lambda: False)
        done = time.process_time()
        held = sum(file.stat().st_size for file in path.iterdir())
    return {
        "set-up s": ready - begun + marks[0] - ready,
        "round ms": 1e3 * (marks[-1] - marks[0]) / (len(marks) - 1),
        "rounds / s": (len(marks) - 1) / (marks[-1] - marks[0]),
        "end s": done - marks[-1],
        "memory MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "folder MB": held / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="*", default=["uniform", "power-of-choice", "fedss", "fedgs", "longfed"])
    parser.add_argument("--data", nargs="*", default=list(FEDERATIONS))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--clients", type=int, help="instead of the sizes above")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.data[0], arguments.clients, arguments.methods[0], arguments.rounds)))
        return
    print("| " + " | ".join(HEADER) + " |" + ("\n|" + "---|" * len(HEADER) if arguments.markdown else ""), flush=True)
    for data in arguments.data:
        for clients in [arguments.clients] if arguments.clients else FEDERATIONS[data]:
            for method in arguments.methods:
                command = [sys.executable, __file__, "--one", "--data", data, "--clients", str(clients)]
                command += ["--methods", method, "--rounds", str(arguments.rounds)]
                done = subprocess.run(command, capture_output=True, text=True, env=os.environ | THREADS)
                if done.returncode:
                    print(f"| {data} | {clients:,} | {method} | {done.stderr.strip().splitlines()[-1]} |", flush=True)
                    continue
                found = json.loads(done.stdout)
                cells = [f"{found[key]:.3g}" if found[key] < 1000 else f"{found[key]:.0f}" for key in HEADER[3:]]
                print(f"| {data} | {clients:,} | {method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
