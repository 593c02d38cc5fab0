"""The time budgets of suite 2: the median clock of uniform sampling after a cell's rounds, from a run without a test.

The model is trained, since the engine plays whole rounds, but never evaluated: nothing that is read here depends on how
well anything was learnt.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sortition.leaderboard.tracks import SUITE_FILE, TrackCell, TrackSuite, load_tracks

BASELINE = {"name": "uniform"}
DIGITS = 3  # significant ones of a budget


@dataclass(frozen=True)
class DryRun:
    """What uniform sampling takes in one cell, without a test.

    Attributes:
        clock: simulated seconds after the cell's rounds, the median over its seeds.
        cpu: processor seconds of one run, the mean over its seeds; the first one's loading of data included.
    """

    clock: float
    cpu: float


def dry_run(suite: TrackSuite, cell: TrackCell) -> DryRun:
    """Play uniform sampling in a cell for the rounds of its base, without evaluating the model."""
    from sortition.simulation import start
    from sortition.studies import build_federation
    from sortition.studies.runs.run_task import in_one_thread

    unlimited = cell.model_copy(update={"seconds": None})
    clocks = []
    started = time.process_time()
    rounds = int(suite.setting(unlimited)["rounds"])
    with in_one_thread():
        for run in suite.study(unlimited, [BASELINE], suite.seeds_of(cell)).runs:
            setup = replace(build_federation.setup(run)[1], evaluate_every=0)
            simulation = start(setup)
            for _ in range(rounds):
                simulation.play_round()
            clocks.append(simulation.clock)
    return DryRun(clock=statistics.median(clocks), cpu=(time.process_time() - started) / len(clocks))


def round_clock(clock: float) -> float:
    """Return a clock with three significant digits."""
    return float(f"{clock:.{DIGITS}g}")


def with_budget(text: str, name: str, seconds: float) -> str:
    """Return the suite's file with the time budget of one cell."""
    opening = rf'\[\[cell\]\]\nname = "{re.escape(name)}"\n'
    other_keys = r"(?:(?!seconds|\[\[).*\n)*?"
    pattern = re.compile(rf"({opening}{other_keys})(?:seconds = .*\n)?(?=quick|study)")
    changed, count = pattern.subn(rf"\g<1>seconds = {seconds:.1f}\n", text)
    if count != 1:
        raise ValueError(f"the file has {count} places for the budget of {name}")
    return changed


def write_budgets(path: Path = SUITE_FILE, say: Callable[[str], object] = print) -> None:
    """Measure every cell that is judged by time and write its budget into the suite's file."""
    suite = load_tracks(path)
    for cell in suite.cell:
        if cell.is_timed and cell.seconds is None:
            measured = dry_run(suite, cell)
            text = with_budget(path.read_text(encoding="utf-8"), cell.name, round_clock(measured.clock))
            path.write_text(text, encoding="utf-8")
            say(f"{cell.name}: {round_clock(measured.clock):g} s, {measured.cpu:.2f} CPU seconds a run")
