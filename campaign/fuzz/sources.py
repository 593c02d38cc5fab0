"""What ``advise`` and ``replay`` read: profiles, tables of counts, run folders. And own data: LEAF's JSON, tables."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import numpy as np
import polars as pl
import tomli_w

from campaign.fuzz import mutations
from campaign.fuzz.folders import damaged, npz, sound
from campaign.fuzz.loop import Target
from campaign.fuzz.scratch import scratch
from sortition.advice.read_description import known_federation
from sortition.advice.replay import replay
from sortition.core import import_policy
from sortition.data.natural import from_leaf, from_table

PROFILE = {
    "cohort": 2,
    "clients": 5,
    "rounds": 4,
    "labels": 3,
    "dropout": 0.1,
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "availability": {"name": "always"},
    "limits": {"label_counts": True, "traffic": 2.0},
}
WORDS = ("cohort", "clients", "label_counts", "sizes", "partition", "name", "path", "availability", "rng", "x", "y")
LEAF = {"users": ["a", "b"], "user_data": {name: {"x": [[1, 2], [3, 4]], "y": [0, 1]} for name in "ab"}}


def profile(rng: random.Random) -> None:
    """A profile with odd values, sometimes with a table beside it."""
    table = dict(PROFILE)
    if rng.random() < 0.5:
        suffix, content = rng.choice((("csv", _csv), ("npz", _npz)))
        (scratch() / f"counts.{suffix}").write_bytes(content(rng))
        table |= {rng.choice(("label_counts", "sizes")): f"counts.{suffix}"}
    path = scratch() / "profile.toml"
    try:
        path.write_text(tomli_w.dumps(mutations.tree(rng, table, rng.randrange(3), WORDS)), errors="replace")
    except (TypeError, ValueError, AttributeError):
        path.write_bytes(mutations.raw(rng, tomli_w.dumps(table).encode(), 2))
    replay(known_federation(path))


def _csv(rng: random.Random) -> bytes:
    rows = [",".join(str(rng.choice((0, 3, 20, "x", "nan", -1, 10**30, ""))) for _ in range(3)) for _ in range(5)]
    sound_rows = ["3,0,1", "0,4,2", "1,1,1", "5,0,0", "2,2,2"]
    return mutations.raw(rng, "\n".join(rows if rng.random() < 0.4 else sound_rows).encode(), rng.randrange(2))


def _npz(rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, counts=np.arange(15).reshape(5, 3))
    return npz(rng, buffer.getvalue())


def run(rng: random.Random) -> None:
    """A run's folder with one file damaged."""
    home, files = sound()
    name = rng.choice(("config.toml", "rounds.jsonl", "federation.npz"))
    try:
        (home / name).write_bytes(damaged(rng, name, files[name]))
        replay(known_federation(home))
    finally:
        (home / name).write_bytes(files[name])


def leaf(rng: random.Random) -> None:
    """LEAF's JSON."""
    for part in ("train", "test"):
        folder = scratch() / "leaf" / part
        folder.mkdir(parents=True, exist_ok=True)
        changed: Any = mutations.tree(rng, LEAF, rng.randrange(3), WORDS)
        (folder / "all.json").write_bytes(json.dumps(changed).encode())
    from_leaf(scratch() / "leaf")


def table(rng: random.Random) -> None:
    """A CSV or Parquet file with clients and labels."""
    frame = pl.DataFrame({"c": [1, 2] * 6, "y": [0, 1, 2] * 4, "a": [0.5] * 12})
    buffer, kind = io.BytesIO(), rng.choice(("csv", "parquet"))
    frame.write_csv(buffer) if kind == "csv" else frame.write_parquet(buffer)
    path = scratch() / f"table.{kind}"
    path.write_bytes(mutations.raw(rng, buffer.getvalue(), rng.randrange(1, 4)))
    from_table(path, client="c", label="y")


def play(rng: random.Random) -> int:
    """One source, read; a profile or a run is replayed. A file names no code."""
    with import_policy.allow_only(()):
        rng.choice((profile, run))(rng)
    return 1


def play_data(rng: random.Random) -> int:
    """One file of own data, read."""
    rng.choice((leaf, table))(rng)
    return 1


TARGET = Target("sources", play, sound)
DATA = Target("own-data", play_data)
