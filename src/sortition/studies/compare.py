"""Studies from Python: the same tables as in a file, the records as polars, the summary as what a notebook shows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sortition.core.errors import SortitionError
from sortition.results import run_folder, summary
from sortition.results.table import Table
from sortition.studies.plan import plan, read
from sortition.studies.runs import runner
from sortition.studies.runs.progress import Progress


@dataclass(frozen=True)
class Results:
    """The run folders of a study, read when asked for."""

    out: Path

    @cached_property
    def runs(self) -> list[run_folder.Run]:
        """One a method, setting and seed."""
        return run_folder.find(self.out)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a round: setting, method, seed, round, accuracy, loss, bytes, clock, …"""
        return run_folder.curves(self.runs)

    @cached_property
    def figures(self) -> pl.DataFrame:
        """One row a run: its standard figures."""
        names = [{"setting": r.setting, "method": r.method, "seed": r.seed} for r in self.runs]
        return pl.DataFrame(
            [{**name, **run.summary.get("figures", {})} for name, run in zip(names, self.runs, strict=True)],
            infer_schema_length=None,
        )

    @property
    def tables(self) -> list[Table]:
        """The summary tables."""
        return summary.tables(self.runs)

    def __str__(self) -> str:
        return "\n\n".join(table.markdown() for table in self.tables)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables)


def study(
    source: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    sets: Iterable[str] = (),
    jobs: int | None = 1,
    on: str | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run what is missing of a study, given as a file or as a table with the same keys.

    Args:
        source: a TOML file, or its table as a dictionary.
        out: the folder of runs; one that holds some of them is resumed. Default: a new temporary folder.
        sets: ``a.b=c`` overrides.
        jobs: processes at a time, None for all there is room for; more than one needs methods that another process can
            import.
        on: the Ray cluster where runs are played, ``ray`` or ``ray://host:port``; default: this machine.
        progress: what to show meanwhile; default nothing.
    """
    table = read(source) if isinstance(source, str | Path) else dict(source)
    folder = Path(tempfile.mkdtemp(prefix="sortition-")) if out is None else Path(out)
    outcome = runner.execute(plan(table, tuple(sets)), folder, jobs=jobs, resume=True, progress=progress, on=on)
    if outcome.failed:
        where, why = next(iter(outcome.failed.items()))
        raise SortitionError(f"{len(outcome.failed)} runs failed; the first, {where}: {why}")
    if outcome.interrupted:
        raise KeyboardInterrupt
    return Results(folder)
