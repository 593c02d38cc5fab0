"""How suite 2's runs by the clock serve the clients they serve worst: ``python -m campaign microcosm clients``.

The suite's rows hold accuracies on the test set alone. This plays the runs of uniform sampling and of Microcosm in the
held-out cells of the track *seconds* once more, with the suite's own seeds, and tests the last model within the cell's
time on every client. A digest tells whether a run chose the same clients as the stored one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import sem
from scipy.stats import t as student_t

from sortition.core.arrays import Floats, worst_tenth
from sortition.core.round_record import RoundRecord
from sortition.leaderboard.entrants import BASELINE, Entrant, load_configurations
from sortition.leaderboard.figures import Curve
from sortition.leaderboard.run_rows import choices_digest, read_cells
from sortition.leaderboard.run_seconds import estimated_seconds
from sortition.leaderboard.tracks import TrackCell, TrackSuite, load_tracks
from sortition.learning.vector import Vector
from sortition.simulation import Simulation, run
from sortition.studies.build_federation import setup
from sortition.studies.runs.run_task import in_one_thread

METHOD = "microcosm"
STORED = Path(__file__).parents[1] / "docs" / "leaderboard-2"


@dataclass(frozen=True)
class ClientOutcome:
    """What one run of the suite came to at its clients.

    Attributes:
        cell: the federation.
        method: the label of the row.
        seed: of the suite.
        area: mean test accuracy over the cell's time, in %.
        worst: mean accuracy of the worst tenth of the clients at the end of the time, in %.
        mean: mean accuracy of all clients then, in %.
        same_choices: whether the run chose whom the suite's stored run chose; None where none is stored.
        seconds: of computing.
    """

    cell: str
    method: str
    seed: int
    area: float
    worst: float
    mean: float
    same_choices: bool | None
    seconds: float


@dataclass(frozen=True)
class SuiteRun:
    """A run of the suite that is to be played."""

    cell: TrackCell
    entrant: Entrant
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from others."""
        return (self.cell.name, self.entrant.label, self.seed)


def suite_runs(suite: TrackSuite, cells: Sequence[str], seeds: int) -> Iterator[SuiteRun]:
    """Yield the runs of both methods in these cells, or in all held-out cells of the track, the cheapest first."""
    entrants = {entrant.label: entrant for entrant in load_configurations().defaults()}
    held_out = suite.cells("seconds", "held-out")
    for cell in sorted(held_out, key=lambda cell: estimated_seconds(suite, cell, BASELINE)):
        if cells and cell.name not in cells:
            continue
        for seed in suite.seeds_of(cell)[:seeds]:
            for label in (BASELINE, METHOD):
                yield SuiteRun(cell, entrants[label], seed)


def played(suite: TrackSuite, suite_run: SuiteRun, stored_choices: str | None) -> ClientOutcome:
    """Play one run, and test the last model within the cell's time on every client."""
    begun = time.process_time()
    cell = suite_run.cell
    plan = suite.study(cell, [suite_run.entrant.entry], [suite_run.seed])
    _, prepared = setup(plan.runs[0])
    budget = float(cell.seconds or 0.0)
    records: list[RoundRecord] = []
    params: Vector = prepared.world.initial

    def keep(simulation: Simulation, record: RoundRecord) -> None:
        nonlocal params
        records.append(record)
        if record["clock"] is not None and record["clock"] <= budget:
            params = simulation.params

    with in_one_thread():
        run(prepared, on_record=keep)
        client_accuracies = 100 * prepared.world.evaluator.client_scores(params)
    clocks = []
    accuracies = []
    for record in records:
        test_scores = record.get("test")
        if test_scores:
            clocks.append(record["clock"])
            accuracies.append(test_scores["accuracy"])
    curve = Curve(position=np.array(clocks), accuracy=np.array(accuracies), budget=budget, by_time=True)
    same_choices = None
    if stored_choices is not None:
        same_choices = choices_digest(records) == stored_choices
    return ClientOutcome(
        cell=cell.name,
        method=suite_run.entrant.label,
        seed=suite_run.seed,
        area=100 * curve.area(),
        worst=float(worst_tenth(client_accuracies).mean()),
        mean=float(client_accuracies.mean()),
        same_choices=same_choices,
        seconds=time.process_time() - begun,
    )


