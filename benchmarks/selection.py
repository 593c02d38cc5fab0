"""Time and peak memory of one selection, for every discovered method, up to a million clients.

    python benchmarks/selection.py [--methods uniform active] [--clients 100 1000000] [--cohort 100] [--rounds 20]
                                   [--met] [--share 1] [--width 64] [--markdown]

30 % of the clients are available (``--share``), the cohort is 100, answers are synthesised (and their making is not
counted). Each method plays some rounds, so that warm-ups end: `first` is round 0 with everything it sets up, `steady`
the median of the last three rounds, `worst` the dearest after the first (a refit, say). These are processor seconds of
one thread, which other work on the machine disturbs least; `wall` is the steady round by the clock, `finish` what it
costs to take in the cohort's reports. Vectors have ``--width`` numbers. Memory is the peak that the selection itself
added to what was there before the call, plus its state. One process a row. With ``--met`` everybody has reported once
before the first round: what a method that must meet all its clients (HiCS) does when it has.
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

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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


def row(name: str, clients: int, arguments: argparse.Namespace) -> dict[str, float] | str:
    """One row, in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--clients", str(clients), "--rounds", str(arguments.rounds)]
    command += [
        "--cohort",
        str(min(arguments.cohort, clients)),
        *["--met"] * arguments.met,
        "--share",
        str(arguments.share),
    ]
    command += ["--width", str(arguments.width)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | THREADS)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout)


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
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        settings = (arguments.rounds, arguments.met, arguments.cohort, arguments.share, arguments.width)
        one = measure(arguments.one, arguments.clients[0], *settings)
        print(json.dumps(one))
        return
    bar = " | " if arguments.markdown else "  "
    edge = "| " if arguments.markdown else ""
    print(
        edge
        + bar.join(
            f"{h:>16}"
            for h in ("method", "clients", "first ms", "steady ms", "worst ms", "wall ms", "finish ms", "memory MB")
        ),
        flush=True,
    )
    if arguments.markdown:
        print("|" + "---|" * 8)
    for name in arguments.methods:
        for clients in arguments.clients:
            found = row(name, clients, arguments)
            if isinstance(found, str):
                print(f"{edge}{name:>16}{bar}{clients:>16,}{bar}{found}", flush=True)
                continue
            cells = [f"{found[k] * 1e3:>16.2f}" for k in ("first", "steady", "worst", "wall", "finish")] + [
                f"{found['memory'] / 2**20:>16.1f}"
            ]
            print(edge + bar.join([f"{name:>16}", f"{clients:>16,}", *cells]), flush=True)


if __name__ == "__main__":
    main()
