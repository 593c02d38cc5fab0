"""What the audit log costs: the demo's methods with it and without it, side by side in one run.

    python benchmarks/audit.py [--rounds 100] [--pairs 5]

Both sides alternate; the least processor time of each counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from sortition.reproduction.preset import FOLDER
from sortition.studies.config import RunConfig
from sortition.studies.plan import plan, read
from sortition.studies.runs.run_task import OneRun


def seconds(run: RunConfig) -> float:
    """Processor time of one run in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.process_time()
        OneRun(run, Path(scratch) / "run")(lambda _done, _accuracy: None, lambda: False)
        return time.process_time() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    demo, sets = read(FOLDER.parent / "demo.toml"), [f"rounds={options.rounds}", "seeds=1"]
    logged, plain = (plan(demo, [*sets, f"audit={audit}"]).runs for audit in ("true", "false"))
    print("| method | with the log, s | without, s | log costs |\n|---|---|---|---|")
    sums = [0.0, 0.0]
    for both in zip(logged, plain, strict=True):
        taken = [[seconds(run) for run in both] for _ in range(options.pairs + 1)][1:]  # the first one warms up
        least = [min(column) for column in zip(*taken, strict=True)]
        sums = [total + own for total, own in zip(sums, least, strict=True)]
        tell(both[0].method.label, *least)
    tell("all", *sums)


def tell(name: str, logged: float, plain: float) -> None:
    """One row."""
    print(f"| {name} | {logged:.2f} | {plain:.2f} | {100 * (logged / plain - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
