"""Golden records: what a method chose in a scripted world, stored so that a change of behaviour is seen."""

from __future__ import annotations

from typing import TypedDict

from sortition.core import Cohort
from sortition.core.selector import AnySelector
from sortition.testing.play import play, share_of
from sortition.testing.worlds import ScriptedWorld


class CohortRecord(TypedDict):
    """One cohort; weights are rounded to nine digits."""

    ids: list[int]
    weights: list[float]


class GoldenRecord(TypedDict):
    """The cohorts of a method with these parameters, round by round."""

    parameters: dict[str, str]
    cohorts: list[CohortRecord]


def golden_record(cls: type[AnySelector], rounds: int = 10, budget: int = 5, clients: int = 30) -> list[GoldenRecord]:
    """Play some rounds with 70 % of the clients available, for each of the class's examples."""
    world = ScriptedWorld(clients, seed=11)
    records: list[GoldenRecord] = []
    for parameters in cls.examples():
        selector = cls.load(**parameters)
        cohorts = play(selector, world, rounds, budget=budget, available=share_of(world, 0.7), seed=3)
        records.append(
            {
                "parameters": {name: repr(value) for name, value in parameters.items()},
                "cohorts": [_recorded(cohort) for cohort in cohorts],
            }
        )
    return records


def _recorded(cohort: Cohort) -> CohortRecord:
    return {"ids": cohort.ids.tolist(), "weights": [round(float(weight), 9) for weight in cohort.weights]}
