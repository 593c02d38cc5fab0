"""LongFed's Table I taken apart: what bare choices and distances of gradients cost, without a registrar around them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.selectors._parts.distances import pairwise_distances


def bare_operations(
    context: Context, *, clients: int = 100, cohort: int = 10, parameters: int = 52_500, repeats: int = 5
) -> str:
    """Tabulate the milliseconds of a choice and of eq. 5's distances, each computed in several ways."""
    rng = stream(0, "bare operations")
    legacy = np.random.RandomState(0)
    losses = rng.random(clients)
    sizes = rng.integers(100, 1000, clients)
    chances = sizes / sizes.sum()
    gradients = rng.normal(size=(clients, parameters)).astype(np.float32)

    def candidates_first() -> None:
        candidates = legacy.choice(clients, 2 * cohort, replace=False, p=chances)
        candidates[np.argsort(losses[candidates])[-cohort:]]

    choices: dict[str, Callable[[], object]] = {
        "random: K of N drawn without replacement": lambda: legacy.choice(clients, cohort, replace=False),
        "Powerd: the K largest of everybody's losses": lambda: np.argsort(losses)[-cohort:],
        "Powerd: 2 K candidates drawn by size, the K largest of their losses": candidates_first,
    }
    distances: dict[str, Callable[[], object]] = {
        "K selected, one matrix product (here)": lambda: pairwise_distances(gradients[:cohort]),
        "K selected, pair by pair": lambda: _pair_by_pair(gradients[:cohort], gradients[:cohort]),
        "K selected and all N, pair by pair": lambda: _pair_by_pair(gradients[:cohort], gradients),
        "all N, one matrix product": lambda: pairwise_distances(gradients),
        "all N, pair by pair": lambda: _pair_by_pair(gradients, gradients),
    }
    context.say("choices and distances")
    choice_table = Table("A choice alone", ["what is computed", "ms"])
    choice_table.rows = [[name, f"{milliseconds(work, repeats, 1000):.3f}"] for name, work in choices.items()]
    distance_table = Table("Distances between gradients (eq. 5)", ["what is computed", "ms"])
    distance_table.rows = [[name, f"{milliseconds(work, repeats, 1):.1f}"] for name, work in distances.items()]
    distance_table.notes.append(
        f"N = {clients}, K = {cohort}, gradients of {parameters} numbers, in single precision; time of one core, the "
        f"least of {repeats} measurements."
    )
    return f"{choice_table.markdown()}\n\n{distance_table.markdown()}"


def _pair_by_pair(some: Array, others: Array) -> None:
    """Compute the distance of every one of some gradients to every other, one after the other."""
    for gradient in some:
        for other in others:
            np.linalg.norm(gradient - other)


def milliseconds(work: Callable[[], object], repeats: int, calls: int) -> float:
    """Return the processor's milliseconds of a call: the least of several means over some calls."""
    durations = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(calls):
            work()
        durations.append((time.process_time() - begin) / calls)
    return 1000 * min(durations)
