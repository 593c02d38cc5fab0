"""Processor time of every partition, best of five: 60,000 examples of 10 labels, 100 and 1,000 clients. Goal: 100 ms.

Run: python benchmarks/partitions.py
"""

from __future__ import annotations

import time

import numpy as np

from sortition.core.streams import stream
from sortition.data.partitions import discover, split

SKEWED = {"dirichlet": "alpha", "dirichlet-qp": "alpha", "dirichlet-sizes": "alpha"}


def best_of(repeats: int, name: str, labels: np.ndarray, clients: int, **params: object) -> tuple[float, int, int, int]:
    times = []
    for seed in range(repeats):
        rng = stream(seed, "benchmark")
        start = time.process_time()
        made = split(name, labels, clients, rng, **params)
        times.append(time.process_time() - start)
    return 1000 * min(times), int(made.sizes.min()), int(np.median(made.sizes)), int(made.sizes.max())


def main() -> None:
    labels = stream(0, "benchmark labels").permutation(np.repeat(np.arange(10), 6000))
    print(f"{'partition':34} {'clients':>7} {'ms':>7}   smallest, median, largest")
    for name in discover():
        cases: list[dict[str, object]] = [{}]
        if name in SKEWED:
            cases += [{SKEWED[name]: 0.1}, {SKEWED[name]: 0.001}]
        for params in cases:
            for clients in (100, 1000):
                ms, low, middle, high = best_of(5, name, labels, clients, **params)
                shown = name + "".join(f" {key} = {value}" for key, value in params.items())
                print(f"{shown:34} {clients:7} {ms:7.1f}   {low}, {middle}, {high}")


if __name__ == "__main__":
    main()
