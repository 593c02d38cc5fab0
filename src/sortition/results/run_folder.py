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

from sortition.core.arrays import Array, Floats
from sortition.core.cost import Currency, cumulative_costs, total_bytes, total_passes
from sortition.core.errors import InputError, StorageError
from sortition.core.storage.npz import read_npz
from sortition.core.storage.safe_files import check_format, read_lines, read_regular
from sortition.core.storage.snapshot import UNREADABLE
from sortition.results import schema
from sortition.results.separate import separate_studies

if TYPE_CHECKING:
    import polars as pl

INDEX = "study.json"  # beside the settings: in which order a study names them and its methods
CONFIG = "config.toml"
MANIFEST = "manifest.json"
SUMMARY = "summary.json"
ROUNDS = "rounds.jsonl"
TIMINGS = "timings.jsonl"
AUDIT = "audit.jsonl"
FEDERATION = "federation.npz"
CLIENTS = "clients.npz"
CHECKPOINT = "checkpoint.npz"
FAILURE = "failure.log"
FILES = (INDEX, CONFIG, MANIFEST, SUMMARY, ROUNDS, TIMINGS, AUDIT, FEDERATION, CLIENTS, CHECKPOINT, FAILURE)
FORMAT = 1  # of the manifest and the records that this version writes and reads


@dataclass(frozen=True)
class Run:
    """One run folder, ``<setting>/<method label>/seed-<k>``; files are read when they are first needed, then kept.

    ``study`` stands before its setting's name where another study has a setting of the same name.
    """

    path: Path
    study: str = ""

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the resolved configuration."""
        try:
            content = tomllib.loads(read_regular(self.path / CONFIG).decode())
        except (OSError, ValueError, RecursionError) as error:
            raise StorageError(f"{self.path / CONFIG} cannot be read: {error}.") from None
        return schema.checked("config", content, self.path / CONFIG)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return versions, hashes and the method's needs; empty before the run started. Another format is refused."""
        path = self.path / MANIFEST
        manifest = read_document(path, "manifest")
        if manifest:
            check_format(str(path), manifest.get("format"), FORMAT)
        return manifest

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Return the figures of a finished run; empty before."""
        return read_document(self.path / SUMMARY, "summary")

    @property
    def setting(self) -> str:
        """Return the setting's name."""
        name = str(self.config.get("setting", ""))
        if self.study:
            return f"{self.study}: {name}"
        return name

    @property
    def method(self) -> str:
        """Return the method's label, unique in its study."""
        return str(self.config.get("method", {}).get("label", ""))

    @property
    def seed(self) -> int:
        """Return the seed."""
        return int(self.config.get("seed", 0))

    @property
    def done(self) -> bool:
        """Tell whether it played all its rounds, or reached the target it should stop at."""
        return self.summary.get("status") == "done"

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """Return one record a round, in order; those of another format are refused."""
        _ = self.manifest  # which says in which format they are
        return read_records(self.path / ROUNDS, "record")

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """Return the wall-clock seconds of each round."""
        return read_records(self.path / TIMINGS, "timing")

    def federation(self) -> dict[str, Array]:
        """Return ``sizes`` (N,), ``label_counts`` (N, C), ``availability`` (rounds, N) as booleans.

        Where devices differ, ``seconds`` (N,) are those in which each receives the model, trains and answers.
        """
        path = self.path / FEDERATION
        arrays = schema.checked_arrays(_arrays(path), path, sizes=(1, "iu"), label_counts=(2, "iu"), seconds=(1, "f"))
        packed = arrays.get("availability")
        if packed is None:
            return arrays
        if "sizes" not in arrays:
            raise StorageError(f"{path} is damaged: it has availability, and no sizes.")
        n_clients = arrays["sizes"].size
        bytes_a_round = -(-n_clients // 8)
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != bytes_a_round:
            raise StorageError(f"{path} is damaged: availability of {n_clients} clients has shape {packed.shape}.")
        arrays["availability"] = np.unpackbits(packed, axis=1, count=n_clients).astype(bool)
        return arrays

    def clients(self) -> dict[str, Array]:
        """Return ``selected``, ``completed``, ``available`` (N,) and, where evaluated, ``accuracy`` (N,).

        Of a task other than classification it is ``metric`` (N,), the metric of the task.
        """
        path = self.path / CLIENTS
        counts = (1, "iu")
        return schema.checked_arrays(
            _arrays(path),
            path,
            selected=counts,
            completed=counts,
            available=counts,
            accuracy=(1, "f"),
            metric=(1, "f"),
        )

    def curve(self, of: str = "accuracy") -> tuple[Array, Array]:
        """Return rounds played (1-based) and the test metric, where it was evaluated; NaN where it was not finite."""
        tested = [record for record in self.records if of in (record.get("test") or {})]
        rounds = np.array([record["round"] + 1 for record in tested], np.int64)
        values = np.array([record["test"][of] for record in tested], np.float64)
        return rounds, values

    def costs(self) -> dict[Currency, Floats]:
        """Return what the run had cost at each evaluation (E,), by currency."""
        is_tested = np.array([bool(record.get("test")) for record in self.records], bool)
        return {currency: costs[is_tested] for currency, costs in cumulative_costs(self.records).items()}


def find(*folders: str | Path) -> list[Run]:
    """Find all run folders at or under some folders: settings and methods in each study's order, then by seed.

    Settings of one name in two studies are one only if they are of one configuration and hold no run twice.
    """
    runs_by_study: dict[Path, list[Run]] = {}
    visited: set[Path] = set()
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"{folder} must be a folder of runs; got nothing there.")
        for config in sorted(folder.rglob(CONFIG)):
            path = config.parent
            if (path / MANIFEST).exists() and path.resolve() not in visited:
                visited.add(path.resolve())
                runs_by_study.setdefault(_study_of(path, folder), []).append(Run(path))
    ordered = {folder: _ordered(folder, runs) for folder, runs in runs_by_study.items()}
    names = [str(read_document(folder / INDEX).get("title") or folder.resolve().name) for folder in ordered]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in ordered]
    return separate_studies(dict(zip(names, ordered.values(), strict=True)))


