"""What a comparison found: curves and tables as polars, exports, a plot, a report, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sortition.core.errors import bad
from sortition.results import run_folder
from sortition.results.equal_cost import limits_not_reached
from sortition.results.task_metric import tested_metrics
from sortition.studies.types import TomlTable

if TYPE_CHECKING:
    import altair as alt

    from sortition.report.export import Figure
    from sortition.report.gather import Gathered
    from sortition.report.methods_paragraph import MethodsParagraph
    from sortition.results.comparisons import Criteria
    from sortition.results.table import Table

SHOWN_NOTES = 5  # partitions of several seeds may have one each
NO_NAMES: Mapping[str, str] = {}  # no method is renamed
TRAIN_LOSS = "train_loss"


@dataclass(frozen=True)
class StudyResult:
    """The run folders of a study, read when they are first needed.

    Attributes:
        out: the folder; the same call with ``out=`` this goes on with what is there.
        notes: what the caller should know, such as runs that were stopped, or what was odd about the data.
        run_folders: the run folders of the study; others that the folder holds are left out. None: all that it holds.
    """

    out: Path
    notes: tuple[str, ...] = field(default=())
    run_folders: frozenset[Path] | None = field(default=None, repr=False)

    @cached_property
    def runs(self) -> list[run_folder.Run]:
        """Return one run for each setting, method and seed."""
        runs = run_folder.find(self.out)
        if self.run_folders is None:
            return runs
        return [run for run in runs if run.path in self.run_folders]

    @cached_property
    def criteria(self) -> Criteria:
        """Return by what methods are judged: margin, baseline, and whether all pairs are compared."""
        from sortition.results.comparisons import criteria_of

        return criteria_of([self.out])

    @cached_property
    def curves(self) -> pl.DataFrame:
        """Return one row a round: setting, method, seed, round, accuracy, loss, bytes, clock, …"""
        return run_folder.curves(self.runs)

    @cached_property
    def table(self) -> pl.DataFrame:
        """Return one row a run: setting, method, seed and the standard figures of a finished run."""
        rows = [
            {"setting": run.setting, "method": run.method, "seed": run.seed, **(run.summary.get("figures") or {})}
            for run in self.runs
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def tables(self) -> list[Table]:
        """Return the summary: per setting how well methods learn, and how they compare."""
        from sortition.results import summary

        return summary.tables(self.runs, self.criteria)

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """Return one row a comparison: method, baseline, difference, intervals, p, verdict, the reason for none, …"""
        from sortition.results import frames

        return frames.make_frames(self.runs, self.criteria)["comparisons"]

    def to_pandas(self, what: str = "table") -> Any:
        """Return ``table`` or ``curves`` as a pandas frame; needs pandas."""
        frame = self._frame(what)
        if find_spec("pandas") is None:
            raise bad("to_pandas", "called where pandas is installed", "none", "Try: pip install pandas.")
        pandas = import_module("pandas")
        return pandas.DataFrame(frame.to_dict(as_series=False))

    def to_csv(self, path: str | Path, what: str = "table") -> Path:
        """Write ``table`` or ``curves`` as CSV."""
        from sortition.results.frames import write_csv

        file = _with_folder(path)
        write_csv(self._frame(what), file)
        return file

    def to_latex(
        self,
        path: str | Path | None = None,
        columns: Sequence[str] = (),
        *,
        cost: str | None = None,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        order: Sequence[str] = (),
        rename: Mapping[str, str] = NO_NAMES,
    ) -> str:
        """Return one table a setting as LaTeX (booktabs), with a note on what is bold; also write it to ``path``.

        Args:
            path: of a file to write.
            columns: such as ``["last 10, %", "MB"]``; by default those that decide.
            cost: what is counted: ``rounds``, ``seconds``, ``megabytes`` or ``passes``; by default as the study does.
            only: the methods that are shown. What is tested stays the same, here and below.
            exclude: methods that are not shown.
            order: methods that come first.
            rename: method → the name under which it is shown.
        """
        from sortition.report.export import latex_table

        settings = self._gathered(cost=cost, only=only, exclude=exclude, order=order, rename=rename).settings
        text = "\n".join(f"% {setting.name}\n{latex_table(setting, columns)}" for setting in settings)
        if path is not None:
            _with_folder(path).write_text(text, encoding="utf-8")
        return text

    def figure(
        self,
        chart: str = "accuracy",
        path: str | Path | None = None,
        *,
        setting: str | None = None,
        cost: str | None = None,
        style: str = "paper",
        width: str | float | None = None,
        font: str | None = None,
        text_size: float | None = None,
        legend: str | None = None,
        title: bool = False,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        order: Sequence[str] = (),
        rename: Mapping[str, str] = NO_NAMES,
    ) -> Figure:
        """Return a chart of the report as a figure for a paper or a slide; a notebook shows it. Also write it.

        Args:
            chart: its name, which is that of its files: ``accuracy``, ``loss``, ``difference``, ``forest-last``, …
            path: of a PNG, SVG or PDF file to write; the figure's LaTeX then shows the PDF of this name.
            setting: which one, where several have the chart.
            cost: what curves are drawn against, and at what methods are compared; by default as the study does.
            style: ``paper`` or ``slides``.
            width: inches, ``column`` or ``page``. Default: a column of a paper, the width of a slide.
            font: a family that this machine has, or ``serif``, ``sans-serif`` or ``monospace``.
            text_size: points.
            legend: where names of methods stand: ``lines``, ``top``, ``bottom``, ``right`` or ``none``.
            title: whether lines above the chart say what its lines and bands are, as the caption does.
            only: the methods that are shown. What is tested stays the same.
            exclude: methods that are not shown.
            order: methods that come first.
            rename: method → the name under which it is shown.
        """
        from sortition.report.export import draw_named_chart
        from sortition.report.look import figure_style

        look = figure_style(style, width=width, font=font, text_size=text_size, legend=legend, title=title)
        gathered = self._gathered(cost=cost, only=only, exclude=exclude, order=order, rename=rename)
        figure = draw_named_chart(gathered, chart, look, setting)
        if path is None:
            return figure
        figure.save(path)
        return replace(figure, name=Path(path).stem)

    def _gathered(
        self,
        *,
        cost: str | None,
        only: Sequence[str],
        exclude: Sequence[str],
        order: Sequence[str],
        rename: Mapping[str, str],
    ) -> Gathered:
        """Return the runs of the study for a report, with a choice of its methods."""
        from sortition.report.gather import gather
        from sortition.report.method_choice import MethodChoice

        choice = MethodChoice(only=only, exclude=exclude, order=order, rename=rename)
        return choice.apply(gather([self.out], cost=cost, only=self.run_folders))

    def plot(self, of: str = "", *, cost: str | None = None) -> alt.Chart:
        """Return an Altair chart: the metric of the study, ``loss`` or ``train_loss`` over what the study counts.

        ``cost`` draws it over ``rounds``, ``seconds``, ``megabytes`` or ``passes`` instead; ``train_loss`` is drawn
        over rounds alone. At a cost a curve is the last evaluation up to it, as far as every finished run has spent.

        The line is the mean over seeds and the band its 95 % interval, from three seeds on, as in the report. A
        notebook shows it as a picture, which needs no network.
        """
        import altair as alt

        metrics = dict.fromkeys(metric for run in self.runs for metric in tested_metrics(run.config))
        curves = [*metrics, TRAIN_LOSS]
        of = of or curves[0]
        if of not in curves:
            raise bad("plot", f"one of {', '.join(curves)}", of)
        x, bands = self._bands(of, cost)
        base = alt.Chart(alt.Data(values=bands.to_dicts())).encode(x=alt.X(f"{x}:Q"), color=self._colours())
        band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=of), y2="high:Q")
        lines = base.mark_line().encode(y=alt.Y("mean:Q", title=of, scale=alt.Scale(zero=False)))
        chart = (band + lines).properties(width=420, height=260)
        if bands["setting"].n_unique() > 1:
            chart = chart.facet("setting:N", columns=2)
        return _as_picture(chart)

    def _colours(self) -> alt.Color:
        """Return the colours of methods, which are those of the report."""
        import altair as alt

        from sortition.report.charts.learning import method_colour
        from sortition.report.gather import gather
        from sortition.report.palette import Palette

        gathered = gather([self.out], only=self.run_folders)
        return method_colour(Palette(gathered.methods, gathered.names), alt.Legend(title=None, symbolOpacity=1))

    def _bands(self, of: str, cost: str | None) -> tuple[str, pl.DataFrame]:
        """Return the column that curves are drawn over, and for each of its places the mean over seeds and its band."""
        from sortition.report.charts.learning import clip_bands, curves_at_cost, mean_with_interval
        from sortition.report.gather import gather
        from sortition.results.equal_cost import checked_currency

        if cost is not None:
            checked_currency(cost, "plot")
        if of == TRAIN_LOSS and cost not in (None, "rounds"):
            raise bad("plot.cost", f"'rounds' for {TRAIN_LOSS}, which is of rounds", cost)
        settings = gather([self.out], cost=cost, only=self.run_folders).settings
        currencies = {setting.currency for setting in settings}
        if of == TRAIN_LOSS or currencies == {"rounds"}:
            evaluated = self.curves.filter(pl.col(of).is_not_null())
            bands = mean_with_interval(evaluated.rename({of: "value"}), ["setting", "method", "round"])
            return "round", clip_bands(bands, of)
        if len(currencies) > 1:
            raise bad("plot.cost", "given where settings count different costs", cost)
        currency = currencies.pop()
        curves = pl.concat(curves_at_cost(setting, of, currency) for setting in settings)
        bands = mean_with_interval(curves.rename({"x": currency}), ["setting", "method", currency])
        return currency, clip_bands(bands, of)

    def report(
        self,
        path: str | Path = "report.html",
        *,
        figures: str | Path | None = None,
        baseline: str | None = None,
        all_pairs: bool | None = None,
        cost: str | None = None,
    ) -> Path:
        """Write the report page, and with ``figures`` its pictures and LaTeX tables into that folder, for a paper.

        ``baseline``, ``all_pairs`` and ``cost`` are those of the study unless they are given.
        """
        from sortition.report import write
        from sortition.report.look import FigureFiles

        return write(
            [self.out],
            _with_folder(path),
            figures=None if figures is None else FigureFiles(Path(figures)),
            baseline=baseline,
            all_pairs=all_pairs,
            cost=cost,
            only=self.run_folders,
        )

    def methods_paragraph(self) -> MethodsParagraph:
        """Return what a paper says of the study: setting, seeds, hashes, versions, hardware, hours, statistics.

        ``.text`` and ``.latex`` are the paragraph, ``.answers`` those to reproducibility checklists, ``.bibtex`` the
        entries of all methods; printed, it shows all of them.
        """
        from sortition.report.gather import gather
        from sortition.report.methods_paragraph import write_methods_paragraph

        return write_methods_paragraph(gather([self.out], only=self.run_folders))

    def pack(self, path: str | Path | None = None) -> Path:
        """Write the folder of the study into one file for a co-author; default: beside the folder, with its name."""
        from sortition.report.pack_with_page import pack_study

        return pack_study(self.out, path)

    def _frame(self, what: str) -> pl.DataFrame:
        if what not in ("table", "curves"):
            raise bad("what", "'table' or 'curves'", what)
        if what == "table":
            return self.table
        return self.curves

    @cached_property
    def conclusions(self) -> list[str]:
        """Return one sentence for each method: better, worse, practically equal or undecided against the baseline."""
        from sortition.results import summary

        return summary.conclusions(self.runs, self.criteria)

    def forest(self, of: str = "last") -> list[TomlTable]:
        """Return the forest plot of each setting that has one, as Vega-Lite: differences from the baseline.

        ``of``: ``last`` for the last ten evaluations, ``mean`` for all rounds. Where methods are compared at a cost
        other than rounds, ``last`` is the figure at that cost, and ``mean`` the mean up to it.
        """
        from sortition.report.charts.forest import draw_forest
        from sortition.report.gather import gather

        if of not in ("last", "mean"):
            raise bad("forest", "'last' or 'mean'", of)
        place = ("last", "mean").index(of)
        settings = gather([self.out], only=self.run_folders).settings
        plots = [draw_forest(setting, setting.comparison.compared_figures[place]) for setting in settings]
        return [plot.spec() for plot in plots if plot is not None]

    @cached_property
    def heading(self) -> str:
        """Return which figure the conclusions compare, with what."""
        from sortition.results import summary

        return summary.heading(self.runs, self.criteria)

    @cached_property
    def inputs(self) -> list[str]:
        """Return one sentence for each data set: what the inputs are, and what was done to them."""
        from sortition.results import summary

        return summary.input_sentences(self.runs)

    def __str__(self) -> str:
        paragraphs = list(self.inputs)
        if self.conclusions:
            paragraphs.append("\n".join([self.heading, *(f"- {sentence}" for sentence in self.conclusions)]))
        paragraphs += [table.markdown() for table in self.tables]
        paragraphs += [f"*{note}*" for note in self.notes]
        return "\n\n".join(paragraphs)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what the inputs are, verdicts, forest plots and tables."""
        parts = [f"<p>{escape(sentence)}</p>" for sentence in self.inputs]
        if self.conclusions:
            items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.conclusions)
            parts.append(f"<p>{escape(self.heading)}</p><ul>{items}</ul>")
            parts += [_picture(spec) for spec in self.forest()]
        parts += [table.html() for table in self.tables]
        parts += [f"<p><i>{escape(note)}</i></p>" for note in self.notes]
        return "".join(parts)


