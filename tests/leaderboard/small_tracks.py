"""A suite of throw-away cells in the form of suite 2, and results that were made up or played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sortition.leaderboard import run_rows
from sortition.leaderboard.entrants import Configurations, Entrant
from sortition.leaderboard.tracks import TrackSuite, load_tracks

TEXT = """
name = "small"
seeds = 3
cnn_seeds = 3
longest_run = 60
most_rounds = 3

[base.digits]
rounds = 6
cohort = 4
evaluate_every = 2
data = { name = "digits", clients = 20, subset = { train = 400, test = 100 } }
model = { name = "softmax" }
local = { steps = 2, batch = 10, lr = 0.1 }

[[cell]]
name = "r-tuning"
track = "rounds"
half = "tuning"
family = "labels"
base = "digits"
study = { data = { partition = { name = "shards", per_client = 2 } } }

[[cell]]
name = "r-first"
track = "rounds"
half = "held-out"
family = "labels"
base = "digits"
quick = true
study = { data = { partition = { name = "dirichlet", alpha = 0.3 } } }

[[cell]]
name = "r-second"
track = "rounds"
half = "held-out"
family = "features"
base = "digits"
study = { data = { partition = "iid", styles = ["plain", "inverted"] } }

[[cell]]
name = "s-first"
track = "seconds"
half = "held-out"
family = "labels"
base = "digits"
seconds = 300.0
quick = true
study = { data = { partition = { name = "dirichlet", alpha = 0.3 } }, devices = { speed = 1.0, speed_spread = 1.0 } }
"""
CONFIGURATIONS = Configurations(alternatives={"power-of-choice": [{"d": 6}, {"variant": "rpow-d"}]})
METHODS = [Entrant("uniform", "uniform"), Entrant("power-of-choice", "power-of-choice"), Entrant("f3ast", "f3ast")]


def write_suite(folder: Path) -> Path:
    """Write the suite's file and return its path."""
    path = folder / "small.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def small_suite(folder: Path) -> TrackSuite:
    """Return the suite of throw-away cells."""
    return load_tracks(write_suite(folder))


def made_up_suite(folder: Path, cells: int = 12, *, timed: bool = False) -> TrackSuite:
    """Return a suite of many cells for statistics, over four data sets and three families."""
    head = TEXT.partition("[[cell]]")[0]
    parts = [head]
    for data in ("digits", "mnist", "fashion-mnist"):
        base = head.partition("[base.digits]")[2].replace('"digits"', f'"{data}"')
        parts.append(f"[base.{data}-set]{base}")
    bases = ("digits-set", "mnist-set", "fashion-mnist-set")
    families = ("labels", "sizes", "noise")
    for number in range(cells):
        seconds = "seconds = 100.0" if timed else ""
        parts.append(
            f"""
[[cell]]
name = "cell-{number:02}"
track = "{"seconds" if timed else "rounds"}"
half = "held-out"
family = "{families[number % 3]}"
base = "{bases[number // 4 % 3]}"
{seconds}
study = {{ data = {{ partition = "iid" }} }}
"""
        )
    path = folder / "made-up.toml"
    path.write_text("\n".join(parts), encoding="utf-8")
    return load_tracks(path)


def made_up_rows(
    suite: TrackSuite, levels: Mapping[str, Sequence[float]], *, noise: float = 0.0, failed: Sequence[str] = ()
) -> pl.DataFrame:
    """Return rows whose accuracy in a cell is constant: method → level by cell."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for position, cell in enumerate(suite.cell):
        for label, by_cell in levels.items():
            for seed in suite.seeds_of(cell):
                level = by_cell[position] + noise * rng.standard_normal()
                times = [10.0, 40.0, 90.0]
                rows.append(
                    {
                        "suite": suite.version,
                        "track": cell.track,
                        "cell": cell.name,
                        "row": label,
                        "label": label,
                        "configuration": f'{{"name": "{label}"}}',
                        "information": "public",
                        "seed": seed,
                        "status": run_rows.FAILED if label in failed else run_rows.DONE,
                        "rounds": 6,
                        "clock": 90.0,
                        "evaluated": [2, 4, 6],
                        "clocks": times,
                        "accuracies": [level, level, level],
                        "megabytes": 1.0,
                        "milliseconds": 1.0,
                        "seconds": 1.0,
                    }
                )
    return run_rows.rows_table(rows)
