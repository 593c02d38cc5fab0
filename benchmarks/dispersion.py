"""FedGS's solver and graph: time, distance from the proved optimum, and a selection among a million clients.

python -m benchmarks.dispersion            # times, and gaps to the stored optima
python -m benchmarks.dispersion --prove 4  # proves the optima of 4 instances of each family anew, and stores them
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from tests.reference.dispersion_instances import FAMILIES, instance
from tests.reference.dispersion_optimum import optimum

from sortition.core import Population, Registrar
from sortition.selectors import load
from sortition.selectors.fedgs import graph
from sortition.selectors.fedgs.dispersion import disperse

STORED = Path("tests/reference/dispersion_optima.json")
N, M = 100, 10
LIMIT = 240  # seconds a proof may take


def prove(count):
    proved = []
    for family in ("dirichlet", "random"):  # where many clients are alike, HiGHS does not close the gap in minutes
        for seed in range(count):
            gain, distance, weight = instance(family, N, M, seed)
            started = time.perf_counter()
            try:
                value, members = optimum(gain, weight * distance, M, LIMIT)
            except RuntimeError as error:
                print(f"{family}, seed {seed}: {error}", flush=True)
                continue
            proved.append(
                {"family": family, "n": N, "places": M, "seed": seed, "value": value, "members": members.tolist()}
            )
            print(f"{family}, seed {seed}: {value:.6f} in {time.perf_counter() - started:.1f} s", flush=True)
            STORED.write_text("[\n" + ",\n".join(json.dumps(one) for one in proved) + "\n]\n")


def gaps():
    found = []
    for one in json.loads(STORED.read_text()):
        gain, distance, weight = instance(one["family"], one["n"], one["places"], one["seed"])
        ours = disperse(np.arange(len(gain)), gain, distance, weight, one["places"], np.random.default_rng(one["seed"]))
        found.append((one["value"] - ours.value) / abs(one["value"]))
    print(f"N = {N}, M = {M}: gap to {len(found)} proved optima: mean {np.mean(found):.1e}, worst {max(found):.1e}")


def clock(n, places, repeats):
    for family in FAMILIES:
        spent = []
        for seed in range(repeats):
            gain, distance, weight = instance(family, n, places, seed)
            started = time.perf_counter()
            disperse(np.arange(n), gain, distance, weight, places, np.random.default_rng(seed))
            spent.append(time.perf_counter() - started)
        print(f"solver, N = {n}, M = {places}, {family}: {1e3 * np.median(spent):.1f} ms")


def paths(n):
    unit = graph.scale_to_unit(np.random.default_rng(0).dirichlet(np.full(10, 0.3), n))
    R = graph.lengths(np.clip(unit @ unit.T, 0, 1), "released", 0.01, 0.1)
    started = time.perf_counter()
    graph.path_distances(R, np.ones(n, int))
    print(f"H, N = {n}: {time.perf_counter() - started:.2f} s")


def million(n=1_000_000):
    rng = np.random.default_rng(0)
    pairs = np.eye(10, dtype=int)[rng.integers(10, size=(n, 2))].sum(axis=1) * 300
    for name, counts in (("repeated", pairs), ("different", np.floor(rng.dirichlet(np.full(10, 0.3), n) * 500))):
        registrar = Registrar(load("fedgs"), Population(np.full(n, 600), counts))
        for t in range(3):
            started = time.perf_counter()
            turn = registrar.begin(np.arange(n), 100)
            what = "graph and selection" if t == 0 else "selection"
            print(f"N = {n:,}, {name} label rows, {what}: {time.perf_counter() - started:.2f} s")
            registrar.finish(turn)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    if "--prove" in sys.argv:
        prove(int(sys.argv[sys.argv.index("--prove") + 1]))
    gaps()
    clock(100, 10, 20)
    clock(1000, 100, 1)
    paths(1000)
    million()
