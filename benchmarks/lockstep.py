"""Runs in lock-step against runs one after the other: CPU seconds of a run of small studies, in one process.

    python benchmarks/lockstep.py [--repeats 3]
    python benchmarks/lockstep.py --before ../older/src        # runs of digits by the code of another checkout, and now

Results stand in docs/scale.md. Both ways alternate, and the fastest of the repetitions counts. All that a run does is
in it: folder, records, audit log, checkpoint, summary. The files of both ways are compared byte by byte; those of an
older checkout are not, since sums may have been reordered.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from sortition.studies.plan import plan
from sortition.studies.runs import runner


class RowAttention(nn.Module):
    """The rows of an 8 × 8 image attend to one another."""

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(8, 24)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query_key_value(x.reshape(-1, 8, 8)).chunk(3, dim=-1)
        return self.head(nn.functional.scaled_dot_product_attention(query, key, value).mean(1))


METHODS = ("uniform", "by-size", "power-of-choice", "hics")
SUITE = (*METHODS, "fedgs", "clustered", "divfl", "active")
DIGITS = "digits, MLP 64-32-10, 5 × 10 × 10"
STUDIES = {
    DIGITS: {
        "cohort": 5,
        "data": {"name": "digits", "clients": 100, "partition": {"name": "shards", "per_client": 2}},
        "model": {"name": "mlp", "hidden": [32]},
        "local": {"steps": 10, "batch": 10, "lr": 0.1},
    },
    "synthetic, softmax, 10 × 5 × 10": {
        "cohort": 10,
        "data": {"name": "synthetic", "clients": 100},
        "model": "softmax",
        "local": {"steps": 5, "batch": 10, "lr": 0.1},
    },
    "digits, attention over rows, 5 × 10 × 10": {
        "cohort": 5,
        "data": {"name": "digits", "clients": 100, "partition": {"name": "shards", "per_client": 2}},
        "model": "lockstep:RowAttention",
        "local": {"steps": 10, "batch": 10, "lr": 0.1},
    },
}


def played(study: dict[str, object], **keys: bool) -> tuple[float, dict[str, bytes]]:
    """CPU seconds per run, and what the runs wrote."""
    made = plan({**study, **keys})
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        failed = runner.execute(made, Path(folder), jobs=1).failed
        seconds = (time.process_time() - begun) / len(made.runs)
        files = [path for path in Path(folder).rglob("*") if path.is_file() and path.name != "timings.jsonl"]
        if failed:
            raise SystemExit(str(failed))
        return seconds, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def study_of(name: str, method: str) -> dict[str, object]:
    return {"rounds": 50, "seeds": 16, "method": [{"name": method}], **STUDIES[name]}


def compared(repeats: int) -> None:
    """One by one and in lock-step, in this process."""
    from engine import table

    rows = []
    for name in STUDIES:
        for method in METHODS:
            study = study_of(name, method)
            played({**study, "seeds": 1})  # imports and data
            found = [(played(study, lockstep=False), played(study, lockstep=True)) for _ in range(repeats)]
            apart, together = (min(pair[way][0] for pair in found) for way in (0, 1))
            same = all(one[1] == other[1] for one, other in found)
            rows.append([name, method, apart, together, f"{apart / together:.2f}×", "same" if same else "other"])
    header = ["study", "method", "one by one", "in lock-step", "gain", "bytes"]
    table(f"16 runs of 50 rounds, CPU seconds a run, load {os.getloadavg()[0]:.1f}", header, rows)


def seconds_of(source: str | None, method: str) -> float:
    """CPU seconds a run of digits in a process of its own, by the code in a folder; default: by this one."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **({} if source is None else {"PYTHONPATH": source})}
    command = [sys.executable, __file__, "--one", method]
    return float(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split()[-1])


def suite(before: str, repeats: int) -> None:
    """The code of another checkout and this one, in turn, method by method."""
    from engine import table

    rows, total = [], [0.0, 0.0]
    for method in SUITE:
        found = [(seconds_of(before, method), seconds_of(None, method)) for _ in range(repeats)]
        then, now = (min(pair[way] for pair in found) for way in (0, 1))
        total = [total[0] + then, total[1] + now]
        rows.append([method, then, now, f"{then / now:.2f}×"])
    rows.append(["all", *(sum_ / len(SUITE) for sum_ in total), f"{total[0] / total[1]:.2f}×"])
    title = f"Runs of digits, 50 rounds, CPU seconds a run of 16, load {os.getloadavg()[0]:.1f}"
    table(title, ["method", "before", "now", "faster"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--before", metavar="SRC", help="the src folder of another checkout")
    parser.add_argument("--one", metavar="METHOD", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        study = study_of(DIGITS, chosen.one)
        played({**study, "seeds": 1})
        print(played(study)[0])
    elif chosen.before:
        suite(chosen.before, chosen.repeats)
    else:
        compared(chosen.repeats)


if __name__ == "__main__":
    main()
