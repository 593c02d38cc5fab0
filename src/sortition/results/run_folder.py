"""Reading run folders: the only channel between running and reporting. Files in, polars and arrays out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import InputError, StorageError
from sortition.core.storage.npz import read_npz
from sortition.core.storage.safe_files import check_format, read_lines, read_regular
from sortition.core.storage.snapshot import FOREIGN
from sortition.results import schema
from sortition.results.separate import separated

if TYPE_CHECKING:
    import polars as pl

INDEX = "study.json"  # beside the settings: in which order a study names them and its methods
CONFIG, MANIFEST, SUMMARY = "config.toml", "manifest.json", "summary.json"
ROUNDS, TIMINGS, AUDIT = "rounds.jsonl", "timings.jsonl", "audit.jsonl"
FORMAT = 1  # of run folders, in their manifest
FEDERATION, CLIENTS, CHECKPOINT, FAILURE = "federation.npz", "clients.npz", "checkpoint.npz", "failure.log"
FILES = (INDEX, CONFIG, MANIFEST, SUMMARY, ROUNDS, TIMINGS, AUDIT, FEDERATION, CLIENTS, CHECKPOINT, FAILURE)


@dataclass(frozen=True)
class Run:
    """One run folder, ``<setting>/<method label>/seed-<k>``; files are read when they are first needed, then kept.

    ``study`` stands before its setting's name where another study has a setting of the same name.
    """

    path: Path
    study: str = ""

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        try:
            found = tomllib.loads(read_regular(self.path / CONFIG).decode())
        except (OSError, ValueError, RecursionError) as error:
            raise StorageError(f"{self.path / CONFIG} cannot be read: {error}.") from None
        return schema.checked("config", found, self.path / CONFIG)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Versions, hashes, the method's needs; empty before the run started."""
        path = self.path / MANIFEST
        manifest = document(path, "manifest")
        if manifest:
            check_format(str(path), manifest.get("format"), FORMAT)
        return manifest

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures of a finished run; empty before."""
        return document(self.path / SUMMARY, "summary")

    @property
    def setting(self) -> str:
        """The setting's name."""
        name = str(self.config.get("setting", ""))
        return f"{self.study}: {name}" if self.study else name

    @property
    def method(self) -> str:
        """The method's label, unique in its study."""
        return str(self.config.get("method", {}).get("label", ""))

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.config.get("seed", 0))

    @property
    def done(self) -> bool:
        """Whether it played all its rounds, or reached the target it should stop at."""
        return self.summary.get("status") == "done"

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """One record a round, in order; the manifest says in which format."""
        _ = self.manifest
        return lines(self.path / ROUNDS, "record")

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """Wall-clock seconds of each round."""
        return lines(self.path / TIMINGS, "timing")

    def federation(self) -> dict[str, Array]:
        """``sizes`` (N,), ``label_counts`` (N, C), ``availability`` (rounds, N) as booleans."""
        path = self.path / FEDERATION
        arrays = schema.arrays(_arrays(path), path, sizes=(1, "iu"), label_counts=(2, "iu"))
        if (packed := arrays.get("availability")) is not None:
            n = arrays["sizes"].size if "sizes" in arrays else -1
            if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != -(-n // 8):
                raise StorageError(f"{path} is damaged: availability of {n} clients has shape {packed.shape}.")
            arrays["availability"] = np.unpackbits(packed, axis=1, count=n).astype(bool)
        return arrays

    def clients(self) -> dict[str, Array]:
        """``selected``, ``completed``, ``available`` (N,) and, where evaluated, ``accuracy`` (N,)."""
        path, counts = self.path / CLIENTS, dict.fromkeys(("selected", "completed", "available"), (1, "iu"))
        return schema.arrays(_arrays(path), path, **counts, accuracy=(1, "f"))

    def curve(self, of: str = "accuracy") -> tuple[Array, Array]:
        """Rounds played (1-based) and the test metric, where it was evaluated; NaN where it was not finite."""
        found = [(r["round"] + 1, r["test"][of]) for r in self.records if of in (r.get("test") or {})]
        played, values = zip(*found, strict=True) if found else ((), ())
        return np.array(played, np.int64), np.array(values, np.float64)


def find(*folders: str | Path) -> list[Run]:
    """All run folders at or under some folders: settings and methods in each study's order, then by seed.

    Settings of one name in two studies are one only if they are of one configuration and hold no run twice.
    """
    studies, seen = dict[Path, list[Run]](), set[Path]()
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"{folder} must be a folder of runs; got nothing there.")
        for path in [path.parent for path in sorted(folder.rglob(CONFIG)) if (path.parent / MANIFEST).exists()]:
            if path.resolve() not in seen:
                seen.add(path.resolve())
                studies.setdefault(_study_of(path, folder), []).append(Run(path))
    ordered = {folder: _ordered(folder, runs) for folder, runs in studies.items()}
    titles = [str(document(folder / INDEX).get("title") or folder.resolve().name) for folder in ordered]
    names = titles if len(set(titles)) == len(titles) else [str(folder) for folder in ordered]
    return separated(dict(zip(names, ordered.values(), strict=True)))


