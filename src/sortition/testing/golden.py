"""Golden records: what a method chose in a scripted world, stored so that a change of behaviour is seen."""

from __future__ import annotations

from typing import Any

from sortition.core import Selector
from sortition.testing.play import play, share_of
from sortition.testing.worlds import ScriptedWorld

Records = list[dict[str, Any]]


def golden_record(cls: type[Selector[Any]], rounds: int = 10, budget: int = 5, clients: int = 30) -> Records:
    """For each of the class's examples the cohorts of some rounds with 70 % of the clients available."""
    world = ScriptedWorld(clients, seed=11)
    records = []
    for parameters in cls.examples():
        cohorts = play(cls.load(**parameters), world, rounds, budget=budget, available=share_of(world, 0.7), seed=3)
        rows = [{"ids": c.ids.tolist(), "weights": [round(float(w), 9) for w in c.weights]} for c in cohorts]
        records.append({"parameters": {name: repr(value) for name, value in parameters.items()}, "cohorts": rows})
    return records
