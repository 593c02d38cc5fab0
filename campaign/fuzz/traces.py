"""Availability traces: CSV, Parquet, npy and matrices."""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import numpy as np
import polars as pl

from campaign.fuzz import mutations
from campaign.fuzz.folders import npz
from campaign.fuzz.loop import Target
from campaign.fuzz.scratch import scratch
from sortition import availability

CLIENTS = 6
CELLS = ("0", "-1", "7", "1.5", "nan", "", "on", "OFF", "true", "x", "1e400", "2024-01-01", "2024-01-01T00:00:00Z",
         "9" * 400, '"', "2024-13-45", "-0", "inf", "é", "0x1", "null")  # fmt: skip
HEADS = ("client_id,start,end", "client_id,time,state", "client_id;start;end", "time,state", "client_id,start", "")


@functools.cache
def parquet() -> tuple[bytes, ...]:
    """Two small files."""
    made = []
    for columns in ({"start": [0.0, 1.0], "end": [2.0, 5.0]}, {"time": [0, 3], "state": ["on", "off"]}):
        buffer = io.BytesIO()
        pl.DataFrame({"client_id": [0, 3], **columns}).write_parquet(buffer)
        made.append(buffer.getvalue())
    return tuple(made)


def text(rng: random.Random) -> bytes:
    """A table with some odd cells, sometimes with other damage."""
    rows = [rng.choice(HEADS[:2]) if rng.random() < 0.9 else rng.choice(HEADS)]
    for _ in range(rng.randrange(6)):
        cells = [str(rng.randrange(CLIENTS)), str(rng.randrange(9)), rng.choice(("1", "0", "5", "12"))]
        if rng.random() < 0.4:
            cells[rng.randrange(3)] = rng.choice(CELLS)
        rows.append(",".join(cells[: rng.choice((3, 3, 3, 3, 2))]))
    data = ("\n".join(rows) + "\n").encode()
    return mutations.raw(rng, data, rng.randrange(1, 3)) if rng.random() < 0.2 else data


def numbers(rng: random.Random) -> bytes:
    """An npy or npz file."""
    matrix = np.array([[rng.randrange(2) for _ in range(CLIENTS)] for _ in range(4)])
    buffer = io.BytesIO()
    np.savez(buffer, matrix=matrix)
    data = npz(rng, buffer.getvalue())
    if rng.random() < 0.5:
        buffer = io.BytesIO()
        np.save(buffer, matrix.astype(rng.choice((bool, float, np.int8))))
        data = buffer.getvalue()
    return mutations.raw(rng, data, rng.randrange(1, 3)) if rng.random() < 0.5 else data


def play(rng: random.Random) -> int:
    """One trace, read and looked up."""
    kind = rng.choice((".csv", ".csv", ".csv", ".npy", ".npz", ".parquet", "matrix"))
    options: dict[str, Any] = {"step": rng.choice((1.0, 0.5, 1e-9)), "after": rng.choice(("loop", "hold", "end"))}
    if kind == "matrix":
        options["matrix"] = mutations.tree(rng, [[0, 1] * 3, [1] * CLIENTS], rng.randrange(3))
    else:
        path = scratch() / f"trace{kind}"
        make = {".csv": text, ".parquet": lambda rng: mutations.raw(rng, rng.choice(parquet()), rng.randrange(1, 4))}
        path.write_bytes(make.get(kind, numbers)(rng))
        options["path"] = str(path)
    found = availability.make("trace", clients=CLIENTS, seed=0, **options)
    for t in (0, 3, 10**6):
        found.at(t)
    return 1


TARGET = Target("traces", play)
