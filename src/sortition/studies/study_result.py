"""What a comparison found: curves and tables as polars, exports, a plot, a report, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sortition.core.errors import bad
from sortition.results import run_folder

if TYPE_CHECKING:
    from sortition.results.comparisons import Criteria
    from sortition.results.table import Table

NOTES = 5  # that are shown; partitions of several seeds may have one each
CURVES = ("accuracy", "loss", "train_loss")


@dataclass(frozen=True)
class StudyResult:
    """The run folders of a study, read when they are first needed.

    Attributes:
        out: the folder; the same call with ``out=`` this goes on with what is there.
        notes: what the caller should know, such as runs that were stopped, or what was odd about the data.
        asked: the run folders of the study; others that the folder holds are left out. None: all that it holds.
    """

    out: Path
    notes: tuple[str, ...] = field(default=())
    asked: frozenset[Path] | None = field(default=None, repr=False)

    @cached_property
    def runs(self) -> list[run_folder.Run]:
        """One for each setting, method and seed."""
        return [run for run in run_folder.find(self.out) if self.asked is None or run.path in self.asked]

    @cached_property
    def criteria(self) -> Criteria:
        """By what methods are judged: margin, baseline, and whether all pairs are compared."""
        from sortition.results.comparisons import criteria_of

        return criteria_of([self.out])

    @cached_property
    def curves(self) -> pl.DataFrame:
        """One row a round: setting, method, seed, round, accuracy, loss, bytes, clock, …"""
        return run_folder.curves(self.runs)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row a run: setting, method, seed and the standard figures of a finished run."""
        rows = [
            {"setting": run.setting, "method": run.method, "seed": run.seed, **(run.summary.get("figures") or {})}
            for run in self.runs
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def tables(self) -> list[Table]:
        """The summary: per setting how well methods learn, and how they compare."""
        from sortition.results import summary

        return summary.tables(self.runs, self.criteria)

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """One row a comparison: method, baseline, difference, intervals, p, verdict, why there is none, and more."""
        from sortition.results import frames

        return frames.frames(self.runs, self.criteria)["comparisons"]

    def to_pandas(self, what: str = "table") -> Any:
        """``table`` or ``curves`` as a pandas frame; needs pandas."""
        frame = self._frame(what)
        if find_spec("pandas") is None:
            raise bad("to_pandas", "called where pandas is installed", "none", "Try: pip install pandas.")
        return import_module("pandas").DataFrame(frame.to_dict(as_series=False))

    def to_csv(self, path: str | Path, what: str = "table") -> Path:
        """Write ``table`` or ``curves`` as CSV."""
        from sortition.results.frames import write_csv

        made = _parent(path)
        write_csv(self._frame(what), made)
        return made

    def to_latex(self, path: str | Path | None = None, columns: Sequence[str] = ()) -> str:
        """One table a setting as LaTeX (booktabs), with a note that says what is bold; also written to ``path``.

        ``columns``: such as ``["last 10, %", "MB"]``; by default those that decide.
        """
        from sortition.report.export import latex
        from sortition.report.gather import gather

        text = "\n".join(f"% {one.name}\n{latex(one, columns)}" for one in gather([self.out], only=self.asked).settings)
        if path is not None:
            _parent(path).write_text(text, encoding="utf-8")
        return text

    def plot(self, of: str = "accuracy") -> Any:
        """An Altair chart: ``accuracy``, ``loss`` or ``train_loss`` over rounds.

        The line is the mean over seeds and the band its 95 % interval, from three seeds on, as in the report. A
        notebook shows it as a picture, which needs no network.
        """
        import altair as alt

        from sortition.report.charts.learning import banded

        if of not in CURVES:
            raise bad("plot", f"one of {', '.join(CURVES)}", of)
        known = self.curves.filter(pl.col(of).is_not_null())
        spread = banded(known.rename({of: "value"}), ["setting", "method", "round"])
        base = alt.Chart(alt.Data(values=spread.to_dicts())).encode(x=alt.X("round:Q"), color=alt.Color("method:N"))
        band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=of), y2="high:Q")
        lines = base.mark_line().encode(y=alt.Y("mean:Q", title=of, scale=alt.Scale(zero=False)))
        chart = (band + lines).properties(width=420, height=260)
        settings = known["setting"].unique(maintain_order=True)
        return _as_picture(chart if len(settings) < 2 else chart.facet("setting:N", columns=2))

    def report(
        self,
        path: str | Path = "report.html",
        *,
        figures: str | Path | None = None,
        baseline: str | None = None,
        all_pairs: bool | None = None,
    ) -> Path:
        """Write the report page, and with ``figures`` its pictures and LaTeX tables into that folder.

        ``baseline`` and ``all_pairs`` are those of the study unless they are given.
        """
        from sortition.report import write

        return write(
            [self.out], _parent(path), figures=figures, baseline=baseline, all_pairs=all_pairs, only=self.asked
        )

    def _frame(self, what: str) -> pl.DataFrame:
        if what not in ("table", "curves"):
            raise bad("what", "'table' or 'curves'", what)
        return self.table if what == "table" else self.curves

    @cached_property
    def conclusions(self) -> list[str]:
        """One sentence for each method: better, worse, practically equal or undecided against the baseline."""
        from sortition.results import summary

        return summary.conclusions(self.runs, self.criteria)

    def forest(self, of: str = "last") -> list[dict[str, Any]]:
        """The forest plot of each setting that has one, as Vega-Lite: differences from the baseline, with intervals.

        ``of``: ``last`` for the last ten evaluations, ``mean`` for all rounds.
        """
        from sortition.report.charts.forest import forest
        from sortition.report.gather import gather

        if of not in ("last", "mean"):
            raise bad("forest", "'last' or 'mean'", of)
        plots = [forest(setting, of) for setting in gather([self.out], only=self.asked).settings]
        return [plot.spec() for plot in plots if plot is not None]

    @cached_property
    def heading(self) -> str:
        """Which figure the conclusions compare, with what."""
        from sortition.results import summary

        return summary.heading(self.runs, self.criteria)

    @cached_property
    def inputs(self) -> list[str]:
        """What the models got, one sentence for each data set: what the inputs are, and what was done to them."""
        from sortition.results import summary

        return summary.inputs(self.runs)

    def __str__(self) -> str:
        verdicts = "\n".join([self.heading, *(f"- {one}" for one in self.conclusions)]) if self.conclusions else ""
        tables = [table.markdown() for table in self.tables]
        notes = [f"*{note}*" for note in self.notes]
        return "\n\n".join([*self.inputs, *([verdicts] if verdicts else []), *tables, *notes])

    def _repr_html_(self) -> str:
        """What the inputs are, verdicts, forest plots and tables."""
        inputs = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.inputs)
        verdicts = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.conclusions)
        plots = "".join(_picture(spec) for spec in self.forest()) if verdicts else ""
        words = f"<p>{escape(self.heading)}</p><ul>{verdicts}</ul>" if verdicts else ""
        tables = "".join(table.html() for table in self.tables)
        notes = "".join(f"<p><i>{escape(note)}</i></p>" for note in self.notes)
        return f"{inputs}{words}{plots}{tables}{notes}"


