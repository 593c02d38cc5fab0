"""Time and peak memory of one selection, for every discovered method, up to a million clients.

    python benchmarks/selection.py [--methods uniform active] [--clients 100 1000000] [--cohort 100] [--rounds 20]
                                   [--met] [--share 1] [--width 64] [--markdown] [--before ../before/src --pairs 3]

30 % of the clients are available (``--share``), the cohort is 100, answers are synthesised (and their making is not
counted). Each method plays some rounds, so that warm-ups end: `first` is round 0 with everything it sets up, `steady`
the median of the last three rounds, `worst` the dearest after the first (a refit, say). These are processor seconds of
one thread, which other work on the machine disturbs least; `wall` is the steady round by the clock, `finish` what it
costs to take in the cohort's reports. Vectors have ``--width`` numbers. Memory is the peak that the selection itself
added to what was there before the call, plus its state. One process a row. With ``--met`` everybody has reported once
before the first round: what a method that must meet all its clients (HiCS) does when it has. With ``--before`` each row
is measured with the code of that folder and with this one's, in turns, and has the median of the pairs, before → after.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HEADER = ("method", "clients", "first ms", "steady ms", "worst ms", "wall ms", "finish ms", "memory MB")


def measure(name: str, clients: int, rounds: int, met: bool, cohort: int, share: float, width: int) -> dict[str, float]:
    """One row, in this process."""
    import numpy as np

    from sortition.core import Cohort, Feedback, Registrar, Round
    from sortition.selectors import load
    from sortition.testing.play import share_of
    from sortition.testing.worlds import ScriptedWorld

    world = ScriptedWorld(clients, width=width)
    available = share_of(world, share)
    seconds: list[float] = []
    wall: list[float] = []
    learning: list[float] = []
    peak = 0.0
    for traced in (False, True):  # tracing allocations slows Python down: time and memory are two passes
        registrar = Registrar(load(name), world.population, horizon=10 * rounds)
        if met:
            everybody = Cohort.uniform(np.arange(clients), full=True)
            round = Round(0, None, everybody.ids, clients, world.population, np.random.default_rng(0))
            reports = world.train(everybody, registrar.needs.reports, 0)
            registrar.selector.observe(registrar.state, Feedback(round, everybody, everybody.ids, reports))
        if traced:
            tracemalloc.start()
        for t in range(rounds if not traced else min(rounds, 18)):
            ids, spent, waited = available(t), 0.0, 0.0
            tracemalloc.reset_peak() if traced else None
            base = tracemalloc.get_traced_memory()[0] if traced else 0
            begun, started = time.perf_counter(), time.process_time()
            turn = registrar.begin(ids, cohort)
            spent, waited = spent + time.process_time() - started, waited + time.perf_counter() - begun
            if traced:
                peak = max(peak, tracemalloc.get_traced_memory()[1] - base)
            while turn.question is not None:
                reading = world.measure(turn.question, t)
                tracemalloc.reset_peak() if traced else None
                base = tracemalloc.get_traced_memory()[0] if traced else 0
                begun, started = time.perf_counter(), time.process_time()
                turn.answer(reading)
                spent, waited = spent + time.process_time() - started, waited + time.perf_counter() - begun
                if traced:
                    peak = max(peak, tracemalloc.get_traced_memory()[1] - base)
            reports = world.train(turn.cohort, registrar.needs.reports, t)
            started = time.process_time()
            registrar.finish(turn, turn.cohort.ids, reports)
            if not traced:
                learning.append(time.process_time() - started)
                seconds.append(spent)
                wall.append(waited)
    tracemalloc.stop()
    state = sum(array.nbytes for array in registrar.state.arrays().values())
    return {
        "first": seconds[0],
        "steady": statistics.median(seconds[-3:]),
        "worst": max(seconds[1:]),
        "wall": statistics.median(wall[-3:]),
        "finish": statistics.median(learning[-3:]),
        "memory": peak + state,
    }


def row(name: str, clients: int, arguments: argparse.Namespace, path: str | None = None) -> dict[str, float] | str:
    """One row, in a process of its own, by the code in this path."""
    command = [sys.executable, __file__, "--one", name, "--clients", str(clients), "--rounds", str(arguments.rounds)]
    command += ["--cohort", str(min(arguments.cohort, clients)), "--share", str(arguments.share)]
    command += ["--width", str(arguments.width), *["--met"] * arguments.met]
    environment = os.environ | THREADS | ({} if path is None else {"PYTHONPATH": path})
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout)


def compared(name: str, clients: int, arguments: argparse.Namespace) -> list[str]:
    """The cells of a row, before → after: medians of so many pairs that were measured in turns."""
    here = str(Path(__file__).parents[1] / "src")
    both: dict[str, list[dict[str, float]]] = {arguments.before: [], here: []}
    for _ in range(arguments.pairs):
        for path, rows in both.items():
            if isinstance(found := row(name, clients, arguments, path), str):
                return [found]
            rows.append(found)
    middle = [{key: statistics.median(r[key] for r in rows) for key in rows[0]} for rows in both.values()]
    return [f"{before} → {after}" for before, after in zip(cells(middle[0]), cells(middle[1]), strict=True)]


def cells(found: dict[str, float]) -> list[str]:
    """Milliseconds and megabytes."""
    times = [f"{found[key] * 1e3:.2f}" for key in ("first", "steady", "worst", "wall", "finish")]
    return [*times, f"{found['memory'] / 2**20:.1f}"]


def main() -> None:
    from sortition.selectors import discover

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="*", default=discover())
    parser.add_argument("--clients", nargs="*", type=int, default=[100, 1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--met", action="store_true", help="everybody has reported once before")
    parser.add_argument("--share", type=float, default=0.3, help="of the clients that are available")
    parser.add_argument("--width", type=int, default=10, help="numbers in a vector that clients send")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--before", help="the source folder of another state of the code, to compare with")
    parser.add_argument("--pairs", type=int, default=3, help="of measurements, with --before")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        settings = (arguments.rounds, arguments.met, arguments.cohort, arguments.share, arguments.width)
        one = measure(arguments.one, arguments.clients[0], *settings)
        print(json.dumps(one))
        return
    bar, edge = (" | ", "| ") if arguments.markdown else ("  ", "")
    wide = 24 if arguments.before else 16
    print(edge + bar.join(f"{head:>{wide}}" for head in HEADER), flush=True)
    if arguments.markdown:
        print("|" + "---|" * len(HEADER))
    for name in arguments.methods:
        for clients in arguments.clients:
            if arguments.before:
                shown = compared(name, clients, arguments)
            else:
                found = row(name, clients, arguments)
                shown = [found] if isinstance(found, str) else cells(found)
            print(edge + bar.join(f"{cell:>{wide}}" for cell in (name, f"{clients:,}", *shown)), flush=True)


if __name__ == "__main__":
    main()
