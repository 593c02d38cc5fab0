"""The pictures of docs/data.md: every partition of a data set, and every availability mode over it.

python benchmarks/galleries.py docs/images
"""

from __future__ import annotations

import argparse
from pathlib import Path

import altair as alt
import numpy as np

from sortition import availability, data
from sortition.availability import Availability
from sortition.availability._pictures import availability_chart
from sortition.cli import previews
from sortition.data import Dataset
from sortition.data.charts import partition_gallery, write

ROUNDS = 120  # of a mode that are drawn
CLIENTS = 50


def draw(name: str, folder: Path, seed: int) -> list[Path]:
    """Draw every partition of a data set and every availability mode, and return the files."""
    dataset = data.load(name)
    alias_by_mode = {mode: alias for alias, mode in availability.ALIASES.items()}
    charts = []
    for mode_name in availability.discover():
        title = f"{mode_name} ({alias_by_mode[mode_name]})" if mode_name in alias_by_mode else mode_name
        charts.append(availability_chart(_sorted_masks(_mode(mode_name, dataset, seed)), title))
    return [
        write(partition_gallery(dataset, seed=seed), folder / "partitions.png"),
        write(alt.concat(*charts, columns=3, spacing=24), folder / "availability.png"),
    ]


def _mode(name: str, dataset: Dataset, seed: int) -> Availability:
    partition = "dirichlet-sizes" if name.endswith("data-first") else "labels"
    parts = previews.split_dataset(dataset, partition, CLIENTS, seed, {})
    parameters = {"matrix": _shifts()} if name == "trace" else {}
    return previews.build_mode(name, dataset, parts, seed, parameters)


def _sorted_masks(mode: Availability) -> np.ndarray:
    """Return masks with clients of similar rates side by side; the first round's rates count most."""
    rates = [mode.rates(t) for t in range(ROUNDS)]
    keys = np.stack([np.zeros(mode.clients) if rate is None else rate for rate in reversed(rates)])
    return previews.reachable_by_round(mode, ROUNDS)[:, np.lexsort(keys)]


def _shifts() -> list[list[int]]:
    """Return a trace to look at: three shifts of eight rounds, one after the other."""
    return [[int(client * 3 // CLIENTS == t // 8) for client in range(CLIENTS)] for t in range(24)]


def main() -> None:
    """Write partitions.png and availability.png into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where partitions.png and availability.png go")
    parser.add_argument("--data", default="fashion-mnist", help="the data set that is split")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of all draws")
    arguments = parser.parse_args()
    for file in draw(arguments.data, arguments.folder, arguments.seed):
        print(file)


if __name__ == "__main__":
    main()
