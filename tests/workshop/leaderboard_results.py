"""Made-up results on all cells of suite 2, for tests of its page: no run, and no claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sortition.leaderboard import run_rows
from sortition.leaderboard.entrants import Configurations, Entrant
from sortition.leaderboard.tracks import MAIN_TRACKS, TrackCell, TrackSuite
from sortition.leaderboard.tuning import SEEDS, tuning_cells


def made_up_results(suite: TrackSuite, configurations: Configurations, *, rows: int | None = None) -> pl.DataFrame:
    """Return runs of the default rows everywhere, and of all configurations where they are tuned or chosen."""
    rng = np.random.default_rng(11)
    table: list[dict[str, Any]] = []
    defaults = configurations.defaults()[:rows]
    for default in defaults:
        skill = 0.0 if default.label == "uniform" else rng.normal(0, 0.04)
        for cell in suite.cell:
            table += [_run(suite, cell, default, seed, skill, rng) for seed in suite.seeds_of(cell)]
        for alternative in configurations.candidates(default)[1:]:
            for track in MAIN_TRACKS:
                for cell in tuning_cells(suite, track):
                    table += [_run(suite, cell, alternative, seed, skill + 0.01, rng) for seed in range(SEEDS)]
                for cell in suite.cells(track, "held-out"):
                    table += [_run(suite, cell, alternative, seed, skill + 0.01, rng) for seed in suite.seeds_of(cell)]
    return run_rows.rows_table(table)


def _run(
    suite: TrackSuite, cell: TrackCell, entrant: Entrant, seed: int, skill: float, rng: np.random.Generator
) -> dict[str, Any]:
    rounds = int(suite.base[cell.base]["rounds"])
    evaluated = list(range(4, rounds + 1, 4))
    budget = cell.seconds or float(rounds)
    position = np.array(evaluated) / rounds
    top = 0.7 + skill + rng.normal(0, 0.01)
    accuracies = top * (1 - np.exp(-4 * position)) + rng.normal(0, 0.01, position.size)
    return {
        "suite": suite.version,
        "track": cell.track,
        "cell": cell.name,
        "row": entrant.row,
        "label": entrant.label,
        "configuration": entrant.configuration,
        "information": entrant.information,
        "seed": seed,
        "status": run_rows.DONE,
        "rounds": rounds,
        "clock": budget,
        "evaluated": evaluated,
        "clocks": (position * budget).tolist(),
        "accuracies": accuracies.tolist(),
        "megabytes": 3.0,
        "milliseconds": 1.0,
        "seconds": 1.0,
    }
