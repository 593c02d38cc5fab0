"""Run folders: what a report and the tables read, with one file damaged or with other contents."""

from __future__ import annotations

import functools
import io
import json
import random
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from campaign.fuzz import mutations
from campaign.fuzz.loop import Target
from campaign.fuzz.scratch import scratch
from campaign.fuzz.studied import played, small
from sortition.core.errors import SortitionError
from sortition.report.gather import gather
from sortition.results import run_folder, schema, summary

WORDS = ("round", "cohort", "test", "accuracy", "loss", "bytes", "weights", "notes", "method", "target", "status")


@functools.cache
def sound() -> tuple[Path, dict[str, bytes]]:
    """A finished run's folder, and the bytes of its files."""
    out = scratch() / "folders"
    played(out, small())
    home = next(out.rglob(run_folder.CONFIG)).parent
    return home, {path.name: path.read_bytes() for path in home.iterdir() if path.name != ".lock"}


def damaged(rng: random.Random, name: str, data: bytes) -> bytes:
    """Other contents for one file: by its structure, or by its bytes."""
    if rng.random() < 0.3:
        return mutations.raw(rng, data, rng.randrange(1, 4))
    if name.endswith(".npz"):
        return npz(rng, data)
    if name.endswith(".jsonl"):
        lines = data.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = _dumped(mutations.tree(rng, json.loads(lines[at]), rng.randrange(1, 3), WORDS))
        return b"\n".join(lines) + b"\n"
    if name.endswith(".json"):
        return _dumped(mutations.tree(rng, json.loads(data), rng.randrange(1, 3), WORDS))
    try:
        return tomli_w.dumps(mutations.tree(rng, tomllib.loads(data.decode()), 1, WORDS)).encode(errors="replace")
    except (TypeError, ValueError, AttributeError):
        return mutations.raw(rng, data)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def npz(rng: random.Random, data: bytes) -> bytes:
    """An npz file one of whose arrays is another one, gone, or under another name."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays: dict[str, Any] = dict(file)
    name = rng.choice(list(arrays))
    act = rng.randrange(5)
    value = arrays.pop(name) if act <= 1 else arrays[name]
    if act:
        changed = _plain(mutations.array(rng, value))
        arrays["other" if act == 1 else name] = changed
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """As an array that a file without pickles can hold."""
    try:
        made = np.asarray(value)
    except ValueError:
        made = np.array(str(value))
    return made.astype(str) if made.dtype.kind == "O" else made


READERS = (
    lambda home: gather([home]),
    lambda home: run_folder.curves(home),
    lambda home: summary.tables(run_folder.find(home)),
)


def play(rng: random.Random) -> int:
    """One damaged folder, read by the report, the curves or the tables."""
    home, files = sound()
    name = rng.choice([name for name in files if name != run_folder.CHECKPOINT])
    (home / name).write_bytes(damaged(rng, name, files[name]))
    try:
        rng.choice(READERS)(home)
    finally:
        (home / name).write_bytes(files[name])
    return 1


def play_lines(rng: random.Random) -> int:
    """Some damaged lines and documents, each as a reader checks it."""
    _, files = sound()
    texts = {"record": files[run_folder.ROUNDS].splitlines()[0], "timing": files[run_folder.TIMINGS].splitlines()[0]}
    texts |= {"summary": files[run_folder.SUMMARY], "manifest": files[run_folder.MANIFEST]}
    for _ in range(50):
        kind = rng.choice(list(texts))
        value = mutations.tree(rng, json.loads(texts[kind]), rng.randrange(1, 4), WORDS, own=True)
        with suppress(SortitionError):
            schema.checked(kind, value, Path(kind), 1)
    return 50


TARGET = Target("folders", play, sound)
LINES = Target("records", play_lines, sound, share=0.25)
