"""Memory of a round in which everybody trains: updates folded into one sum as they are made, or all kept to the end.

    python benchmarks/participation.py

Fashion-MNIST's MLP 784-64-30-10, 20 random examples a client, one step of 20. Each row is a process of its own; the
largest memory that it had is counted, above what it had before the round. Results stand in docs/scale.md.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import numpy as np
import torch
from engine import _dataset, examples, table

from sortition.learning import LocalRule, build
from sortition.selectors import load as selector
from sortition.simulation import Setup, World, round_cache, start

CLIENTS = (500, 1_000, 2_000, 4_000)


def megabytes() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(clients: int, folded: bool) -> None:
    """Play a round, and print what memory it took."""
    torch.set_num_threads(1)
    x, y = examples(20_000, (784,))
    parts = np.random.default_rng(0).integers(0, 20_000, (clients, 20))
    if not folded:
        round_cache.BLOCK_BYTES = 1 << 60
    world = World(_dataset(x, y), parts, build("mlp", (784,), 10), LocalRule(lr=0.1, steps=1, batch=20))
    setup = Setup(world, selector("full"), clients, 2, evaluate_every=0)
    carry, before = start(setup), megabytes()
    carry.play_round()
    print(megabytes() - before, float(np.abs(carry.params).sum()))


def measured(clients: int, folded: bool) -> tuple[float, float]:
    """Megabytes of the round, and a figure of the model after it."""
    command = [sys.executable, __file__, "--one", str(clients), *(["--folded"] if folded else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(done[0]), float(done[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folded", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        one(chosen.one, chosen.folded)
        return
    rows = []
    for clients in CLIENTS:
        (kept, then), (folded, now) = measured(clients, False), measured(clients, True)
        rows.append([f"{clients:,}", kept, folded, f"{abs(now / then - 1):.0e}"])
    header = ["clients that train", "all updates kept, MB", "folded, MB", "models differ by"]
    table("Memory of a round with full participation", header, rows)


if __name__ == "__main__":
    main()