def left_out_note(runs: Sequence[run_folder.Run], run_folders: Collection[Path]) -> list[str]:
    """Return a note on the runs of a folder that a study does not have, such as those of a method that was removed."""
    other_runs = [run for run in runs if run.path not in run_folders]
    if not other_runs:
        return []
    labels = {path.parent.name for path in run_folders}
    methods = list(dict.fromkeys(run.method for run in other_runs if run.method not in labels))
    seeds = sorted({run.seed for run in other_runs if run.method in labels})
    names = [f"method {label}" for label in methods] + [f"seed {seed}" for seed in seeds]
    listed = ", ".join(names[:SHOWN_NOTES])
    if len(names) > SHOWN_NOTES:
        listed += ", …"
    in_brackets = f" ({listed})" if names else ""
    if len(other_runs) == 1:
        subject = "1 run that is"
    else:
        subject = f"{len(other_runs):,} runs that are"
    return [f"The folder holds {subject} not of this study{in_brackets}: left out here, shown by sortition report."]


def notes_of(runs: Sequence[run_folder.Run]) -> list[str]:
    """Return what runs note on data, partitions, availability and limits: each once, the first of many."""
    notes: dict[str, None] = dict.fromkeys(limits_not_reached(runs))
    for run in runs:
        notes_of_run = run.manifest.get("notes")
        if isinstance(notes_of_run, list):
            notes |= {str(note): None for note in notes_of_run}
    first_notes = list(notes)[:SHOWN_NOTES]
    if len(notes) > SHOWN_NOTES:
        first_notes.append(f"{len(notes) - SHOWN_NOTES:,} more notes are in the manifests of the runs.")
    return first_notes


def _as_picture(chart: alt.Chart) -> alt.Chart:
    """Return the same chart, which a notebook shows as SVG; Altair's own form needs JavaScript from a network."""
    cls = type(chart)
    methods = {"_repr_mimebundle_": lambda self, *_, **__: {"image/svg+xml": _picture(self.to_dict())}}
    object.__setattr__(chart, "__class__", type(cls.__name__, (cls,), methods))
    return chart


def _picture(spec: TomlTable) -> str:
    """Return a chart as SVG, which needs no network and no JavaScript."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


def _with_folder(path: str | Path) -> Path:
    """Return the path of a file, whose folder is made where it is missing."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
