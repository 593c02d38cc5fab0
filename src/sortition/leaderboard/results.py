"""From run folders to one table of all runs: a row a run, kept as Parquet; only new folders are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sortition.core.errors import StorageError
from sortition.leaderboard.suite import Suite
from sortition.results import metrics
from sortition.results.run_folder import Run
from sortition.studies.plan import StudyPlan
from sortition.studies.runs.runner import place

RUNS = "runs.parquet"
MOST = 10_000_000  # rows; a Parquet file can announce any number in a kilobyte
KEY = ["suite", "cell", "method", "seed"]
FIGURES = {"auc": "mean-accuracy", "last": "last-accuracy", "worst_tenth": "worst-tenth", "jain": "jain"}
SCHEMA = {
    "suite": pl.String,
    "cell": pl.String,
    "half": pl.String,
    "method": pl.String,
    "seed": pl.Int32,
    **dict.fromkeys(FIGURES, pl.Float32),
    "megabytes": pl.Float32,
    "passes": pl.Float32,
    "milliseconds": pl.Float32,
    "reads": pl.String,
    "asks": pl.String,
    "reports": pl.String,
    "individual": pl.Boolean,
}


def stored(path: Path) -> pl.DataFrame:
    """The rows that were kept before; none where there is no file."""
    if not path.exists():
        return pl.DataFrame(schema=SCHEMA)
    try:
        if not path.is_file():
            raise ValueError("it is not a file")
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        if rows > MOST:
            raise ValueError(f"it announces {rows:,} rows, more than {MOST:,}")
        return pl.read_parquet(path, glob=False).select(*SCHEMA).cast(SCHEMA)  # type: ignore[arg-type]
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first = (str(error).splitlines() or ["unreadable"])[0]
        raise StorageError(f"{path} is no table of a leaderboard's runs: {first}. Remove it.") from None


def collected(suite: Suite, plan: StudyPlan, out: Path, before: pl.DataFrame) -> pl.DataFrame:
    """The kept rows of this suite, and those of the plan's finished runs that are new."""
    halves = {cell.name: cell.half for cell in suite.cell}
    kept = before.filter(pl.col("suite") == suite.version)
    seen = set(kept.select("cell", "method", "seed").iter_rows())
    fresh = [
        {"suite": suite.version, "half": halves[run.setting], **row_of(held)}
        for run in plan.runs
        if (run.setting, run.method.label, run.seed) not in seen and (held := Run(place(out, run))).done
    ]
    return pl.concat([kept, pl.DataFrame(fresh, schema=SCHEMA)]).unique(KEY, maintain_order=True)


def row_of(run: Run) -> dict[str, Any]:
    """One finished run."""
    try:
        return _row_of(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{run.path} is no finished run of a leaderboard: {error!r}. Remove it.") from None


def _row_of(run: Run) -> dict[str, Any]:
    figures, needs = run.summary["figures"], run.manifest["needs"]
    rounds = max(1, int(run.summary["rounds"]))
    return {
        "cell": run.setting,
        "method": run.method,
        "seed": run.seed,
        **{column: figures.get(name) for column, name in FIGURES.items()},
        "megabytes": figures.get("megabytes"),
        "passes": run.summary["totals"]["passes"] / rounds,
        "milliseconds": metrics.selection_ms(run),
        **{key: ", ".join(needs[key]) for key in ("reads", "asks", "reports")},
        "individual": bool(needs["individual"]),
    }


def write_runs(rows: pl.DataFrame, path: Path) -> None:
    """Keep the table, sorted, so that equal runs give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    rows.sort(KEY).write_parquet(temporary, compression="zstd", compression_level=19)
    temporary.replace(path)
