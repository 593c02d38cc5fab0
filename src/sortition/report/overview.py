"""The first screen: the answer, cards, who was chosen, forest plots, what decides; all settings beside each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np

from sortition.report.charts import across, forest, swept_values
from sortition.report.document import ALL_SETTINGS, Canvas
from sortition.report.gather import Gathered, Setting
from sortition.report.look import Look
from sortition.report.markup import Cell, list_html, sortable_table_html, table_html
from sortition.report.palette import Palette
from sortition.report.strips import Strip, draw_strips
from sortition.report.tables import BOLD, Row, bold_cells, mean_text, method_rows, percent_ending
from sortition.report.verdicts import VERDICT_CLASSES, Card, leader_cards, verdict_lines
from sortition.results.ranking import count_verdicts
from sortition.results.statistics import VERDICTS, Comparison
from sortition.results.summary import every_pair
from sortition.results.sweeps import find_swept_values, value_text, variants
from sortition.results.table import Table
from sortition.results.verdict_words import (
    difference_text,
    equal_cost_text,
    heading,
    several_settings_note,
    unfair_warning,
    verdict_text,
)

TABLE_NOTE = (
    f"Mean ± sd over seeds; a click on a heading sorts. {BOLD} Other columns are not tested. Differences are paired "
    "over seeds: their 95 % intervals hold for all methods of the setting together, and p and verdicts follow from "
    "them. Costs to the target (of the 5-round mean) count only seeds that reached it. Jain's index is relative to "
    "availability."
)
COLUMNS_THAT_FIT = 8  # columns of figures beside each other on A4
STRIPS = 3  # methods whose choices are shown first
STRIP_ROUNDS = 40
MOST_CLIENTS = 120  # whose rows can be told apart there
MOST_SWEPT_KEYS = 8  # with more, settings are of different kinds, and their names say more than every key that differs
BEST_OF = (
    "The best value of each method was chosen on the same seeds that are shown: expect a little less on new ones, and "
    "compare methods that were given the same number of values."
)


def setting_html(setting: Setting, look: Look, canvas: Canvas) -> str:
    """Return cards, forest plots and tables of one setting as markup."""
    forests = canvas.add_figures(setting.name, forest.draw_forests(setting))
    tuning = "".join(canvas.add_chart(setting.name, chart) for chart in swept_values.draw_tuning_charts(setting, look))
    return (
        f'<div class="cards">{"".join(map(card_html, leader_cards(setting)))}</div>'
        f"{_who_was_chosen_html(setting)}"
        f"{forests}{_main_table_html(setting, look.palette)}"
        f'<p class="soft">{TABLE_NOTE}{escape(_equal_cost_sentence(setting))}</p>{_warning_html(setting)}'
        f"{_every_pair_html(setting)}"
        f"<details><summary>In words</summary>{_verdicts_html(setting)}</details>"
        f"<details><summary>All figures</summary>{_all_figures_html(setting, look.palette)}</details>"
        f'<div class="figures">{tuning}</div>{_best_values_html(setting)}'
    )


def _who_was_chosen_html(setting: Setting) -> str:
    """Draw whom the baseline, the leader and one more method chose; nothing where there are too many clients to see."""
    counts = setting.first.counts
    if not counts or counts["selected"].size > MOST_CLIENTS:
        return ""
    labels = [label for label in (setting.baseline, setting.comparison.leader) if label in setting.methods]
    shown = list(dict.fromkeys([*labels, *setting.methods]))[:STRIPS]
    n_rounds = min(STRIP_ROUNDS, *(len(setting.methods[label][0].cohorts) for label in shown))
    if n_rounds == 0:
        return ""
    strips = [_strip_of(setting, label, n_rounds) for label in shown]
    title = f"Who was chosen when: seed {setting.first.seed}, rounds 1 to {n_rounds}"
    return f'<figure class="strips"><h3>{title}</h3>{draw_strips(strips, setting.label_counts, title)}</figure>'


def _strip_of(setting: Setting, label: str, n_rounds: int) -> Strip:
    cohorts = setting.methods[label][0].cohorts[:n_rounds]
    chosen = np.zeros((n_rounds, setting.first.counts["selected"].size), bool)
    for round_index, cohort in enumerate(cohorts):
        chosen[round_index, cohort] = True
    mask = setting.availability
    available = np.ones_like(chosen) if mask is None else mask[:n_rounds].astype(bool)
    return Strip(method=label, available=available, chosen=chosen)


def _equal_cost_sentence(setting: Setting) -> str:
    """Say what methods are compared at, where another cost is counted than rounds."""
    budget = setting.comparison.budget
    if budget is None:
        return ""
    return f" {equal_cost_text(budget)}"


def _warning_html(setting: Setting) -> str:
    """Say what makes comparisons of this setting unfair; nothing where all are fair."""
    warning = unfair_warning(setting.comparison.shown_first())
    if warning:
        return f'<p class="warn">{escape(warning)}</p>'
    return ""


def _every_pair_html(setting: Setting) -> str:
    """Return the table of all pairs, where they are compared."""
    if not setting.criteria.all_pairs:
        return ""
    title = f"All pairs, {setting.end_title}"
    return table_html(replace(every_pair(setting.name, setting.comparison), title=title))


def _verdicts_html(setting: Setting) -> str:
    """Return one sentence a method, below what the sentences compare."""
    sentences = list_html(verdict_lines(setting))
    if setting.baseline is None:
        return sentences
    above = heading(setting.metric, setting.baseline, setting.comparison.basis)
    return f"<p>{escape(above)}</p>{sentences}"


def card_html(card: Card) -> str:
    """Return a card as markup: its title, its value, and a detail."""
    return (
        f'<div class="card"><span class="soft">{escape(card.title)}</span>'
        f'<strong class="{card.kind}">{escape(card.value)}</strong>'
        f'<span class="soft">{escape(card.detail)}</span></div>'
    )


def _main_table_html(setting: Setting, palette: Palette) -> str:
    """Return the table of the figures that decide; it counts seeds where methods have different numbers of them."""
    table_rows = method_rows(setting, whole=False)
    first_columns: dict[str, Callable[[Row], Cell]] = {"verdict": _verdict_cell}
    is_uneven = len({(row.seeds, row.finished) for row in table_rows}) > 1
    if is_uneven or any(row.finished < row.seeds for row in table_rows):
        first_columns["seeds"] = _seeds_cell
    return _methods_table_html(
        setting,
        palette,
        table_rows=table_rows,
        first_columns=first_columns,
        titles=list(table_rows[0].cells),
    )


def _all_figures_html(setting: Setting, palette: Palette) -> str:
    """Return every figure, in tables that fit a screen and a sheet of paper."""
    table_rows = method_rows(setting, whole=True)
    titles = list(table_rows[0].cells)
    parts = []
    for start in range(0, len(titles), COLUMNS_THAT_FIT):
        first_columns = {"seeds": _seeds_cell} if start == 0 else {}
        part = titles[start : start + COLUMNS_THAT_FIT]
        parts.append(
            _methods_table_html(setting, palette, table_rows=table_rows, first_columns=first_columns, titles=part)
        )
    return "".join(parts)


def _methods_table_html(
    setting: Setting,
    palette: Palette,
    *,
    table_rows: Sequence[Row],
    first_columns: Mapping[str, Callable[[Row], Cell]],
    titles: Sequence[str],
) -> str:
    """Return a table of the methods: the first columns, then the cells under these titles."""
    bold = bold_cells(setting, table_rows)
    body = [
        [
            Cell(row.label, kind="name", prefix=_swatch_html(palette, row.label)),
            *[make_cell(row) for make_cell in first_columns.values()],
            *[Cell(row.cells[title], row.values[title], (row.label, title) in bold) for title in titles],
        ]
        for row in table_rows
    ]
    return sortable_table_html(["method", *first_columns, *titles], body)


def _seeds_cell(row: Row) -> Cell:
    """Return the number of seeds, and how many of them are finished where some are not."""
    if row.finished < row.seeds:
        text = f"{row.finished}/{row.seeds} done"
    else:
        text = f"{row.seeds}"
    return Cell(text, row.seeds)


def _swatch_html(palette: Palette, label: str) -> str:
    return f'<span class="swatch" style="border-color:{palette.colour(label)}"></span>'


def _verdict_cell(row: Row) -> Cell:
    """Return the verdict on a method in its colour, and how many of its runs diverged."""
    if row.diverged:
        return Cell(f"{row.verdict}, diverged {row.diverged}/{row.seeds}", kind="verdict bad")
    return Cell(row.verdict, kind=f"verdict {_verdict_class(row.comparison)}")


def _verdict_class(comparison: Comparison | None) -> str:
    """Return the CSS class of a verdict; one that is not fair has that of the undecided."""
    if comparison is None:
        return "even"
    if comparison.unlike:
        return "open"
    return VERDICT_CLASSES[comparison.verdict]


def _best_values_html(setting: Setting) -> str:
    """Return the table of each method at its best value, where a study tries several."""
    variants_by_method = variants({label: runs[0].config for label, runs in setting.methods.items()})
    if not variants_by_method:
        return ""
    comparisons = setting.against_baseline()
    end_title = f"{setting.end_title} {setting.metric}{percent_ending(setting.metric)}"
    columns = ["method", "tried", "best value", end_title, f"− {setting.baseline}"]
    table = Table("Best of each method", columns, notes=[BEST_OF])
    for name, parameters_by_label in variants_by_method.items():
        means: dict[str, float] = {}
        for label in parameters_by_label:
            mean = setting.mean(label, setting.end_figure)
            if mean is not None and math.isfinite(mean):
                means[label] = mean
        if not means:
            continue
        choose = max if setting.higher_is_better else min
        best = choose(means, key=lambda label: means[label])
        values = ", ".join(f"{key}={value_text(value)}" for key, value in parameters_by_label[best].items())
        table.rows.append(
            [
                name,
                str(len(parameters_by_label)),
                values,
                mean_text(means[best], setting.metric),
                difference_text(comparisons.get(best)),
            ]
        )
    return table_html(table)


def all_settings_html(gathered: Gathered, look: Look, canvas: Canvas) -> str:
    """Return ranks, profiles, sweeps and the count of verdicts as markup; empty for a single setting."""
    if len(gathered.settings) < 2:
        return ""
    charts = [*across.draw_charts(gathered, look), *swept_values.draw_charts(gathered, look)]
    figures_html = "".join(canvas.add_chart(ALL_SETTINGS, chart) for chart in charts)
    tables_before = f"<h3>All settings</h3>{_wins_html(gathered)}"
    return f'{tables_before}<div class="figures">{figures_html}</div>{_settings_html(gathered)}'


def _wins_html(gathered: Gathered) -> str:
    """Return how often each method was found better, worse, equal or undecided over settings."""
    counts_by_label = count_verdicts([setting.against_baseline() for setting in gathered.settings])
    if not counts_by_label:
        return ""
    table = Table("Verdicts over settings", ["method", *VERDICTS])
    for label, counts in counts_by_label.items():
        table.rows.append([label, *[str(counts[verdict]) for verdict in VERDICTS]])
    note = several_settings_note(len(gathered.settings))
    table.notes = [f"{note} The sentence at the top of the page takes all comparisons together."]
    return table_html(table)


def _settings_html(gathered: Gathered) -> str:
    """Return one row a setting and method, the swept values as columns."""
    values_by_setting = find_swept_values({setting.name: setting.first.config for setting in gathered.settings})
    keys = list(next(iter(values_by_setting.values())))
    if len(keys) > MOST_SWEPT_KEYS:
        keys = []
    titles = {setting.end_title for setting in gathered.settings}
    end_title = titles.pop() if len(titles) == 1 else "at the end"
    metrics = {setting.metric for setting in gathered.settings}
    if metrics == {"accuracy"}:
        end_title += percent_ending("accuracy")
    body = []
    for setting in gathered.settings:
        values = [Cell(value_text(values_by_setting[setting.name][key])) for key in keys]
        for label in setting.methods:
            comparison = setting.against_baseline().get(label)
            mean = setting.mean(label, setting.end_figure)
            body.append(
                [
                    Cell(setting.name, kind="name"),
                    *values,
                    Cell(label),
                    _end_cell(mean, setting.metric, names_unit=len(metrics) > 1),
                    Cell(difference_text(comparison), comparison.difference if comparison else None),
                    Cell(verdict_text(comparison) or "–", kind=f"verdict {_verdict_class(comparison)}"),
                ]
            )
    table = sortable_table_html(["setting", *keys, "method", end_title, "− baseline", "verdict"], body)
    return f"<details><summary>Every setting and method</summary>{table}</details>"


def _end_cell(mean: float | None, metric: str, *, names_unit: bool) -> Cell:
    """Return the mean at the end; with its unit, where the heading cannot say it for all settings."""
    if mean is None:
        return Cell("")
    text = mean_text(mean, metric)
    if names_unit and metric == "accuracy":
        text += " %"
    return Cell(text, mean)
