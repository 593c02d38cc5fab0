"""Every table of a study as data: runs, curves, comparisons and methods, for CSV and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from sortition.core.errors import InputError, bad
from sortition.results import run_folder, summary
from sortition.results.comparisons import DEFAULT, Criteria
from sortition.results.metrics import diverged, figures_of, wall_clock
from sortition.results.run_folder import Run
from sortition.results.statistics import Comparison, centre
from sortition.results.sweeps import find_swept_values

FORMATS = ("csv", "parquet")
Row = dict[str, Any]  # column → text, number, truth value or None
FORMULA = r"^[=+\-@\t\r]"  # how a formula begins in a spreadsheet


def make_frames(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> dict[str, pl.DataFrame]:
    """Return name → table: ``rounds`` (one row a round), ``runs`` (a run), ``methods`` (means) and ``comparisons``."""
    chosen = list(runs)
    if not chosen:
        raise InputError("There must be at least one run to export; got none. Make some with: sortition run study.toml")
    groups = summary.sort_finished(chosen).groups
    methods = [row for setting, methods in groups.items() for row in _method_rows(setting, methods, criteria)]
    comparisons = [row for setting, methods in groups.items() for row in _comparison_rows(setting, methods, criteria)]
    return {
        "rounds": run_folder.curves(chosen),
        "runs": _frame(_run_rows(chosen)),
        "methods": _frame(methods),
        "comparisons": _frame(comparisons),
    }


def write_frames(tables: dict[str, pl.DataFrame], folder: Path, kind: str = "csv") -> list[Path]:
    """Write one file a table and return their paths; empty tables are left out."""
    if kind not in FORMATS:
        raise bad("--format", f"one of {', '.join(FORMATS)}", kind)
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in tables.items():
            if frame.height:
                path = folder / f"{name}.{kind}"
                paths.append(path)
                if kind == "csv":
                    write_csv(frame, path)
                else:
                    frame.write_parquet(path)
    except OSError as error:
        raise bad("-o", "a folder that can be written", str(folder), f"{error.strerror or error}.") from None
    return paths


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Write a table as CSV; texts that a spreadsheet would take for a formula get an apostrophe before them."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    if texts:
        frame = frame.with_columns(pl.col(texts).str.replace(FORMULA, "'$0"))
    frame.rename({name: escape_formula(name) for name in frame.columns}).write_csv(path)


def escape_formula(text: str) -> str:
    """Return a text that a spreadsheet takes for a text, with an apostrophe before what would be a formula."""
    if re.match(FORMULA, text):
        return f"'{text}"
    return text


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _run_rows(runs: Sequence[Run]) -> list[Row]:
    """Return the figures of each run, with the swept values of its setting."""
    values_by_setting = find_swept_values({run.setting: run.config for run in runs})
    return [
        {
            "setting": run.setting,
            "method": run.method,
            "seed": run.seed,
            **{key: _cell(value) for key, value in values_by_setting[run.setting].items()},
            "done": run.done,
            "diverged": diverged(run),
            **figures_of(run),
            "wall-clock": wall_clock(run),
        }
        for run in runs
    ]


def _cell(value: Any) -> Any:
    """Return what was swept as a cell: lists and tables as text, since CSV has neither."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return value


def _method_rows(setting: str, methods: summary.Runs, criteria: Criteria) -> Iterator[Row]:
    """Yield one row a figure of a method, those at equal cost included where a cost other than rounds is counted."""
    for label, runs in summary.figures_by_seed(methods, summary.budget_of(methods, criteria)).items():
        for key in dict.fromkeys(key for figures in runs.values() for key in figures):
            middle = centre([figures.get(key) for figures in runs.values()])
            if middle is not None:
                yield {
                    "setting": setting,
                    "method": label,
                    "figure": key,
                    "mean": middle.mean,
                    "sd": middle.sd,
                    "seeds": middle.n_known,
                    "of": middle.total,
                }


def _comparison_rows(setting: str, methods: summary.Runs, criteria: Criteria) -> Iterator[Row]:
    """Yield one row a comparison, with all that is known of it."""
    comparison = summary.comparison_of(methods, criteria)
    for figure in comparison.compared_figures:
        for pair in comparison.every_pair(figure):
            yield {"setting": setting, **_comparison_row(pair)}
    for pair in [*comparison.to_target, *comparison.worst_tenth]:
        yield {"setting": setting, **_comparison_row(pair)}


def _comparison_row(pair: Comparison) -> Row:
    row = asdict(pair)
    del row["window"]
    del row["budget"]
    row["cost"] = "rounds" if pair.budget is None else pair.budget.currency
    row["budget"] = None if pair.budget is None else pair.budget.amount
    row["averaged_rounds"] = pair.window.rounds if pair.window is not None else None
    row["evaluations"] = pair.window.evaluations if pair.window is not None else None
    row["reason"] = str(pair.reason) if pair.reason is not None else None
    row["unlike"] = "; ".join(
        f"{unlike.key}: {unlike.method_value} | {unlike.baseline_value}" for unlike in pair.unlike
    )
    return row
