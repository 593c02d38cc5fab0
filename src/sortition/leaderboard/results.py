"""One table of all runs, a row each, stored as Parquet; only the folders of new runs are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sortition.core.errors import StorageError
from sortition.data.parquet import read_parquet
from sortition.leaderboard.suite import Suite
from sortition.results import metrics
from sortition.results.run_folder import Run
from sortition.studies.plan import StudyPlan
from sortition.studies.runs.runner import place

RUNS = "runs.parquet"
TABLE_BYTES = 1 << 26  # of a table of runs, unpacked; the largest of ours takes 2 MB
ROW_KEY = ["suite", "cell", "method", "seed"]
FIGURES = {  # column → name in a run's summary
    "auc": "mean-accuracy",
    "last": "last-accuracy",
    "worst_tenth": "worst-tenth",
    "jain": "jain",
}
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


def read_stored_runs(path: Path) -> pl.DataFrame:
    """Read the stored rows; return an empty table where there is no file."""
    if not path.exists():
        return pl.DataFrame(schema=SCHEMA)
    try:
        rows = read_parquet(path, SCHEMA, allowed=TABLE_BYTES)
        return rows.select(*SCHEMA).cast(SCHEMA)  # type: ignore[arg-type]
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first_line = (str(error).splitlines() or ["unreadable"])[0]
        raise StorageError(f"{path} is no table of a leaderboard's runs: {first_line}. Remove it.") from None


def collect_runs(suite: Suite, plan: StudyPlan, out: Path, stored_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the stored rows of this suite, and rows of the plan's finished runs that are not among them."""
    half_by_cell = {cell.name: cell.half for cell in suite.cell}
    rows = stored_rows.filter(pl.col("suite") == suite.version)
    stored_keys = set(rows.select("cell", "method", "seed").iter_rows())
    new_rows = []
    for planned in plan.runs:
        if (planned.setting, planned.method.label, planned.seed) in stored_keys:
            continue
        run = Run(place(out, planned))
        if run.done:
            new_rows.append({"suite": suite.version, "half": half_by_cell[planned.setting], **run_row(run)})
    return pl.concat([rows, pl.DataFrame(new_rows, schema=SCHEMA)]).unique(ROW_KEY, maintain_order=True)


def run_row(run: Run) -> dict[str, Any]:
    """Return the row of one finished run, without its suite and half."""
    try:
        return _unchecked_row(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{run.path} is no finished run of a leaderboard: {error!r}. Remove it.") from None


def _unchecked_row(run: Run) -> dict[str, Any]:
    """Return the row of a run folder; any error means that it is no finished run."""
    figures = run.summary["figures"]
    needs = run.manifest["needs"]
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
    """Write the table, sorted, so that equal runs give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    rows.sort(ROW_KEY).write_parquet(temporary, compression="zstd", compression_level=19)
    temporary.replace(path)