def _study_of(run: Path, folder: Path) -> Path:
    """Return the folder of the study that a run belongs to: the nearest with an index, at most ``folder``."""
    for place in (run, *run.parents):
        if place == folder or (place / INDEX).exists():
            return place
    return folder


def _ordered(folder: Path, runs: Iterable[Run]) -> list[Run]:
    """Sort a study's runs as its index lists settings and methods; what the index lacks comes last."""
    index = read_document(folder / INDEX, "index")
    setting_places = {name: place for place, name in enumerate(index.get("settings", []))}
    method_places = {name: place for place, name in enumerate(index.get("methods", []))}
    last = 1 << 30

    def sort_key(run: Run) -> tuple[int, str, int, str, int]:
        setting_folder = str(run.path.parent.parent)
        try:
            setting_place = setting_places.get(run.setting, last)
            method_place = method_places.get(run.method, last)
            return setting_place, setting_folder, method_place, run.method, run.seed
        except StorageError:  # a damaged run comes last, and says so when it is read
            return last, setting_folder, last, "", 0

    return sorted(runs, key=sort_key)


def read_records(path: Path, kind: schema.Kind = "record") -> list[dict[str, Any]]:
    """Read the records of an append-only file; a torn last line is left out, any other is an error."""
    try:
        return _records(read_lines(path), path, kind)
    except FileNotFoundError:
        return []


def _records(raw_lines: Iterable[bytes], path: Path, kind: schema.Kind) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    torn_line = 0
    for number, line in enumerate(raw_lines, 1):
        if torn_line and line.strip():
            raise StorageError(f"{path} is damaged in line {torn_line}; only the last line may be torn.")
        if torn_line or not line.endswith(b"\n"):  # what follows the last newline was not written whole
            continue
        try:
            records.append(schema.checked(kind, json.loads(line), path, number))
        except (ValueError, RecursionError):
            torn_line = number
    return records


def read_document(path: Path, kind: schema.Kind = "index") -> dict[str, Any]:
    """Read a JSON file; the result is empty where there is none."""
    try:
        content = json.loads(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None
    return schema.checked(kind, content, path)


def _arrays(path: Path) -> dict[str, Array]:
    try:
        return read_npz(path)
    except FileNotFoundError:
        return {}
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None


def curves(runs: str | Path | Iterable[Run]) -> pl.DataFrame:
    """Return one row a round: setting, method, seed, round (from 1), test figures, cohort size, bytes so far, clock."""
    import polars as pl  # here, since those who play runs need none of it

    if isinstance(runs, str | Path):
        runs = find(runs)
    all_runs = list(runs)
    column_types = {column: getattr(pl, kind) for column, kind in COLUMNS.items()}
    own_metrics = dict.fromkeys(_own_metric(run) for run in all_runs)
    column_types |= {metric: pl.Float64 for metric in own_metrics if metric}
    rows = [row for run in all_runs for row in _curve_rows(run)]
    return pl.DataFrame(rows, schema=column_types)


def _own_metric(run: Run) -> str:
    """Return the name of a task's metric that has no column in ``COLUMNS``; else nothing."""
    metric = str(run.config.get("task", {}).get("metric_name", ""))
    if metric in COLUMNS:
        return ""
    return metric


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


def _curve_rows(run: Run) -> list[dict[str, str | float | None]]:
    rows: list[dict[str, str | float | None]] = []
    bytes_so_far = 0.0
    passes_so_far = 0.0
    for record in run.records:
        test = record.get("test") or {}
        bytes_so_far += total_bytes(record)
        passes_so_far += total_passes(record)
        own_metric = _own_metric(run)
        if own_metric:
            own_figures = {own_metric: test.get(own_metric)}
        else:
            own_figures = {}
        rows.append(
            {
                "setting": run.setting,
                "method": run.method,
                "seed": run.seed,
                "round": record["round"] + 1,
                "accuracy": test.get("accuracy"),
                "loss": test.get("loss"),
                "train_loss": record.get("train_loss"),
                "available": record.get("available"),
                "cohort": len(record.get("cohort") or ()),
                "bytes": bytes_so_far,
                "passes": passes_so_far,
                "clock": record.get("clock"),
                **own_figures,
            }
        )
    return rows
