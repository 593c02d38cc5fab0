"""What ``sortition data`` shows before any run: a split, an availability mode over it, and their charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sortition import availability, data
from sortition.availability import Availability
from sortition.availability._pictures import availability_chart
from sortition.core.streams import stream
from sortition.data import Dataset, partitions
from sortition.data.charts import partition_gallery, write

Parameters = dict[str, Any]
SHOWN = 120  # rounds of a mode in the gallery
CLIENTS = 50  # of the gallery's federations


def split(dataset: Dataset, partition: str, clients: int, seed: int, parameters: Parameters) -> partitions.Partition:
    """The data set's own split where it comes with one."""
    if dataset.clients is not None:
        return partitions.Partition(dataset.clients, dataset.client_notes)
    return partitions.split_dataset(partition, dataset, clients, stream(seed, "partition"), **parameters)


def mode_over(
    mode: str, dataset: Dataset, parts: partitions.Partition, seed: int, parameters: Parameters
) -> Availability:
    """The availability mode over the clients of this split."""
    counts = parts.label_counts(dataset.y_train, dataset.classes)
    return availability.make(mode, clients=len(parts), seed=seed, sizes=parts.sizes, label_counts=counts, **parameters)


def masks(mode: Availability, rounds: int) -> np.ndarray:
    """(rounds, clients) who is reachable when."""
    return np.stack([mode.at(t) for t in range(rounds)])


def statistics(mode: Availability, reachable: np.ndarray) -> list[str]:
    """Lines on how many clients are reachable a round, how often each is, and the mode's notes."""
    counts, shares = reachable.sum(axis=1), reachable.mean(axis=0)
    return [
        f"reachable per round   {counts.min()} … {counts.max()}, mean {counts.mean():.1f} of {reachable.shape[1]}",
        f"share of rounds       {shares.min():.2f} … {shares.max():.2f} per client, mean {shares.mean():.2f}",
        *(f"note                  {note}" for note in mode.notes),
    ]


def gallery(name: str, folder: Path, seed: int) -> list[Path]:
    """Draw every partition of a data set and every availability mode; the files."""
    import altair as alt

    dataset = data.load(name)
    aliases = {target: alias for alias, target in availability.ALIASES.items()}
    charts = []
    for name in availability.discover():
        title = f"{name} ({aliases[name]})" if name in aliases else name
        charts.append(availability_chart(_sorted_masks(_gallery_mode(name, dataset, seed)), title))
    return [
        Path(write(partition_gallery(dataset, seed=seed), folder / "partitions.png")),
        Path(write(alt.concat(*charts, columns=3, spacing=24), folder / "availability.png")),
    ]


def _gallery_mode(name: str, dataset: Dataset, seed: int) -> Availability:
    parts = split(dataset, "dirichlet-sizes" if name.endswith("data-first") else "labels", CLIENTS, seed, {})
    return mode_over(name, dataset, parts, seed, {"matrix": _shifts(CLIENTS)} if name == "trace" else {})


def _sorted_masks(mode: Availability) -> np.ndarray:
    """Masks with clients of similar rates side by side; the first round's rates count most."""
    rates = [mode.rates(t) for t in range(SHOWN)]
    keys = np.stack([np.zeros(mode.clients) if rate is None else rate for rate in reversed(rates)])
    return masks(mode, SHOWN)[:, np.lexsort(keys)]


def _shifts(clients: int) -> list[list[int]]:
    """A trace to look at: three shifts of eight rounds, one after the other."""
    return [[int(client * 3 // clients == t // 8) for client in range(clients)] for t in range(24)]
