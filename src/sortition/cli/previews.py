"""What ``sortition data`` shows before any run: a split, an availability mode over it, and the devices of a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sortition import availability
from sortition.availability import Availability
from sortition.core.errors import unknown
from sortition.core.streams import stream
from sortition.data import Dataset, partitions
from sortition.results.table import Table
from sortition.studies.types import TomlTable

if TYPE_CHECKING:
    from sortition.simulation import Setup
    from sortition.simulation.device_description import DeviceDescription
    from sortition.studies.config import RunConfig


def split_dataset(
    dataset: Dataset, partition: str, clients: int, seed: int, parameters: TomlTable
) -> partitions.Partition:
    """Split a data set over clients; one that comes split keeps its own clients."""
    if dataset.clients is not None:
        return partitions.Partition(dataset.clients, dataset.client_notes)
    return partitions.split_dataset(partition, dataset, clients, stream(seed, "partition"), **parameters)


def build_mode(
    mode: str, dataset: Dataset, parts: partitions.Partition, seed: int, parameters: TomlTable
) -> Availability:
    """Return the availability mode over the clients of this split."""
    counts = parts.label_counts(dataset.y_train, dataset.classes)
    return availability.make(mode, clients=len(parts), seed=seed, sizes=parts.sizes, label_counts=counts, **parameters)


def reachable_by_round(mode: Availability, rounds: int) -> np.ndarray:
    """Return who is reachable when, (rounds, clients)."""
    return np.stack([mode.at(t) for t in range(rounds)])


def availability_lines(mode: Availability, reachable: np.ndarray) -> list[str]:
    """Return lines on how many clients are reachable a round, how often each is, and the mode's notes."""
    counts = reachable.sum(axis=1)  # reachable clients of each round
    shares = reachable.mean(axis=0)  # rounds in which each client is reachable
    return [
        f"reachable per round   {counts.min()} … {counts.max()}, mean {counts.mean():.1f} of {reachable.shape[1]}",
        f"share of rounds       {shares.min():.2f} … {shares.max():.2f} per client, mean {shares.mean():.2f}",
        *(f"note                  {note}" for note in mode.notes),
    ]


def first_run(study: Path, sets: Sequence[str], setting: str | None, seed: int | None) -> RunConfig:
    """Return the first run of a study, or of one of its settings, under a seed."""
    from sortition.reproduction.preset import PRESET_KEYS
    from sortition.studies.plan import plan, read

    table = {key: value for key, value in read(study).items() if key not in PRESET_KEYS}
    study_plan = plan(table, sets, subject=study.name)
    name = setting or study_plan.settings[0]
    if name not in study_plan.settings:
        raise unknown("setting", name, study_plan.settings, study.name)
    config = next(run for run in study_plan.runs if run.setting == name)
    if seed is None:
        return config
    return config.model_copy(update={"seed": seed})


def build_setup(config: RunConfig) -> Setup:
    """Return what a run plays."""
    from sortition.studies.build_federation import setup

    return setup(config)[1]


def device_table(described: DeviceDescription, title: str, deadline: float) -> Table:
    """Return quantiles of the devices as a table; notes say how speed goes with data and who misses the deadline."""
    n_clients = described.speed.size
    columns = ["", "smallest", "10 %", "25 %", "median", "75 %", "90 %", "largest"]
    table = Table(f"{title}: {n_clients} devices", columns)
    for name, quantiles in described.quantiles().items():
        table.rows.append([name, *(_number_text(value) for value in quantiles.tolist())])
    for kind, correlation in described.correlations().items():
        if not math.isnan(correlation):
            table.notes.append(f'Rank correlation of slowness with "{kind}": {correlation:.2f}.')
    if math.isfinite(deadline):
        in_time = int((described.seconds <= deadline).sum())
        table.notes.append(f"{in_time} of {n_clients} clients train within the deadline of {deadline:g} s.")
    table.notes += described.notes
    return table


def _number_text(value: float) -> str:
    """Return a number with three digits or more, and no exponent where it is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
