"""``python -m tests.selectors.portable_cohorts``: what every method chooses, to compare processors."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from sortition.core import Population, Signal
from sortition.selectors import discover, find
from sortition.testing import golden_record
from sortition.testing.play import play, share_of
from sortition.testing.worlds import ScriptedWorld

OLD_CORES = {"Prescott", "Nehalem", "Sandybridge"}  # which have no AVX2


class TwinWorld(ScriptedWorld):
    """Clients k and k + N/2 are equal in everything, so that every choice between them is a tie."""

    def __init__(self, n_clients: int = 40) -> None:
        super().__init__(n_clients, seed=5)
        facts = self.population
        self.first = np.arange(n_clients) % (n_clients // 2)
        self.population = Population(
            facts.sizes[self.first],
            facts.label_counts[self.first],
            features=facts.features[self.first],
            groups=facts.groups[self.first],
        )

    def rows(self, signal: Signal, ids: np.ndarray, t: int) -> np.ndarray:
        """The same line of the script for both of a pair."""
        return super().rows(signal, ids if signal.of == "pairs" else self.first[ids], t)


def slow_numpy(core: str = "Prescott") -> dict[str, str]:
    """The setting that turns off those of numpy's loops that this core type would not have."""
    from numpy._core import _multiarray_umath as numpy_core

    found = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__.get(name)]
    newer = [name for name in found if "512" in name or name == "X86_V4"]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(found if core in OLD_CORES else newer)} if core != "SkylakeX" else {}


def twin_cohorts(name: str) -> list[Any]:
    """The cohorts of a world in which everything ties, for each example of a method."""
    world = TwinWorld()
    runs = []
    for parameters in find(name).examples():
        cohorts = play(find(name).load(**parameters), world, 8, budget=5, available=share_of(world, 0.7), seed=1)
        runs.append([(c.ids.tolist(), [round(float(w), 6) for w in c.weights]) for c in cohorts])
    return runs


if __name__ == "__main__":
    json.dump({name: [golden_record(find(name)), twin_cohorts(name)] for name in discover()}, sys.stdout)
