"""Rounds on a graphics card by each engine, in pfl's CIFAR-10 setting, for whoever has a card.

    python benchmarks/gpu.py                          # on cuda, some minutes
    python benchmarks/gpu.py --device cuda:1 --rounds 50
    python benchmarks/gpu.py --device cpu --rounds 1 --clients 4     # to see that it works

The setting is that of pfl-research's benchmark: a cohort of 50 users with 50 examples each, one local epoch in batches
of 10, a small CNN on 32 × 32 × 3 images. The images are random: speed does not depend on them. Nobody has measured this
for the documentation, which has no card; the output is a table that can be sent with an issue.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from sortition.aggregation.combine import weighted_sum
from sortition.learning import Learner, LocalRule, build

IMAGE = (3, 32, 32)
CLASSES = 10
EXAMPLES_PER_CLIENT = 50
RULE = LocalRule(lr=0.1, epochs=1, batch=10)
WARM_UP = 3  # rounds in which torch chooses its kernels


@dataclass(frozen=True)
class Way:
    """One way of training a model.

    Attributes:
        name: of the model.
        engine: of the learner.
        precision: of its passes.
    """

    name: str
    engine: str
    precision: str


WAYS = (
    Way("cnn", "sequential", "float32"),
    Way("cnn", "vmapped", "float32"),
    Way("cnn", "sequential", "bf16"),
    Way("cnn", "vmapped", "bf16"),
    Way("mlp", "sequential", "float32"),
    Way("mlp", "vmapped", "float32"),
    Way("mlp", "stacked", "float32"),
)


def model_of(name: str) -> nn.Module:
    """Return a net of pfl's size, or an MLP that every engine takes."""
    if name == "mlp":
        return build("mlp", IMAGE, CLASSES, hidden=(200, 100))
    return build("cnn", IMAGE, CLASSES, preset="fedcor")


def wait_for(device: torch.device) -> None:
    """Wait until the card has done what it was sent."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_megabytes(device: torch.device) -> str:
    """Return the most memory that was in use on the card since the last reset."""
    if device.type != "cuda":
        return "–"
    return f"{torch.cuda.max_memory_allocated(device) / 1e6:,.0f}"


def measured(way: Way, device: torch.device, cohort: int, rounds: int) -> list[str]:
    """Return one row of the table: rounds per second and memory of one way."""
    rng = np.random.default_rng(0)
    n_examples = cohort * EXAMPLES_PER_CLIENT
    x = rng.integers(0, 256, (n_examples, *IMAGE), dtype=np.uint8)
    y = rng.integers(0, CLASSES, n_examples)
    members = np.split(np.arange(n_examples), cohort)
    learner = Learner(
        model_of(way.name), x, y, RULE, device=str(device), engine=way.engine, precision=way.precision, white=255
    )
    weights = np.full(cohort, 1 / cohort)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    params = learner.initial
    began = time.perf_counter()
    for t in range(WARM_UP + rounds):
        if t == WARM_UP:
            wait_for(device)
            began = time.perf_counter()
        trained = learner.train(params, members, np.arange(cohort), seed=0, t=t)
        params = params + weighted_sum(weights, trained.deltas)  # on the card, where both stay
    wait_for(device)
    seconds = time.perf_counter() - began
    return [
        way.name,
        way.engine,
        way.precision,
        f"{rounds / seconds:.2f}",
        f"{1e3 * seconds / rounds:.1f}",
        peak_megabytes(device),
        f"{float(trained.losses.mean()):.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=50, help="of a cohort")
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    name = platform.processor() or platform.machine()
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    print(f"torch {torch.__version__}, {name}; cohort {chosen.clients}, {EXAMPLES_PER_CLIENT} examples a client")
    print("| model | engine | precision | rounds a second | ms a round | peak memory, MB | last loss |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        row = measured(way, device, chosen.clients, chosen.rounds)
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
