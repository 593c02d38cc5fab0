"""A whole study as a user runs it: CPU seconds of all its processes, and how many of them pass outside rounds.

    python benchmarks/study.py           # 4 runs × 50 rounds of FedCor's Fashion-MNIST MLP, in one process and two
    python benchmarks/study.py --rounds 20 --jobs 4
    python benchmarks/study.py --peers .venv-peers/bin/python    # beside a plain loop, pfl, fluke, FLGo and NVFlare

The study is run with all its rounds and with one: the difference is what rounds cost, the rest is start-up and tables.
All take turns, as often as ``--repeats`` says. Python's compiled files are kept, as an installed package has them.
Linux only: processes are followed through /proc, also those that a fork server starts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RUNS = 4
OURS = "Sortition"  # in one process, as the peers run
PEERS = ("pfl", "fluke", "FLGo", "NVFlare")
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
    """CPU seconds so far of every process of a session and of those that they started, ended ones not included."""
    rows = dict[int, tuple[int, int, float]]()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        rows[int(place.name)] = int(fields[1]), int(fields[3]), (int(fields[11]) + int(fields[12])) / TICKS
    found, more = set[int](), {at for at, (_, own, _) in rows.items() if own == session}
    while more:
        found |= more
        more = {at for at, (parent, _, _) in rows.items() if parent in found} - found
    return {at: rows[at][2] for at in found}


def followed(command: list[str], kept: Path) -> tuple[float, float]:
    """Seconds on the wall, and of CPU over all processes of the command; ``kept`` holds Python's compiled files."""
    begun, cpu = time.perf_counter(), dict[int, float]()
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(kept), "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with (kept / "output").open("w") as output:
        child = subprocess.Popen(command, start_new_session=True, env=env, stdout=output, stderr=output)
        while child.poll() is None:
            cpu |= processes(child.pid)
            time.sleep(0.02)
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with code {child.returncode}\n{(kept / 'output').read_text()[-3000:]}")
    return time.perf_counter() - begun, sum(cpu.values())


def study(rounds: int, jobs: int, kept: Path) -> tuple[float, float]:
    """Seconds on the wall and of CPU of the study with so many rounds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "study.toml")
        file.write_text(f"rounds = {rounds}\n{STUDY}")
        command = [sys.executable, "-m", "sortition", "run", str(file), "-o", str(Path(folder, "runs")), "-q"]
        return followed([*command, "--jobs", str(jobs)], kept)


def federation(file: Path) -> None:
    """The federation as arrays, for those who do not read Sortition's data."""
    from engine import fashion_mnist

    images, _ = fashion_mnist()
    by_label = np.argsort(images.y_train, kind="stable").reshape(200, -1)
    parts = by_label[np.random.default_rng(0).permutation(200).reshape(100, 2)].reshape(100, -1)
    arrays = {name: getattr(images, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(file, **arrays, parts=parts)


def installed(python: str, module: str) -> bool:
    """Whether an interpreter finds a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return not subprocess.run([python, "-c", code], check=False).returncode


def ways(jobs: int, python: str | None, kept: Path) -> dict[str, Callable[[int], tuple[float, float]]]:
    """Name → the study with so many rounds."""
    found: dict[str, Callable[[int], tuple[float, float]]] = {
        OURS: lambda rounds: study(rounds, 1, kept),
        f"{OURS}, {jobs} processes": lambda rounds: study(rounds, jobs, kept),
    }
    if python is None:
        return found
    federation(data := kept / "federation.npz")

    def peer(name: str, of: str) -> Callable[[int], tuple[float, float]]:
        script = [of, "-P", str(HERE / "peer_studies.py"), name, str(data)]
        return lambda rounds: followed([*script, str(rounds), str(RUNS)], kept)

    found["plain PyTorch loop"] = peer("loop", sys.executable)
    return found | {name: peer(name, python) for name in PEERS if installed(python, name.lower())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter in which peers are installed")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, help="leave out a peer")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        played = ways(chosen.jobs, chosen.peers, Path(folder))
        played = {name: way for name, way in played.items() if name not in chosen.without}
        for way in played.values():
            way(1)  # compiles
        first = {name: way(1)[1] for name, way in played.items()}
        found = [{name: way(chosen.rounds) for name, way in played.items()} for _ in range(chosen.repeats)]
    print(f"{RUNS} runs of {chosen.rounds} rounds, {chosen.repeats} times, load {os.getloadavg()[0]:.1f}\n")
    print("| way | seconds | CPU s | outside rounds | CPU ms a round | CPU, times Sortition's | of a round |")
    print("|---|---|---|---|---|---|---|")
    rounds = {name: (_middle(found, name, 1) - first[name]) / (chosen.rounds - 1) for name in played}
    for name in played:
        cpu, own = _middle(found, name, 1), rounds[name] * chosen.rounds
        ratios = [one[name][1] / one[OURS][1] for one in found]
        spread = f"{np.median(ratios):.2f}× ({min(ratios):.2f} … {max(ratios):.2f})"
        share = f"{cpu - own:.1f} s, {1 - own / cpu:.0%}"
        cells = [f"{_middle(found, name, 0):.1f}", f"{cpu:.1f}", share, f"{1e3 * rounds[name] / RUNS:.1f}", spread]
        print(f"| {name} | {' | '.join(cells)} | {rounds[name] / rounds[OURS]:.1f}× |")


def _middle(found: list[dict[str, tuple[float, float]]], name: str, of: int) -> float:
    return float(np.median([one[name][of] for one in found]))


if __name__ == "__main__":
    main()
