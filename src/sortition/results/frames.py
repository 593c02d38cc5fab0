"""Every table of a study as data: runs, curves, comparisons and methods, for CSV and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from sortition.core.errors import InputError, bad
from sortition.results import run_folder, summary
from sortition.results.comparisons import COMPARED, DEFAULT, Criteria
from sortition.results.metrics import diverged
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.sweeps import swept

FORMATS = ("csv", "parquet")
FORMULA = r"^[=+\-@\t\r]"  # how a formula begins in a spreadsheet


def frames(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> dict[str, pl.DataFrame]:
    """Name → table: ``rounds`` (one row a round), ``runs`` (a run), ``methods`` (means) and ``comparisons``."""
    chosen = list(runs)
    if not chosen:
        raise InputError("There must be at least one run to export; got none. Make some with: sortition run study.toml")
    groups = summary.finished(chosen).groups
    made = {"rounds": run_folder.curves(chosen), "runs": _frame(_runs(chosen))}
    made["methods"] = _frame(row for setting, methods in groups.items() for row in _methods(setting, methods))
    made["comparisons"] = _frame(
        row for setting, methods in groups.items() for row in _compared(setting, methods, criteria)
    )
    return made


def write(tables: dict[str, pl.DataFrame], folder: Path, kind: str = "csv") -> list[Path]:
    """One file a table; empty ones are left out."""
    if kind not in FORMATS:
        raise bad("--format", f"one of {', '.join(FORMATS)}", kind)
    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in tables.items():
            if frame.height:
                made.append(folder / f"{name}.{kind}")
                if kind == "csv":
                    write_csv(frame, made[-1])
                else:
                    frame.write_parquet(made[-1])
    except OSError as error:
        raise bad("-o", "a folder that can be written", str(folder), f"{error.strerror or error}.") from None
    return made


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Write a table as CSV; texts that a spreadsheet would take for a formula get an apostrophe before them."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    safe = frame.with_columns(pl.col(texts).str.replace(FORMULA, "'$0")) if texts else frame
    safe.rename({name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)}).write_csv(path)


def _frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), infer_schema_length=None)


def _name(run: Run) -> dict[str, Any]:
    return {"setting": run.setting, "method": run.method, "seed": run.seed}


def _runs(runs: list[Run]) -> list[dict[str, Any]]:
    """The figures of each run, with the swept values of its setting."""
    values = swept({run.setting: run.config for run in runs})
    return [
        {
            **_name(run),
            **{key: _cell(value) for key, value in values[run.setting].items()},
            "done": run.done,
            "diverged": diverged(run),
            **summary.figures({run.method: {run.seed: run}})[run.method][run.seed],
        }
        for run in runs
    ]


def _cell(value: Any) -> Any:
    """What was swept as a cell: lists and tables as text, since CSV has neither."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _methods(setting: str, methods: summary.Runs) -> Iterable[dict[str, Any]]:
    for label, runs in summary.figures(methods).items():
        for key in dict.fromkeys(key for figures in runs.values() for key in figures):
            found = centre([figures.get(key) for figures in runs.values()])
            if found is not None:
                spread = {"mean": found.mean, "sd": found.sd, "seeds": found.known, "of": found.total}
                yield {"setting": setting, "method": label, "figure": key, **spread}


def _compared(setting: str, methods: summary.Runs, criteria: Criteria) -> Iterable[dict[str, Any]]:
    """One row a comparison, with all that is known of it."""
    comparison = summary.comparison_of(methods, criteria)
    for figure in COMPARED:
        for one in comparison.every_pair(figure):
            differing = "; ".join(f"{unlike.key}: {unlike.ours} | {unlike.theirs}" for unlike in one.unlike)
            yield {"setting": setting, **asdict(one), "reason": one.reason and str(one.reason), "unlike": differing}
