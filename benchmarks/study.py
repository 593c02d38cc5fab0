"""A whole study as a user runs it: CPU seconds of all its processes, and how many of them pass outside rounds.

    python benchmarks/study.py                  # 4 runs × 50 rounds of FedCor's Fashion-MNIST MLP, two processes
    python benchmarks/study.py --rounds 20 --jobs 1

The study is run with all its rounds and with one: the difference is what rounds cost, the rest is start-up and tables.
Linux only: processes are followed through /proc, also those that a fork server starts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """
cohort = 5
seeds = 2
data = { name = "fashion-mnist", clients = 100, partition = { name = "shards", per_client = 2 } }
model = { name = "mlp", hidden = [64, 30] }
local = { steps = 20, batch = 64, lr = 0.005 }
method = [{ name = "uniform" }, { name = "by-size" }]
"""
TICKS = os.sysconf("SC_CLK_TCK")


def processes(session: int) -> dict[int, float]:
    """CPU seconds so far of every process of a session, its ended children not included."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            found[int(place.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def followed(command: list[str]) -> tuple[float, float]:
    """Seconds on the wall, and of CPU over all processes of the command."""
    begun, cpu = time.perf_counter(), dict[int, float]()
    child = subprocess.Popen(command, start_new_session=True)
    while child.poll() is None:
        cpu |= processes(child.pid)
        time.sleep(0.02)
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with code {child.returncode}")
    return time.perf_counter() - begun, sum(cpu.values())


def study(rounds: int, jobs: int) -> tuple[float, float]:
    """Seconds on the wall and of CPU of the study with so many rounds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "study.toml")
        file.write_text(f"rounds = {rounds}\n{STUDY}")
        command = [sys.executable, "-m", "sortition", "run", str(file), "-o", str(Path(folder, "runs")), "-q"]
        return followed([*command, "--jobs", str(jobs)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    (wall, cpu), (_, first) = study(chosen.rounds, chosen.jobs), study(1, chosen.jobs)
    rounds = (cpu - first) * chosen.rounds / (chosen.rounds - 1)
    print(
        f"load {os.getloadavg()[0]:.1f}: 4 runs of {chosen.rounds} rounds: {wall:.1f} s on the wall, {cpu:.1f} s of CPU"
    )
    print(f"inside rounds {rounds:.1f} s of CPU, outside {cpu - rounds:.1f} s: {1 - rounds / cpu:.0%}")


if __name__ == "__main__":
    main()
