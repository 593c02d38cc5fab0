"""What a selection costs, and the check that it grows no faster than the number of clients."""

from __future__ import annotations

import math
import time
import tracemalloc

from sortition.core import Cohort, Registrar
from sortition.core.selector import AnySelector
from sortition.testing.play import instances, share_of
from sortition.testing.violation import require
from sortition.testing.worlds import ScriptedWorld

FEW_CLIENTS = 10_000
MANY_CLIENTS = 100_000
LEAST_SECONDS = 5e-3  # a shorter time is taken for this: the clock and the start-up weigh more than the method
LEAST_BYTES = 2**20  # the same of memory
MOST_TIMES_THE_SECONDS = 40  # for ten times the clients
MOST_TIMES_THE_BYTES = 20
MEASUREMENTS = 3  # before a method is called slow: a busy machine can spoil one of them, hardly all


def selection_cost(selector: AnySelector, n_clients: int) -> tuple[float, float]:
    """Measure seconds of the cheapest, and peak bytes of the dearest, of a few rounds; without the world's own."""
    world = ScriptedWorld(n_clients)
    registrar = Registrar(selector, world.population, horizon=4)
    tracemalloc.start()
    try:
        seconds = min(_timed_round(registrar, world, t) for t in range(3))
        _, peak_bytes = tracemalloc.get_traced_memory()
        return seconds, float(peak_bytes)
    finally:  # also where the selector raises: whoever measures next must not find this peak
        tracemalloc.stop()


def _timed_round(registrar: Registrar, world: ScriptedWorld, t: int) -> float:
    """Play one round and return the processor time of its selection, without the world's own."""
    available = share_of(world, 0.3)(t)
    started = time.process_time()
    turn = registrar.begin(available, 20)
    seconds = time.process_time() - started
    while turn.question is not None:
        reading = world.measure(turn.question, t)
        started = time.process_time()
        turn.answer(reading)
        seconds += time.process_time() - started
    cohort = turn.cohort or Cohort.uniform([])
    registrar.finish(turn, cohort.ids, world.train(cohort, registrar.needs.reports, t))
    return seconds


def scales(cls: type[AnySelector]) -> None:
    """Time and memory of a selection grow no faster than the number of clients (up to 100,000)."""
    if not cls.scales:
        return
    for selector in instances(cls):
        if any(signal.of == "pairs" for signal in selector.needs.asks):
            continue  # a table of all pairs is quadratic by its nature
        times_seconds, times_bytes = _growth(selector)
        parameters = selector.parameters()
        require(
            cls,
            times_seconds < MOST_TIMES_THE_SECONDS,
            f"takes {times_seconds:.0f} × the time for 10 × the clients, with {parameters}.",
        )
        require(
            cls,
            times_bytes < MOST_TIMES_THE_BYTES,
            f"takes {times_bytes:.0f} × the memory for 10 × the clients, with {parameters}.",
        )


def _growth(selector: AnySelector) -> tuple[float, float]:
    """Return how often the seconds and bytes of few clients many take: the least of some measurements, if need be."""
    times_seconds = math.inf
    for _ in range(MEASUREMENTS):
        few_seconds, few_bytes = selection_cost(selector, FEW_CLIENTS)
        many_seconds, many_bytes = selection_cost(selector, MANY_CLIENTS)
        times_seconds = min(times_seconds, many_seconds / max(few_seconds, LEAST_SECONDS))
        times_bytes = many_bytes / max(few_bytes, LEAST_BYTES)
        if times_seconds < MOST_TIMES_THE_SECONDS:
            break
    return times_seconds, times_bytes
