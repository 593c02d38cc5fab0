"""What ``sortition data`` shows before any run: a split, and an availability mode over it."""

from __future__ import annotations

import numpy as np

from sortition import availability
from sortition.availability import Availability
from sortition.core.streams import stream
from sortition.data import Dataset, partitions
from sortition.studies.types import TomlTable


def split(dataset: Dataset, partition: str, clients: int, seed: int, parameters: TomlTable) -> partitions.Partition:
    """Split a data set over clients; one that comes split keeps its own clients."""
    if dataset.clients is not None:
        return partitions.Partition(dataset.clients, dataset.client_notes)
    return partitions.split_dataset(partition, dataset, clients, stream(seed, "partition"), **parameters)


def mode_over(
    mode: str, dataset: Dataset, parts: partitions.Partition, seed: int, parameters: TomlTable
) -> Availability:
    """Return the availability mode over the clients of this split."""
    counts = parts.label_counts(dataset.y_train, dataset.classes)
    return availability.make(mode, clients=len(parts), seed=seed, sizes=parts.sizes, label_counts=counts, **parameters)


def masks(mode: Availability, rounds: int) -> np.ndarray:
    """Return who is reachable when, (rounds, clients)."""
    return np.stack([mode.at(t) for t in range(rounds)])


def statistics(mode: Availability, reachable: np.ndarray) -> list[str]:
    """Return lines on how many clients are reachable a round, how often each is, and the mode's notes."""
    counts = reachable.sum(axis=1)  # reachable clients of each round
    shares = reachable.mean(axis=0)  # rounds in which each client is reachable
    return [
        f"reachable per round   {counts.min()} … {counts.max()}, mean {counts.mean():.1f} of {reachable.shape[1]}",
        f"share of rounds       {shares.min():.2f} … {shares.max():.2f} per client, mean {shares.mean():.2f}",
        *(f"note                  {note}" for note in mode.notes),
    ]
