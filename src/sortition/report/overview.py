"""The first screen: the answer, cards, forest plots, the table of what decides; and all settings beside each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape

from sortition.report.charts import Chart, across, forest, sweeps
from sortition.report.gather import Gathered, Setting
from sortition.report.markup import Cell, items, plain, sortable
from sortition.report.palette import Palette
from sortition.report.tables import BOLD, Row, bold_cells, rows
from sortition.report.verdicts import COLOURS, Card, cards, page_note, verdict_lines
from sortition.results.ranking import wins
from sortition.results.statistics import VERDICTS, Comparison
from sortition.results.summary import every_pair
from sortition.results.sweeps import swept, value_text, variants
from sortition.results.table import Table
from sortition.results.verdict_words import difference_text, heading, unfair_warning, unit_of, verdict_text

Show = Callable[[str, Chart], str]  # of the page: takes a setting's name and a chart, gives its place
NOTE = (
    f"Mean ± sd over seeds; a click on a heading sorts. {BOLD} Other columns are not tested. Differences are paired "
    "over seeds: their 95 % intervals hold for all methods of the setting together, and p and verdicts follow from "
    "them. Rounds to the target (of the 5-round mean) count only seeds that reached it. Jain's index is relative to "
    "availability."
)
FIT = 8  # columns of figures beside each other that fit A4
BEST_OF = (
    "The best value of each method was chosen on the same seeds that are shown: expect a little less on new ones, and "
    "compare methods that were given the same number of values."
)


def of_setting(setting: Setting, palette: Palette, show: Show) -> str:
    """Cards, forest plots and table of one setting."""
    plots = [chart for figure in ("last", "mean") if (chart := forest.forest(setting, figure))]
    drawn = "".join(show(setting.name, chart) for chart in plots)
    tuned = "".join(show(setting.name, chart) for chart in sweeps.tuning(setting, palette))
    return (
        f'<div class="cards">{"".join(map(card_html, cards(setting)))}</div>'
        f'<div class="figures">{drawn}</div>{_main_table(setting, palette)}'
        f'<p class="soft">{NOTE}</p>{_warning(setting)}'
        f"{_every_pair(setting)}"
        f"<details><summary>In words</summary>{_in_words(setting)}</details>"
        f"<details><summary>All figures</summary>{_all_figures(setting, palette)}</details>"
        f'<div class="figures">{tuned}</div>{_best_of(setting)}'
    )


def _warning(setting: Setting) -> str:
    """What makes comparisons of this setting unfair; nothing where all are fair."""
    warning = unfair_warning(setting.comparison.shown_first())
    return f'<p class="warn">{escape(warning)}</p>' if warning else ""


def _every_pair(setting: Setting) -> str:
    """The table of all pairs, where they are compared."""
    if not setting.criteria.all_pairs:
        return ""
    return plain(replace(every_pair(setting.name, setting.comparison), title="All pairs, last 10"))


def _in_words(setting: Setting) -> str:
    """A sentence a method, below what they compare."""
    evaluated = max(run.rounds.size for run in setting.runs)
    above = f"<p>{escape(heading(setting.metric, setting.baseline, evaluated))}</p>" if setting.baseline else ""
    return above + items(verdict_lines(setting))


def card_html(card: Card) -> str:
    """A card: its title, its value, and a detail."""
    value = f'<strong class="{card.kind}">{escape(card.value)}</strong>'
    texts = (f'<span class="soft">{escape(text)}</span>' for text in (card.title, card.detail))
    return f'<div class="card">{value.join(texts)}</div>'


def _main_table(setting: Setting, palette: Palette) -> str:
    """The figures that decide."""
    made = rows(setting, whole=False)
    uneven = len({(row.seeds, row.finished) for row in made}) > 1 or any(row.finished < row.seeds for row in made)
    first = {"verdict": _verdict, **({"seeds": _seeds} if uneven else {})}
    return _table(setting, palette, made, first, list(made[0].cells))


def _all_figures(setting: Setting, palette: Palette) -> str:
    """Every figure, in tables that fit a screen and a sheet of paper."""
    made = rows(setting, whole=True)
    titles = list(made[0].cells)
    parts = [titles[at : at + FIT] for at in range(0, len(titles), FIT)]
    return "".join(
        _table(setting, palette, made, {} if at else {"seeds": _seeds}, part) for at, part in enumerate(parts)
    )


def _table(
    setting: Setting, palette: Palette, made: list[Row], first: Mapping[str, Callable[[Row], Cell]], titles: list[str]
) -> str:
    """The methods, what ``first`` makes of each, then the cells under these titles."""
    bold = bold_cells(setting, made)
    body = [
        [
            Cell(row.label, kind="name", before=_swatch(palette, row.label)),
            *[make(row) for make in first.values()],
            *[Cell(row.cells[key], row.values[key], (row.label, key) in bold) for key in titles],
        ]
        for row in made
    ]
    return sortable(["method", *first, *titles], body)


def _seeds(row: Row) -> Cell:
    return Cell(f"{row.finished}/{row.seeds} done" if row.finished < row.seeds else f"{row.seeds}", row.seeds)


def _swatch(palette: Palette, label: str) -> str:
    return f'<span class="swatch" style="border-color:{palette.colour(label)}"></span>'


def _verdict(row: Row) -> Cell:
    words = f"{row.verdict}, diverged {row.diverged}/{row.seeds}" if row.diverged else row.verdict
    return Cell(words, kind=f"verdict {'bad' if row.diverged else _kind(row.comparison)}")


def _kind(comparison: Comparison | None) -> str:
    """The colour of a verdict; one that is not fair has that of the undecided."""
    if comparison is None:
        return "even"
    return "open" if comparison.unlike else COLOURS[comparison.verdict]


def _best_of(setting: Setting) -> str:
    """Each method at its best value, where a study tries several."""
    found = variants({label: runs[0].config for label, runs in setting.methods.items()})
    if not found:
        return ""
    compared, of, sign = setting.compared(), setting.metric, 1 if setting.higher else -1
    unit = unit_of(of)
    table = Table("Best of each method", ["method", "tried", "best value", f"last 10 {of}", f"− {setting.baseline}"])
    for name, labels in found.items():
        means = {
            label: v for label in labels if (v := setting.mean(label, f"last-{of}")) is not None and math.isfinite(v)
        }
        if not means:
            continue
        label = max(means, key=lambda one: sign * means[one])
        values = ", ".join(f"{key}={value_text(value)}" for key, value in labels[label].items())
        mean = f"{means[label] * unit.scale:.{unit.digits}f}"
        table.rows.append([name, str(len(labels)), values, mean, difference_text(compared.get(label))])
    table.notes = [BEST_OF]
    return plain(table)


def of_all(gathered: Gathered, palette: Palette, show: Show) -> str:
    """Ranks, profiles, sweeps and the count of verdicts; empty for a single setting."""
    if len(gathered.settings) < 2:
        return ""
    charts = [*across.figures(gathered, palette), *sweeps.figures(gathered, palette)]
    drawn = "".join(show("all", chart) for chart in charts)
    return f'<h3>All settings</h3>{_wins(gathered)}<div class="figures">{drawn}</div>{_settings(gathered)}'


def _wins(gathered: Gathered) -> str:
    found = wins([setting.compared() for setting in gathered.settings])
    if not found:
        return ""
    table = Table("Verdicts over settings", ["method", *VERDICTS])
    table.rows = [[label, *[str(counts[verdict]) for verdict in VERDICTS]] for label, counts in found.items()]
    table.notes = [f"{page_note(gathered)} The sentence at the top of the page takes all comparisons together."]
    return plain(table)


def _settings(gathered: Gathered) -> str:
    """One row a setting and method, the swept values as columns."""
    values = swept({setting.name: setting.first.config for setting in gathered.settings})
    keys = list(next(iter(values.values())))
    if len(keys) > 8:  # settings of different kinds: their names say more than every key that differs
        keys = []
    heads = ["setting", *keys, "method", "last 10", "− baseline", "verdict"]
    body = []
    for setting in gathered.settings:
        compared = setting.compared()
        given = [value_text(values[setting.name][key]) for key in keys]
        for label in setting.methods:
            one, mean = compared.get(label), setting.mean(label, f"last-{setting.metric}")
            body.append(
                [
                    Cell(setting.name, kind="name"),
                    *map(Cell, given),
                    Cell(label),
                    Cell("" if mean is None else f"{mean:.3f}", mean),
                    Cell(difference_text(one), one.difference if one else None),
                    Cell(verdict_text(one) or "–", kind=f"verdict {_kind(one)}"),
                ]
            )
    return f"<details><summary>Every setting and method</summary>{sortable(heads, body)}</details>"