def _study_of(run: Path, folder: Path) -> Path:
    """The folder of the study that a run belongs to: the nearest with an index, at most ``folder``."""
    for place in (run, *run.parents):
        if place == folder or (place / INDEX).exists():
            return place
    return folder


def _ordered(folder: Path, runs: Iterable[Run]) -> list[Run]:
    index, last = document(folder / INDEX, "index"), 1 << 30
    places = {key: {name: at for at, name in enumerate(index.get(key, []))} for key in ("settings", "methods")}

    def place(run: Run) -> tuple[Any, ...]:
        try:
            setting, method = places["settings"].get(run.setting, last), places["methods"].get(run.method, last)
            return setting, str(run.path.parent.parent), method, run.method, run.seed
        except StorageError:  # a damaged run comes last, and says so when it is read
            return last, str(run.path.parent.parent), last, "", 0

    return sorted(runs, key=place)


def lines(path: Path, kind: schema.Kind = "record") -> list[dict[str, Any]]:
    """The records of an append-only file; a torn last line is left out, any other is an error."""
    try:
        return _records(read_lines(path), path, kind)
    except FileNotFoundError:
        return []


def _records(raw: Iterable[bytes], path: Path, kind: schema.Kind) -> list[dict[str, Any]]:
    found, torn = [], 0
    for at, line in enumerate(raw, 1):
        if torn and line.strip():
            break
        if torn or not line.endswith(b"\n"):  # what follows the last newline was not written whole
            continue
        try:
            found.append(schema.checked(kind, json.loads(line), path, at))
        except (ValueError, RecursionError):
            torn = at
    else:
        return found
    raise StorageError(f"{path} is damaged in line {torn}; only the last line may be torn.")


def document(path: Path, kind: schema.Kind = "index") -> dict[str, Any]:
    """A JSON file; empty where there is none."""
    try:
        found = json.loads(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None
    return schema.checked(kind, found, path)


def _arrays(path: Path) -> dict[str, Array]:
    try:
        return read_npz(path)
    except FileNotFoundError:
        return {}
    except FOREIGN as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None


def curves(runs: str | Path | Iterable[Run]) -> pl.DataFrame:
    """One row a round: setting, method, seed, round (1-based), test figures, cohort size, bytes so far, clock."""
    import polars as pl  # here, since those who play runs need none of it

    chosen = find(runs) if isinstance(runs, str | Path) else list(runs)
    kinds = {column: getattr(pl, kind) for column, kind in COLUMNS.items()}
    return pl.DataFrame([row for run in chosen for row in _curve(run)], schema=kinds, orient="row")


COLUMNS = {
    "setting": "String",
    "method": "String",
    "seed": "Int64",
    "round": "Int64",
    "accuracy": "Float64",
    "loss": "Float64",
    "train_loss": "Float64",
    "available": "Int64",
    "cohort": "Int64",
    "bytes": "Float64",
    "passes": "Float64",
    "clock": "Float64",
}


def _curve(run: Run) -> list[tuple[Any, ...]]:
    rows = []
    sent = passes = 0.0
    for record in run.records:
        test = record.get("test") or {}
        sent += total_bytes(record)
        done = record.get("passes") or {}
        passes += done.get("training", 0) + done.get("forward", 0)
        rows.append(
            (
                run.setting,
                run.method,
                run.seed,
                record["round"] + 1,
                test.get("accuracy"),
                test.get("loss"),
                record.get("train_loss"),
                record.get("available"),
                len(record.get("cohort") or ()),
                sent,
                passes,
                record.get("clock"),
            )
        )
    return rows


def total_bytes(record: dict[str, Any]) -> float:
    """All bytes that a round moved, up and down."""
    return float(sum((record.get("bytes") or {}).values()))