def left_out_note(runs: Sequence[run_folder.Run], asked: Collection[Path]) -> list[str]:
    """A note on the runs of a folder that a study does not ask for, such as those of a method that was removed."""
    others = [run for run in runs if run.path not in asked]
    if not others:
        return []
    labels = {path.parent.name for path in asked}
    seeds = sorted({run.seed for run in others if run.method in labels})
    methods = list(dict.fromkeys(run.method for run in others if run.method not in labels))
    which = [f"method {label}" for label in methods] + [f"seed {seed}" for seed in seeds]
    listed = f" ({', '.join(which[:NOTES])}{', …' if len(which) > NOTES else ''})" if which else ""
    words = "1 run that is" if len(others) == 1 else f"{len(others):,} runs that are"
    return [f"The folder holds {words} not of this study{listed}: left out here, shown by sortition report."]


def notes_of(runs: Sequence[run_folder.Run]) -> list[str]:
    """What the manifests of runs note on data, partitions and availability: each once, the first of many."""
    lists = [run.manifest.get("notes") for run in runs]
    noted = list(dict.fromkeys(str(note) for one in lists if isinstance(one, list) for note in one))
    more = [f"{len(noted) - NOTES:,} more notes are in the manifests of the runs."] if len(noted) > NOTES else []
    return [*noted[:NOTES], *more]


def _as_picture(chart: Any) -> Any:
    """The same chart, which a notebook shows as SVG; Altair's own form needs JavaScript from a network."""
    kind = type(chart)
    shown = {"_repr_mimebundle_": lambda self, *_, **__: {"image/svg+xml": _picture(self.to_dict())}}
    object.__setattr__(chart, "__class__", type(kind.__name__, (kind,), shown))
    return chart


def _picture(spec: dict[str, Any]) -> str:
    """A chart as SVG, which needs no network and no JavaScript."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


def _parent(path: str | Path) -> Path:
    made = Path(path)
    made.parent.mkdir(parents=True, exist_ok=True)
    return made
