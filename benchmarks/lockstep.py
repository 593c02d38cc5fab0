"""Runs in lock-step against runs one after the other: CPU seconds of a run of small studies, in one process.

    python benchmarks/lockstep.py [--repeats 3]

Results stand in docs/scale.md. Both ways alternate, and the fastest of the repetitions counts. All that a run does is
in it: folder, records, audit log, checkpoint, summary. The files of both ways are compared byte by byte.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from engine import table

from sortition.studies.plan import plan
from sortition.studies.runs import runner

METHODS = ("uniform", "by-size", "power-of-choice", "hics")
STUDIES = {
    "digits, MLP 64-32-10, 5 × 10 × 10": {
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
}


def played(study: dict[str, object], lockstep: bool) -> tuple[float, dict[str, bytes]]:
    """CPU seconds per run, and what the runs wrote."""
    made = plan({**study, "lockstep": lockstep})
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        failed = runner.execute(made, Path(folder), jobs=1).failed
        seconds = (time.process_time() - begun) / len(made.runs)
        files = [path for path in Path(folder).rglob("*") if path.is_file() and path.name != "timings.jsonl"]
        if failed:
            raise SystemExit(str(failed))
        return seconds, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats, rows = parser.parse_args().repeats, []
    for name, keys in STUDIES.items():
        for method in METHODS:
            study = {"rounds": 50, "seeds": 16, "method": [{"name": method}], **keys}
            played({**study, "seeds": 1}, True)  # imports and data
            found = [(played(study, False), played(study, True)) for _ in range(repeats)]
            apart, together = (min(pair[way][0] for pair in found) for way in (0, 1))
            same = all(one[1] == other[1] for one, other in found)
            rows.append([name, method, apart, together, f"{apart / together:.2f}×", "same" if same else "other"])
    header = ["study", "method", "one by one", "in lock-step", "gain", "bytes"]
    table(f"16 runs of 50 rounds, CPU seconds a run, load {os.getloadavg()[0]:.1f}", header, rows)


if __name__ == "__main__":
    main()
