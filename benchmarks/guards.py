"""What guards cost: the time of one selection with each of them, against the same selection with none.

    python benchmarks/guards.py [--clients 1000000] [--rounds 9]

The selector asks everybody for the loss and takes the largest; the cohort is 100, ten thousand owners run the clients.
Median over the rounds, in milliseconds of CPU; answers are synthesised beforehand. ``join`` is what taking in a
population costs, once.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from sortition.core import LOSS, Cohort, Guards, Measure, Needs, Population, Registrar, Selector, State, method, stream
from sortition.core.questions import Reading

OFF = {"bound": 0, "norm": 0}
CASES = {
    "none": OFF,
    "defaults": {},
    "quarantine": {**OFF, "quarantine": 5, "strikes": 1},
    "winsorise": {**OFF, "winsorise": 3.0},
    "size_cap": {**OFF, "size_cap": 5.0},
    "explore": {**OFF, "explore": 0.1},
    "quota": {**OFF, "quota": 2},
    "minimum": {**OFF, "minimum": 10},
    "all": {"quarantine": 5, "strikes": 1, "winsorise": 3.0, "size_cap": 5.0, "explore": 0.1, "quota": 2, "minimum": 9},
}


@method
class Largest(Selector[State]):
    """Asks everybody and takes the largest losses."""

    @property
    def needs(self):
        """The loss."""
        return Needs(reads=("sizes",), asks=(LOSS,))

    def select(self, state, round):
        """One question to all."""
        loss = yield Measure(LOSS, round.available)
        return Cohort.by_size(loss.largest(round.budget), round.population.sizes)


def measure(guards: Guards, clients: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a selection, and of a join."""
    rng = stream(0, "benchmark")
    sizes = np.floor(rng.lognormal(4.0, 0.8, clients)).astype(np.int64) + 5
    population = Population(sizes, groups=rng.integers(0, min(10_000, clients), clients))
    registrar = Registrar(Largest(), population, guards=guards)
    started = time.process_time()
    registrar.join(population)
    joined = time.process_time() - started
    everybody, spent = np.arange(clients), []
    losses = rng.random((2, clients)) + 0.1
    for t in range(rounds):
        started = time.process_time()
        turn = registrar.begin(everybody, 100)
        paused = 0.0
        while turn.question is not None:
            waiting = time.process_time()
            reading = Reading(turn.question.ids, losses[t % 2][turn.question.ids])
            paused += time.process_time() - waiting
            turn.answer(reading)
        spent.append(time.process_time() - started - paused)
        registrar.finish(turn)
    return 1000 * statistics.median(spent), 1000 * joined


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{options.clients:,} clients\n\n| guards | selection, ms | join, ms |\n|---|---|---|")
    for case, fields in CASES.items():
        selection, joined = measure(Guards(**fields), options.clients, options.rounds)
        print(f"| {case} | {selection:.1f} | {joined:.1f} |", flush=True)


if __name__ == "__main__":
    main()
