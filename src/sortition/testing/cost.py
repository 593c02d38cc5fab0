"""What a selection costs as the number of clients grows."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from sortition.core import Cohort, Registrar, Selector
from sortition.testing.play import some
from sortition.testing.worlds import ScriptedWorld


def cost(selector: Selector[Any], n_clients: int) -> tuple[float, float]:
    """Processor time of the cheapest, and peak memory of the dearest, of a few rounds; without the world's own."""
    world = ScriptedWorld(n_clients)
    registrar = Registrar(selector, world.population, horizon=4)
    seconds = []
    tracemalloc.start()
    for t in range(3):
        started = time.process_time()
        turn = registrar.begin(some(world, 0.3)(t), 20)
        spent = time.process_time() - started
        while turn.question is not None:
            reading = world.measure(turn.question, t)
            started = time.process_time()
            turn.answer(reading)
            spent += time.process_time() - started
        seconds.append(spent)
        cohort = turn.cohort or Cohort.uniform([])
        registrar.finish(turn, cohort.ids, world.train(cohort, registrar.needs.reports, t))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), float(peak)
