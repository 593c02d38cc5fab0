"""What a selection costs, and the check that it grows no faster than the number of clients."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from sortition.core import Cohort, Registrar, Selector
from sortition.testing.play import instances, share_of
from sortition.testing.violation import require
from sortition.testing.worlds import ScriptedWorld


def selection_cost(selector: Selector[Any], n_clients: int) -> tuple[float, float]:
    """Processor time of the cheapest, and peak memory of the dearest, of a few rounds; without the world's own."""
    world = ScriptedWorld(n_clients)
    registrar = Registrar(selector, world.population, horizon=4)
    tracemalloc.start()
    try:
        seconds = min(_timed_round(registrar, world, t) for t in range(3))
        return seconds, float(tracemalloc.get_traced_memory()[1])
    finally:  # also where the selector raises: whoever measures next must not find this peak
        tracemalloc.stop()


def _timed_round(registrar: Registrar, world: ScriptedWorld, t: int) -> float:
    """Processor time of one selection, without the world's own."""
    started = time.process_time()
    turn = registrar.begin(share_of(world, 0.3)(t), 20)
    spent = time.process_time() - started
    while turn.question is not None:
        reading = world.measure(turn.question, t)
        started = time.process_time()
        turn.answer(reading)
        spent += time.process_time() - started
    cohort = turn.cohort or Cohort.uniform([])
    registrar.finish(turn, cohort.ids, world.train(cohort, registrar.needs.reports, t))
    return spent


def scales(cls: type[Selector[Any]]) -> None:
    """Time and memory of a selection grow no faster than the number of clients (up to 100,000)."""
    if not cls.scales:
        return
    for selector in instances(cls):
        if any(signal.of == "pairs" for signal in selector.needs.asks):
            continue  # a table of all pairs is quadratic by its nature
        spent = {n: selection_cost(selector, n) for n in (10_000, 100_000)}
        seconds, peak = (spent[100_000][i] / max(spent[10_000][i], floor) for i, floor in ((0, 5e-3), (1, 2**20)))
        parameters = selector.parameters()
        require(cls, seconds < 40, f"takes {seconds:.0f} × the time for 10 × the clients, with {parameters}.")
        require(cls, peak < 20, f"takes {peak:.0f} × the memory for 10 × the clients, with {parameters}.")