def read(path: Path) -> list[ClientOutcome]:
    """Return the outcomes of a file."""
    if not path.exists():
        return []
    return [ClientOutcome(**json.loads(line)) for line in path.read_text().splitlines()]


def table(outcomes: Sequence[ClientOutcome]) -> str:
    """Return the worst tenth of uniform and the gains over it, by cell and in the mean over cells, in Markdown."""
    by_key = {(outcome.cell, outcome.method, outcome.seed): outcome for outcome in outcomes}
    lines = [
        "| cell | seeds | uniform, worst tenth | gain, worst tenth | gain, mean of clients |",
        "|---|---|---|---|---|",
    ]
    gains_by_cell: list[tuple[float, float]] = []
    for cell in dict.fromkeys(outcome.cell for outcome in outcomes):
        pairs = [
            (by_key[cell, METHOD, outcome.seed], outcome)
            for outcome in outcomes
            if (outcome.cell, outcome.method) == (cell, BASELINE) and (cell, METHOD, outcome.seed) in by_key
        ]
        if not pairs:
            continue
        worst_gain = float(np.mean([ours.worst - base.worst for ours, base in pairs]))
        mean_gain = float(np.mean([ours.mean - base.mean for ours, base in pairs]))
        gains_by_cell.append((worst_gain, mean_gain))
        worst_of_uniform = float(np.mean([base.worst for _, base in pairs]))
        lines.append(f"| `{cell}` | {len(pairs)} | {worst_of_uniform:.1f} | {worst_gain:+z.1f} | {mean_gain:+z.1f} |")
    if gains_by_cell:
        worst_gains, mean_gains = np.array(gains_by_cell).T
        cells = f"mean of {len(gains_by_cell)} cells"
        lines.append(f"| {cells} | | | {_with_interval(worst_gains)} | {_with_interval(mean_gains)} |")
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    n_same = sum(outcome.same_choices is True for outcome in outcomes)
    lines += ["", f"{len(outcomes)} runs, {n_same} with the stored choices, {minutes:.1f} core-minutes"]
    return "\n".join(lines)


def _with_interval(gains: Floats) -> str:
    """Return the mean over cells, with its 95 % interval by Student's t where there are several."""
    if gains.size < 2:
        return f"{gains.mean():+z.1f}"
    low, high = student_t.interval(0.95, gains.size - 1, loc=gains.mean(), scale=sem(gains))
    return f"{gains.mean():+z.1f} [{low:+z.1f}, {high:+z.1f}]"


def report(path: Path, cells: Sequence[str], *, seeds: int, show: bool) -> int:
    """Play what the file lacks of the first ``seeds``, unless it is only to be shown, and print the table."""
    suite = load_tracks()
    if not show:
        outcomes = read(path)
        done = {(outcome.cell, outcome.method, outcome.seed) for outcome in outcomes}
        stored = _stored_choices(suite)
        with path.open("a") as lines:
            for suite_run in suite_runs(suite, cells, seeds):
                if suite_run.key not in done:
                    outcome = played(suite, suite_run, stored.get(suite_run.key))
                    lines.write(json.dumps(asdict(outcome)) + "\n")
                    lines.flush()
    print(table(read(path)))
    return 0


def _stored_choices(suite: TrackSuite) -> dict[tuple[str, str, int], str]:
    """Return the digest of the choices of every stored run, by cell, label and seed."""
    rows = read_cells(suite, STORED, suite.cells("seconds", "held-out"))
    columns = rows.filter(pl.col("choices").is_not_null()).select("cell", "label", "seed", "choices")
    return {(cell, label, seed): choices for cell, label, seed, choices in columns.iter_rows()}
