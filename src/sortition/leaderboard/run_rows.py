"""Results of suite 2 as they are kept: one Parquet file a cell, one row a run, small enough to be committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from sortition import __version__
from sortition.core.errors import StorageError
from sortition.data.parquet import read_parquet
from sortition.leaderboard.entrants import Entrant
from sortition.leaderboard.figures import Curve
from sortition.leaderboard.results import TABLE_BYTES
from sortition.leaderboard.tracks import TrackCell, TrackSuite
from sortition.results import metrics
from sortition.results.run_folder import Run

ROW_KEY = ["cell", "label", "seed"]
DONE = "done"
FAILED = "failed"
RowValues: TypeAlias = dict[str, Any]  # a run as it is stored: the columns of SCHEMA
Row: TypeAlias = Mapping[str, Any]  # the same, to be read
SCHEMA: Mapping[str, Any] = {
    "suite": pl.String,
    "track": pl.String,
    "cell": pl.String,
    "row": pl.String,
    "label": pl.String,
    "configuration": pl.String,
    "information": pl.String,
    "seed": pl.Int32,
    "status": pl.String,
    "reason": pl.String,
    "sortition": pl.String,
    "federation": pl.String,
    "data": pl.String,
    "partition": pl.String,
    "choices": pl.String,
    "rounds": pl.Int32,
    "clock": pl.Float64,
    "evaluated": pl.List(pl.Int32),
    "clocks": pl.List(pl.Float64),
    "accuracies": pl.List(pl.Float32),
    "megabytes": pl.Float32,
    "passes": pl.Float32,
    "milliseconds": pl.Float32,
    "seconds": pl.Float32,
}
LISTS = tuple(name for name, kind in SCHEMA.items() if kind.is_nested())
CHOICES = ("round", "cohort", "answered", "skipped")  # what the digest of choices holds of a round


def choices_digest(records: Iterable[Mapping[str, object]]) -> str:
    """Return the SHA-256 of who was chosen in every round, and whose update was used."""
    digest = hashlib.sha256()
    for record in records:
        line = json.dumps({key: record.get(key) for key in CHOICES}, sort_keys=True)
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def federation_digest(suite: TrackSuite, cell: TrackCell) -> str:
    """Return the SHA-256 of a cell as a setting of a study; later versions of Sortition give the same."""
    return hashlib.sha256(json.dumps(suite.setting(cell), sort_keys=True).encode()).hexdigest()


def planned_row(suite: TrackSuite, cell: TrackCell, entrant: Entrant, seed: int) -> RowValues:
    """Return what the row of a run says before it is played."""
    return {
        "suite": suite.version,
        "track": cell.track,
        "cell": cell.name,
        "row": entrant.row,
        "label": entrant.label,
        "configuration": entrant.configuration,
        "information": entrant.information,
        "seed": seed,
        "sortition": __version__,
        "federation": federation_digest(suite, cell),
    }


def finished_row(about: Row, run: Run) -> RowValues:
    """Return the row of a finished run, from its folder."""
    try:
        records = run.records
        evaluated = [record for record in records if record.get("test")]
        data = run.manifest["data"]
        return {
            **about,
            "status": DONE,
            "reason": None,
            "data": data["digest"],
            "partition": data["partition"],
            "choices": choices_digest(records),
            "rounds": len(records),
            "clock": records[-1].get("clock") if records else None,
            "evaluated": [int(record["round"]) + 1 for record in evaluated],
            "clocks": [record.get("clock") for record in evaluated],
            "accuracies": [record["test"]["accuracy"] for record in evaluated],
            "megabytes": run.summary["figures"].get("megabytes"),
            "passes": run.summary["totals"]["passes"] / max(1, len(records)),
            "milliseconds": metrics.selection_ms(run),
            "seconds": sum(float(timing.get("total", 0.0)) for timing in run.timings),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{run.path} is no finished run of a leaderboard: {error!r}. Remove it.") from None


def failed_row(about: Row, reason: str) -> RowValues:
    """Return the row of a run that failed; it counts as the worst."""
    last_line = (reason.strip().splitlines() or ["unknown"])[-1]
    return {**about, "status": FAILED, "reason": last_line[:300]}


def rows_table(rows: Iterable[Row]) -> pl.DataFrame:
    """Return rows as a table; what a row does not say is missing."""
    return pl.DataFrame([{key: row.get(key) for key in SCHEMA} for row in rows], schema=SCHEMA)


def cell_file(folder: Path, cell: TrackCell) -> Path:
    """Return the file of a cell."""
    return folder / cell.track / f"{cell.name}.parquet"


def read_rows(path: Path) -> pl.DataFrame:
    """Read the rows of a cell; return an empty table where there is no file."""
    if not path.exists():
        return rows_table([])
    try:
        rows = read_parquet(path, SCHEMA, lists=LISTS, allowed=TABLE_BYTES)
        return rows.select(*SCHEMA).cast(SCHEMA)  # type: ignore[arg-type]
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first_line = (str(error).splitlines() or ["unreadable"])[0]
        raise StorageError(f"{path} is no table of a leaderboard's runs: {first_line}. Remove it.") from None


def read_cells(suite: TrackSuite, folder: Path, cells: Iterable[TrackCell]) -> pl.DataFrame:
    """Read the rows of several cells that were run in this version of the suite."""
    tables = [read_rows(cell_file(folder, cell)) for cell in cells]
    return pl.concat([rows_table([]), *tables]).filter(pl.col("suite") == suite.version)


def add_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add rows to the file of a cell, in place of those of the same method and seed; equal rows give equal bytes."""
    new_rows = rows_table(rows)
    if new_rows.is_empty():
        return
    stored_rows = read_rows(path).filter(pl.col("suite") == new_rows["suite"][0])
    combined = pl.concat([stored_rows, new_rows]).unique(ROW_KEY, keep="last", maintain_order=True).sort(ROW_KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    combined.write_parquet(temporary, compression="zstd", compression_level=19)
    temporary.replace(path)


def row_curve(suite: TrackSuite, cell: TrackCell, row: Row) -> Curve:
    """Return the curve of a row, by rounds or by seconds as its cell is judged."""
    accuracies = np.asarray(row["accuracies"] or [], np.float64)
    if cell.is_timed:
        if cell.seconds is None:
            raise StorageError(f"{cell.name} has no time budget.")
        clocks = np.asarray(row["clocks"] or [], np.float64)
        return Curve(clocks, accuracies, cell.seconds, by_time=True)
    rounds = np.asarray(row["evaluated"] or [], np.float64)
    return Curve(rounds, accuracies, float(suite.setting(cell)["rounds"]), by_time=False)
