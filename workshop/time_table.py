"""The table of docs/time.md: every method under three paces, by steps and by seconds.

``python -m workshop time`` plays all runs (some minutes on one core) and writes the table; the strips of
:mod:`workshop.flight_strips` are drawn, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from sortition import selectors
from sortition.simulation import run
from sortition.simulation.simulation import Simulation
from sortition.studies.build_federation import setup
from sortition.studies.config import RunConfig
from sortition.studies.plan import plan
from workshop import DOCS
from workshop.marks import fill_marks

SEEDS = (0, 1, 2)
TARGET = 0.8
SMOOTH = 5  # steps whose mean accuracy must reach the target
ROUNDS = 300
WITHOUT_DEADLINE = {"fedcs": "fedcs, without its deadline"}  # what the table calls them
LEFT_OUT = ("greedyfed",)  # its server evaluates many models a step, and takes longer than all the others together
PACES: dict[str, dict[str, Any]] = {
    "rounds": {},
    "late": {"quorum": 0.6, "late": "use"},
    "buffered": {"kind": "buffered", "concurrency": 10, "buffer": 5},
}
FEDERATION: dict[str, Any] = {
    "rounds": ROUNDS,
    "cohort": 10,
    "data": {"name": "digits", "clients": 100, "partition": {"name": "dirichlet", "alpha": 0.3}},
    "model": "softmax",
    "local": {"epochs": 2, "batch": 10, "lr": 0.05},
    "devices": {"speed": 20.0, "speed_spread": 1.0, "slow": "high labels", "correlation": 0.7},
}


@dataclass(frozen=True)
class Outcome:
    """How one run went.

    Attributes:
        steps: until the target was reached; infinite where it was not.
        seconds: simulated, until then.
        accuracy: the mean of the last steps that were played.
    """

    steps: float
    seconds: float
    accuracy: float


def play_until_target(name: str, pace: str, seed: int) -> Outcome:
    """Play a method until it reaches the target."""
    table = {**FEDERATION, "pace": PACES[pace], "method": [{"name": name}], "seeds": [seed]}
    config: RunConfig = plan(table).runs[0]
    accuracies: list[float] = []
    simulation = run(setup(config)[1], on_record=_stop_at_target(accuracies))
    accuracy = float(np.mean(accuracies[-SMOOTH:]))
    if accuracy < TARGET:
        return Outcome(math.inf, math.inf, accuracy)
    return Outcome(len(accuracies), simulation.clock, accuracy)


def _stop_at_target(accuracies: list[float]) -> Callable[[Simulation, Any], bool]:
    """Return what collects accuracies and ends a run that has reached the target."""

    def on_record(_: Simulation, record: Any) -> bool:
        accuracies.append(record["test"]["accuracy"])
        return len(accuracies) >= SMOOTH and float(np.mean(accuracies[-SMOOTH:])) >= TARGET

    return on_record


def write_table() -> None:
    """Play all methods, and write the table into docs/time.md."""
    began = time.process_time()
    outcomes: dict[str, dict[str, list[Outcome]]] = {}
    for name in (name for name in selectors.discover() if name not in LEFT_OUT):
        outcomes[name] = {pace: [play_until_target(name, pace, seed) for seed in SEEDS] for pace in PACES}
        print(_row(name, outcomes[name]), f"{time.process_time() - began:.0f} s", flush=True)
    page = DOCS / "time.md"
    page.write_text(fill_marks(page.read_text(), {"methods by time": table_markdown(outcomes)}))


def table_markdown(outcomes: dict[str, dict[str, list[Outcome]]]) -> str:
    """Return the table in Markdown, methods by their seconds under the fastest of the paces."""
    heading = "| method | " + " | ".join(f"{pace}: steps | seconds" for pace in PACES) + " |"
    rule = "|---|" + "---:|" * (2 * len(PACES))
    names = sorted(outcomes, key=lambda name: (min(_seconds(runs) for runs in outcomes[name].values()), name))
    return "\n".join([heading, rule, *(_row(name, outcomes[name]) for name in names)])


def _row(name: str, runs_by_pace: dict[str, list[Outcome]]) -> str:
    cells = []
    for runs in runs_by_pace.values():
        steps = median(run.steps for run in runs)
        seconds = _seconds(runs)
        if math.isinf(steps):
            cells += [f"– ({median(run.accuracy for run in runs):.0%})", "–"]
        else:
            cells += [f"{steps:g}", f"{seconds:.0f}"]
    title = WITHOUT_DEADLINE.get(name, name)
    return f"| [{title}](methods/{name}.md) | " + " | ".join(cells) + " |"


def _seconds(runs: list[Outcome]) -> float:
    return median(run.seconds for run in runs)
